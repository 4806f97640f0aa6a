#include "serverk/daemon/start_user.h"

#include <unistd.h>

#include "common/report/error.h"
#include "wire/own_user.h"

enum kv_status start_user_check(struct kv_error *error)
{
    if (!wire_uid_is_shared(geteuid()))
        return KV_OK;
    return kv_error_set(error, KV_DENIED,
                        "serverk runs as uid %u, as which this user namespace shows all users that "
                        "it does not map (/proc/self/uid_map): each of them would be its owner. "
                        "Run it as another user that is mapped (of a container: USER 1000, --user)",
                        (unsigned)geteuid());
}
