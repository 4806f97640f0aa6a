#include "clientk/base/own_names.h"

#include <stdatomic.h>
#include <unistd.h>

void name_of_own(char out[WIRE_QUEUE_NAME_BYTES], const char *base, enum wire_queue_role role)
{
    static atomic_uint next_number; /* of all handles: a pid has its names only once */
    wire_queue_name(out, base, role, getpid(), atomic_fetch_add(&next_number, 1));
}
