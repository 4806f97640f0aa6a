/*
 * key_hash: 64 bits that stand for a key. Two keys with the same hash cost time, never correctness.
 */
#ifndef MQKV_CLIENTK_MESSAGE_KEY_HASH_H
#define MQKV_CLIENTK_MESSAGE_KEY_HASH_H

#include <stdint.h>

#include "mqkv/slice.h"

uint64_t key_hash(struct kv_slice key);

#endif
