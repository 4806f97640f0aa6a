#include "kvstore/eviction/s3fifo.h"

#include <stdlib.h>
#include <string.h>

#include "kvstore/eviction/hash_marks.h"
#include "kvstore/eviction/hash_queue.h"

/* The small queue's part of the bytes. */
#define SMALL_SHARE 10u

/* What was used so often while it was in the small queue comes into the main queue. */
#define PROMOTING_USES 2u

/* Sizes of records are kept in these units. */
#define UNIT_BYTES 8u

/* One call moves so many on that are spared; then the next is evicted although it was used. The
 * caller holds a lock. */
#define MOST_SPARED 4096u

/* The queues are cleaned when more than one in so many of their keys has gone, and so many. */
#define GONE_PART  4u
#define GONE_FIRST 1024u

/* The main queue's length is divided into so many epochs: a fingerprint is good for as many. */
#define EPOCHS 16u

#define FIRST_PRINTS 1024u
#define MOST_PRINTS  (UINT32_C(1) << 31)

/* The fingerprint of a key that was evicted from the small queue: the upper bits of its hash, and
 * when. A later one may take its place. */
struct print {
    uint16_t bits;
    uint16_t epoch;
};

struct s3fifo {
    struct use_counts counts;
    struct hash_queue small, main;
    struct hash_marks gone;
    struct print *prints; /* at the lower bits of the hash */
    uint32_t print_mask;
    uint16_t epoch;           /* never 0, which a free place has */
    uint64_t epoch_evictions; /* from the small queue, in this epoch */
    unsigned spared;          /* since s3fifo_next was called */
};

struct s3fifo *s3fifo_create(void)
{
    struct s3fifo *policy = calloc(1, sizeof *policy);
    struct print *prints = calloc(FIRST_PRINTS, sizeof *prints);
    if (!policy || !prints || !use_counts_begin(&policy->counts)) {
        free(policy);
        free(prints);
        return NULL;
    }
    policy->prints = prints;
    policy->print_mask = FIRST_PRINTS - 1;
    policy->epoch = EPOCHS + 1;
    return policy;
}

void s3fifo_free(struct s3fifo *policy)
{
    if (!policy)
        return;
    use_counts_end(&policy->counts);
    hash_queue_free(&policy->small);
    hash_queue_free(&policy->main);
    hash_marks_clear(&policy->gone);
    free(policy->prints);
    free(policy);
}

struct use_counts *s3fifo_counts(struct s3fifo *policy)
{
    return &policy->counts;
}

/* Fingerprints --------------------------------------------------------------------------------- */

static uint16_t print_bits(uint32_t hash)
{
    return (uint16_t)(hash >> 16);
}

/* Both places that the keys of one go to begin with its fingerprint. */
static void grow_prints(struct s3fifo *policy)
{
    size_t count = (size_t)policy->print_mask + 1;
    if (policy->main.count <= count || count >= MOST_PRINTS)
        return;
    struct print *larger = realloc(policy->prints, 2 * count * sizeof *larger);
    if (!larger)
        return;
    memcpy(larger + count, larger, count * sizeof *larger);
    policy->prints = larger;
    policy->print_mask = (uint32_t)(2 * count - 1);
}

static void leave_print(struct s3fifo *policy, uint32_t hash)
{
    policy->prints[hash & policy->print_mask] = (struct print){print_bits(hash), policy->epoch};
    if (++policy->epoch_evictions <= policy->main.count / EPOCHS)
        return;
    policy->epoch_evictions = 0;
    policy->epoch += policy->epoch == UINT16_MAX ? 2 : 1;
}

/* Was it evicted from the small queue no longer ago than as many keys as the main queue has? */
static bool has_print(const struct s3fifo *policy, uint32_t hash)
{
    const struct print *print = &policy->prints[hash & policy->print_mask];
    return print->epoch != 0 && print->bits == print_bits(hash) &&
           (uint16_t)(policy->epoch - print->epoch) <= EPOCHS;
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
    hash_queue_push(has_print(policy, hash) ? &policy->main : &policy->small, item);
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

/* Moves on the oldest of one of the queues; true: it is to be evicted. False, with the queues
 * empty: there is none. */
static bool advance(struct s3fifo *policy, uint64_t file_bytes, uint32_t *hash)
{
    struct queued_hash item;
    bool from_small =
        policy->main.count == 0 || policy->small.units * UNIT_BYTES > file_bytes / SMALL_SHARE;
    if (!hash_queue_pop(from_small ? &policy->small : &policy->main, &item) ||
        hash_marks_take(&policy->gone, item.hash))
        return false;
    *hash = item.hash;
    unsigned uses = use_counts_get(&policy->counts, item.hash);
    if (from_small && uses < PROMOTING_USES) {
        leave_print(policy, item.hash);
        return true;
    }
    if ((!from_small && uses == 0) || policy->spared++ >= MOST_SPARED)
        return true;
    use_counts_set(&policy->counts, item.hash, from_small ? 0 : uses - 1);
    item.units = 0;
    return !hash_queue_push(&policy->main, item);
}

bool s3fifo_next(struct s3fifo *policy, uint64_t file_bytes, uint32_t *hash)
{
    grow_prints(policy);
    policy->spared = 0;
    while (count_of(policy) > 0)
        if (advance(policy, file_bytes, hash))
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
           hash_marks_memory_bytes(&policy->gone) +
           ((uint64_t)policy->print_mask + 1) * sizeof *policy->prints;
}
