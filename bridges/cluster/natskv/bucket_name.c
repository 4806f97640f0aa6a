#include <string.h>

#include "bridges/cluster/natskv/natskv_options.h"

bool natskv_bucket_name_valid(const char *name)
{
    size_t size = strlen(name);
    return size >= 1 && size <= NATSKV_MAX_BUCKET_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == size;
}
