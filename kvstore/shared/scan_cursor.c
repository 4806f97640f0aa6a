#include "kvstore/shared/scan_cursor.h"

#define LOW_BITS  20u /* of a cursor, below the hash */
#define SEAL_AT   10u
#define MAX_SEAL  1023u
#define ROUNDS    4u
#define HALF_BITS 16u
#define HALF_MASK UINT64_C(0xffff)
#define TIE_MASK  ((UINT64_C(1) << SCAN_TIE_BITS) - 1)

/* What a number is turned into, for different uses. */
enum use { USE_ROUND_0, USE_SEAL = ROUNDS, USE_TIE };

static uint64_t scrambled(const struct hash_key *key, enum use use, uint32_t file, uint64_t number)
{
    uint8_t bytes[24];
    store_u64(bytes, UINT64_C(0x726f73727563) << 8 | (uint64_t)use);
    store_u64(bytes + 8, file);
    store_u64(bytes + 16, number);
    return keyhash(key, kv_slice(bytes, sizeof bytes));
}

/* A permutation of 32 bits (M. Luby, C. Rackoff, "How to construct pseudorandom permutations from
 * pseudorandom functions", SIAM J. Comput. 17(2), 1988), and its inverse. */
static uint64_t enciphered(const struct hash_key *key, uint32_t file, uint64_t hash)
{
    uint64_t left = hash >> HALF_BITS, right = hash & HALF_MASK;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (scrambled(key, (enum use)round, file, right) & HALF_MASK);
        left = right;
        right = next;
    }
    return left << HALF_BITS | right;
}

static uint64_t deciphered(const struct hash_key *key, uint32_t file, uint64_t hash)
{
    uint64_t left = hash >> HALF_BITS, right = hash & HALF_MASK;
    for (unsigned round = ROUNDS; round-- > 0;) {
        uint64_t before = right ^ (scrambled(key, (enum use)round, file, left) & HALF_MASK);
        right = left;
        left = before;
    }
    return left << HALF_BITS | right;
}

static uint64_t low_bits(const struct hash_key *key, uint32_t file, uint64_t hash, uint64_t tie)
{
    if (tie == 0)
        return (scrambled(key, USE_SEAL, file, hash) % MAX_SEAL + 1) << SEAL_AT;
    return ((tie ^ scrambled(key, USE_TIE, file, hash)) & TIE_MASK) << 1 | 1;
}

uint64_t scan_cursor_of_position(const struct hash_key *key, uint64_t position)
{
    uint32_t file = (uint32_t)(position >> (SCAN_HASH_BITS + SCAN_TIE_BITS));
    uint64_t hash = position >> SCAN_TIE_BITS & UINT32_MAX;
    uint64_t tie = position & TIE_MASK;
    uint64_t beginning = (uint64_t)file << (SCAN_HASH_BITS + LOW_BITS);
    if (hash == 0 && tie == 0)
        return beginning;
    return beginning | enciphered(key, file, hash) << LOW_BITS | low_bits(key, file, hash, tie);
}

bool scan_cursor_position(const struct hash_key *key, uint64_t cursor, uint64_t *position)
{
    uint32_t file = (uint32_t)(cursor >> (SCAN_HASH_BITS + LOW_BITS));
    uint64_t beginning = (uint64_t)file << (SCAN_HASH_BITS + SCAN_TIE_BITS);
    uint64_t low = cursor & ((UINT64_C(1) << LOW_BITS) - 1);
    *position = beginning;
    if (cursor << SCAN_FILE_BITS == 0)
        return true;
    uint64_t hash = deciphered(key, file, cursor >> LOW_BITS & UINT32_MAX);
    uint64_t tie = low % 2 == 0 ? 0 : (low >> 1 ^ scrambled(key, USE_TIE, file, hash)) & TIE_MASK;
    *position = beginning | hash << SCAN_TIE_BITS | tie;
    return (hash != 0 || tie != 0) && low_bits(key, file, hash, tie) == low;
}

/* By insertion: there are hardly ever more than two. */
void scan_sort_stops(struct scan_stop *stops, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct scan_stop stop = stops[i];
        size_t at = i;
        for (; at > 0 && stops[at - 1].position > stop.position; at--)
            stops[at] = stops[at - 1];
        stops[at] = stop;
    }
}
