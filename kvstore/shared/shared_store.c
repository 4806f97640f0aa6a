#include "kvstore/shared/shared_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct shared_store_name shared_store_name(dev_t device, ino_t inode)
{
    return shared_store_numbered_name(device, inode, 0);
}

struct shared_store_name shared_store_numbered_name(dev_t device, ino_t inode, uint64_t number)
{
    struct shared_store_name name;
    int length = snprintf(name.text, sizeof name.text, "/mqkv.store.%" PRIx64 ".%" PRIx64,
                          (uint64_t)device, (uint64_t)inode);
    if (number != 0)
        snprintf(name.text + length, sizeof name.text - (size_t)length, ".%" PRIx64, number);
    return name;
}

bool shared_store_parse_name(const char *name, uint64_t *device, uint64_t *inode, uint64_t *number)
{
    *number = 0;
    if (sscanf(name, "mqkv.store.%" SCNx64 ".%" SCNx64 ".%" SCNx64, device, inode, number) < 2)
        return false;
    struct shared_store_name right =
        shared_store_numbered_name((dev_t)*device, (ino_t)*inode, *number);
    return strcmp(right.text + 1, name) == 0;
}
