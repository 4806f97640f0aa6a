#include "kvstore/shared/shared_store.h"

#include <inttypes.h>
#include <stdio.h>

struct shared_store_name shared_store_name(dev_t device, ino_t inode)
{
    struct shared_store_name name;
    snprintf(name.text, sizeof name.text, "/mqkv.store.%" PRIx64 ".%" PRIx64, (uint64_t)device,
             (uint64_t)inode);
    return name;
}
