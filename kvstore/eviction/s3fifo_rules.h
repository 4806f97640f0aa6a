/*
 * s3fifo_rules: the rules of S3-FIFO (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO Queues
 * are All You Need for Cache Eviction", SOSP 2023), for the two modules that keep its queues: the
 * cache, which queues entries, and s3fifo, which queues hashes. A new key goes to a small queue,
 * which has a tenth of the bytes; a key that was used S3FIFO_PROMOTING_USES times by the time it is
 * the oldest there moves to the main queue, the others are evicted and leave a ghost, by which they
 * come into the main queue if they come back soon. The oldest key of the main queue is evicted if
 * it was not used since it was last looked at, else it goes to the queue's end with one use less.
 *
 * A ghost is a fingerprint of 16 bits of a hash, beside the epoch in which it was left. A later
 * ghost may take its place: then it is forgotten earlier than it should.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_KVSTORE_EVICTION_S3FIFO_RULES_H
#define MQKV_KVSTORE_EVICTION_S3FIFO_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* The small queue's part of all bytes. */
#define S3FIFO_SMALL_SHARE 10u

#define S3FIFO_PROMOTING_USES 2u

/* Uses are counted up to this. */
#define S3FIFO_MOST_USES 3u

/* Returns true if the next key to look at is the small queue's oldest, of all_bytes that both may
 * have. */
static inline bool s3fifo_takes_from_small(uint64_t small_bytes, uint64_t main_count,
                                           uint64_t all_bytes)
{
    return main_count == 0 || small_bytes > all_bytes / S3FIFO_SMALL_SHARE;
}

/* Returns true if a key that was used `uses` times goes to the main queue's end; else it is
 * evicted, and leaves a ghost if it was the small queue's. */
static inline bool s3fifo_spares(bool from_small, unsigned uses)
{
    return uses >= (from_small ? S3FIFO_PROMOTING_USES : 1);
}

/* The uses of a key that was spared, of the `uses` that it had. */
static inline unsigned s3fifo_uses_left(bool from_small, unsigned uses)
{
    return from_small ? 0 : uses - 1;
}

struct s3fifo_ghost {
    uint16_t bits;  /* the upper ones of the hash; the lower ones are the place */
    uint16_t epoch; /* 0: a free place */
};

struct s3fifo_ghosts {
    struct s3fifo_ghost *places;
    uint32_t mask;
    uint16_t epoch;           /* never 0 */
    uint64_t epoch_evictions; /* in this epoch, from the small queue */
};

/* Makes an empty table of `places`, a power of two. False: out of memory. */
bool s3fifo_ghosts_begin(struct s3fifo_ghosts *ghosts, uint32_t places);
void s3fifo_ghosts_end(struct s3fifo_ghosts *ghosts);

/* Doubles the table if main_count, the keys of the main queue, are more than its places. Without
 * memory the table stays as it is. */
void s3fifo_ghosts_expect(struct s3fifo_ghosts *ghosts, uint64_t main_count);

/* The key of `hash` was evicted from the small queue. */
void s3fifo_ghosts_leave(struct s3fifo_ghosts *ghosts, uint32_t hash, uint64_t main_count);

/* Returns true if the key of `hash` was evicted from the small queue no longer ago than about as
 * many keys as the main queue has. */
bool s3fifo_ghosts_has(const struct s3fifo_ghosts *ghosts, uint32_t hash);

uint64_t s3fifo_ghosts_memory_bytes(const struct s3fifo_ghosts *ghosts);

#endif
