#include "clientk/message/key_hash.h"

/* All of it from the header: libclientk needs no other library for it. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t key_hash(struct kv_slice key)
{
    return XXH3_64bits(key.data, key.size);
}
