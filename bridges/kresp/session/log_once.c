#include "bridges/kresp/session/log_once.h"

#include <stdio.h>
#include <string.h>

bool log_once_is_new(struct log_once *seen, const char *name)
{
    pthread_mutex_lock(&seen->lock);
    bool is_new = seen->count < LOG_ONCE_NAMES;
    for (size_t i = 0; i < seen->count && is_new; i++)
        is_new = strncmp(seen->names[i], name, LOG_ONCE_NAME_BYTES - 1) != 0;
    if (is_new)
        snprintf(seen->names[seen->count++], LOG_ONCE_NAME_BYTES, "%s", name);
    pthread_mutex_unlock(&seen->lock);
    return is_new;
}
