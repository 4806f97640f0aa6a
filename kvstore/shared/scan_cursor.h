/*
 * scan_cursor: what a scan gives its caller to go on with, and what comes back. The order of a scan
 * is that of hashes (store_scan.c), which stay secret: whoever knows them finds keys that crowd in
 * one place of the index. So a position is given away enciphered, with a key that follows from the
 * store's hash key, and is thus valid as long as the store is:
 *
 *   63 .. 52 data file | 51 .. 20 hash, enciphered | 19 .. 10 seal | 9 .. 0 zero
 *
 * The seal is never 0, so that a cursor of an older version, which was the hash itself, is none; of
 * others, made up, one in a thousand passes. The low zeros make it exact as a double where there
 * are no more than 2,048 files. A position between two keys of one hash, which is rare, has no room
 * for a seal:
 *
 *   63 .. 52 data file | 51 .. 20 hash, enciphered | 19 .. 1 tie, enciphered | 0 one
 *
 * The beginning of a data file is its number, and zeros, whatever the key.
 *
 * Threads: any.
 */
#ifndef MQKV_KVSTORE_SHARED_SCAN_CURSOR_H
#define MQKV_KVSTORE_SHARED_SCAN_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvstore/format/keyhash.h"

/* A position: data file, 12 bits; hash of the index; tie. */
#define SCAN_TIE_BITS  19u
#define SCAN_HASH_BITS 32u
#define SCAN_FILE_BITS 12u

static inline uint64_t scan_position(uint64_t file, uint64_t hash, uint64_t tie)
{
    return file << (SCAN_HASH_BITS + SCAN_TIE_BITS) | hash << SCAN_TIE_BITS | tie;
}

static inline uint32_t scan_position_file(uint64_t position)
{
    return (uint32_t)(position >> (SCAN_HASH_BITS + SCAN_TIE_BITS));
}

static inline uint32_t scan_position_hash(uint64_t position)
{
    return (uint32_t)(position >> SCAN_TIE_BITS);
}

/* What orders keys of one hash of the index: `hash` is all of keyhash. */
static inline uint64_t scan_tie(uint64_t hash)
{
    return hash & ((UINT64_C(1) << SCAN_TIE_BITS) - 1);
}

/* An item of the index whose record a scan is to visit. */
struct scan_stop {
    uint64_t position; /* of the item, or one before it with no other item in between */
    uint64_t next;     /* where to continue behind the item */
    uint64_t offset;   /* of the record, in the log */
};

/* Sorts the stops by position. */
void scan_sort_stops(struct scan_stop *stops, size_t count);

/* Not of the place after the last data file of 4096. */
uint64_t scan_cursor_of_position(const struct hash_key *key, uint64_t position);

/* False: it is none that the above has given. */
bool scan_cursor_position(const struct hash_key *key, uint64_t cursor, uint64_t *position);

#endif
