#include "clientk/session/ring_hindrance.h"

#include <stddef.h>

const char *ring_hindrance_explain(enum ring_hindrance hindrance)
{
    static const char *const clauses[] = {
        [RING_POSSIBLE] = NULL,
        [RING_NOT_WANTED] = "this client asks for a reply queue (replies, MQKV_REPLIES)",
        [RING_OTHER_USER] = "the server belongs to another user",
        [RING_NOT_OFFERED] = "the server does not offer it (serverk --replies queue, or an older "
                             "version)",
        [RING_OTHER_MEMORY] = "the server sees another /dev/shm (a container or mount namespace of "
                              "its own)",
        [RING_NO_MEMORY] = "no shared memory could be created (df /dev/shm)",
        [RING_WATCHED] = "an event loop waits for a descriptor (clientk_pipeline_fd)"};
    return clauses[hindrance];
}
