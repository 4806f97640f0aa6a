#include "clientk/message/key_hash.h"

#include "common/cursor.h"

/* The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators):
 * every bit of the input changes half of the bits of the output. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t key_hash(struct kv_slice key)
{
    const uint8_t *at = key.data;
    size_t left = key.size;
    uint64_t hash = mix(left);
    for (; left >= 8; at += 8, left -= 8)
        hash = mix(hash ^ load_u64(at));
    uint64_t tail = 0;
    for (size_t i = 0; i < left; i++)
        tail |= (uint64_t)at[i] << (8 * i);
    return mix(hash ^ tail);
}
