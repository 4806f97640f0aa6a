/*
 * s3fifo: which key of a data file is evicted next, by the rules of S3-FIFO (s3fifo_rules).
 *
 * A policy knows hashes of 32 bits, the index's, and no keys: of two keys with one hash either may
 * be evicted. The caller finds the key of a hash, if there is one. A key that goes otherwise than
 * by eviction stays in its queue, with a mark (hash_marks); when there are many marks, the queues
 * are cleaned piece by piece.
 *
 * Memory for each key: 8 bytes in a queue, 4 to 8 of ghosts for each in the main queue, half
 * a byte to one of counts.
 *
 * Threads: s3fifo_use: any. The rest: one at a time (the data file's lock for writing).
 */
#ifndef MQKV_KVSTORE_EVICTION_S3FIFO_H
#define MQKV_KVSTORE_EVICTION_S3FIFO_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/eviction/use_counts.h"

struct s3fifo;

/* NULL: out of memory. */
struct s3fifo *s3fifo_create(void);
void s3fifo_free(struct s3fifo *policy);

/* Adds a new key, whose record has `bytes`. Without memory the key is never evicted. */
void s3fifo_insert(struct s3fifo *policy, uint32_t hash, uint64_t bytes);

/* Adds a key that was there before the policy began; called from the oldest key to the newest. */
void s3fifo_restore(struct s3fifo *policy, uint32_t hash);

/* Notes that a key has gone otherwise than by eviction. */
void s3fifo_forget(struct s3fifo *policy, uint32_t hash);

/* Takes the hash to be evicted next out of its queue. False: there is none. file_bytes: the bytes
 * of all records. */
bool s3fifo_next(struct s3fifo *policy, uint64_t file_bytes, uint32_t *hash);

/* Notes that the key which s3fifo_next gave has gone, of which s3fifo_forget was told as of any
 * other key. */
void s3fifo_was_evicted(struct s3fifo *policy, uint32_t hash);

/* Puts a hash that s3fifo_next gave, but whose key could not be evicted, into the main queue. */
void s3fifo_spare(struct s3fifo *policy, uint32_t hash);

/* Number of keys in the queues, those that have gone included. */
uint64_t s3fifo_count(const struct s3fifo *policy);

uint64_t s3fifo_memory_bytes(const struct s3fifo *policy);

/* For s3fifo_use. */
struct use_counts *s3fifo_counts(struct s3fifo *policy);

/* Notes that the key of `hash` was read, or replaced. */
static inline void s3fifo_use(struct s3fifo *policy, uint32_t hash)
{
    use_counts_add(s3fifo_counts(policy), hash);
}

#endif
