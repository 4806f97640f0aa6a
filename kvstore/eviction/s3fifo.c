#include "kvstore/eviction/s3fifo.h"

#include <stdlib.h>

#include "kvstore/eviction/hash_marks.h"
#include "kvstore/eviction/hash_queue.h"
#include "kvstore/eviction/s3fifo_rules.h"

/* Sizes of records are kept in these units. */
#define UNIT_BYTES 8u

/* One call spares at most this many keys; then the next one is evicted although it was used. The
 * caller holds a lock. */
#define MOST_SPARED 4096u

/* The queues are cleaned when more of their keys have gone than GONE_FIRST and 1/GONE_PART of
 * all. */
#define GONE_PART  4u
#define GONE_FIRST 1024u

#define FIRST_GHOSTS 1024u

_Static_assert(USE_COUNTS_MAX == S3FIFO_MOST_USES, "counts of two bits");

struct s3fifo {
    struct use_counts counts;
    struct hash_queue small, main;
    struct hash_marks gone;
    struct s3fifo_ghosts ghosts;
    unsigned spared; /* since s3fifo_next was called */
};

struct s3fifo *s3fifo_create(void)
{
    struct s3fifo *policy = calloc(1, sizeof *policy);
    if (policy && use_counts_begin(&policy->counts) &&
        s3fifo_ghosts_begin(&policy->ghosts, FIRST_GHOSTS))
        return policy;
    s3fifo_free(policy);
    return NULL;
}

void s3fifo_free(struct s3fifo *policy)
{
    if (!policy)
        return;
    use_counts_end(&policy->counts);
    hash_queue_free(&policy->small);
    hash_queue_free(&policy->main);
    hash_marks_clear(&policy->gone);
    s3fifo_ghosts_end(&policy->ghosts);
    free(policy);
}

struct use_counts *s3fifo_counts(struct s3fifo *policy)
{
    return &policy->counts;
}

/* Coming and going ----------------------------------------------------------------------------- */

static uint64_t count_of(const struct s3fifo *policy)
{
    return policy->small.count + policy->main.count;
}

void s3fifo_restore(struct s3fifo *policy, uint32_t hash)
{
    hash_queue_push(&policy->main, (struct queued_hash){hash, 0});
    use_counts_expect(&policy->counts, count_of(policy));
}

void s3fifo_insert(struct s3fifo *policy, uint32_t hash, uint64_t bytes)
{
    struct queued_hash item = {hash, (uint32_t)(bytes / UNIT_BYTES)};
    hash_queue_push(s3fifo_ghosts_has(&policy->ghosts, hash) ? &policy->main : &policy->small,
                    item);
    use_counts_expect(&policy->counts, count_of(policy));
    use_counts_set(&policy->counts, hash, 0);
}

static bool take_gone(void *context, uint32_t hash)
{
    return hash_marks_take(context, hash);
}

/* Looks at one block. Marks that are left after all blocks have no key in a queue. */
static void clean(struct s3fifo *policy)
{
    bool in_small = policy->main.cleaned == NULL;
    if (in_small && !hash_queue_clean(&policy->small, take_gone, &policy->gone))
        return;
    if (hash_queue_clean(&policy->main, take_gone, &policy->gone))
        hash_marks_clear(&policy->gone);
}

void s3fifo_forget(struct s3fifo *policy, uint32_t hash)
{
    hash_marks_add(&policy->gone, hash);
    if (policy->gone.count > GONE_FIRST + count_of(policy) / GONE_PART)
        clean(policy);
}

void s3fifo_was_evicted(struct s3fifo *policy, uint32_t hash)
{
    hash_marks_take(&policy->gone, hash);
}

void s3fifo_spare(struct s3fifo *policy, uint32_t hash)
{
    hash_queue_push(&policy->main, (struct queued_hash){hash, 0});
}

/* Evicting ------------------------------------------------------------------------------------- */

/* Takes the oldest hash of one of the queues. True: it is to be evicted. False: it was spared, or
 * its key has gone. */
static bool move_oldest_hash(struct s3fifo *policy, uint64_t file_bytes, uint32_t *hash)
{
    struct queued_hash item;
    bool from_small =
        s3fifo_takes_from_small(policy->small.units * UNIT_BYTES, policy->main.count, file_bytes);
    if (!hash_queue_pop(from_small ? &policy->small : &policy->main, &item) ||
        hash_marks_take(&policy->gone, item.hash))
        return false;
    *hash = item.hash;
    unsigned uses = use_counts_get(&policy->counts, item.hash);
    if (!s3fifo_spares(from_small, uses)) {
        if (from_small)
            s3fifo_ghosts_leave(&policy->ghosts, item.hash, policy->main.count);
        return true;
    }
    if (policy->spared++ >= MOST_SPARED)
        return true;
    use_counts_set(&policy->counts, item.hash, s3fifo_uses_left(from_small, uses));
    item.units = 0;
    return !hash_queue_push(&policy->main, item);
}

bool s3fifo_next(struct s3fifo *policy, uint64_t file_bytes, uint32_t *hash)
{
    s3fifo_ghosts_expect(&policy->ghosts, policy->main.count);
    policy->spared = 0;
    while (count_of(policy) > 0)
        if (move_oldest_hash(policy, file_bytes, hash))
            return true;
    return false;
}

uint64_t s3fifo_count(const struct s3fifo *policy)
{
    return count_of(policy);
}

uint64_t s3fifo_memory_bytes(const struct s3fifo *policy)
{
    return sizeof *policy + use_counts_memory_bytes(&policy->counts) +
           hash_queue_memory_bytes(&policy->small) + hash_queue_memory_bytes(&policy->main) +
           hash_marks_memory_bytes(&policy->gone) + s3fifo_ghosts_memory_bytes(&policy->ghosts);
}
