#include "serverk/execute/hot_keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "wire/operation.h"
#include "wire/transact_value.h"

/* The operations of one message, steps of transactions among them, that are counted at most. */
#define MAX_OPERATIONS 64u

struct hot_keys {
    _Atomic uint64_t until_ms; /* monotonic; 0: nobody wants to know */
    uint64_t seed;             /* of the hashes: who chooses keys does not know it */
    pthread_mutex_t lock;      /* what follows */
    uint64_t seen;
    unsigned count;
    struct hot_key keys[HOT_KEYS];
};

struct hot_keys *hot_keys_create(void)
{
    struct hot_keys *hot_keys = calloc(1, sizeof *hot_keys);
    if (!hot_keys)
        return NULL;
    pthread_mutex_init(&hot_keys->lock, NULL);
    hot_keys->seed = random_secret();
    return hot_keys;
}

void hot_keys_free(struct hot_keys *hot_keys)
{
    if (hot_keys)
        pthread_mutex_destroy(&hot_keys->lock);
    free(hot_keys);
}

void hot_keys_begin(struct hot_keys *hot_keys, uint64_t duration_ms)
{
    pthread_mutex_lock(&hot_keys->lock);
    hot_keys->seen = 0;
    hot_keys->count = 0;
    pthread_mutex_unlock(&hot_keys->lock);
    atomic_store(&hot_keys->until_ms, clock_monotonic_coarse_ms() + duration_ms);
}

bool hot_keys_wanted(const struct hot_keys *hot_keys)
{
    return clock_monotonic_coarse_ms() < atomic_load(&hot_keys->until_ms);
}

/* FNV-1a, from a secret start. */
static uint64_t hash_hot_key(const struct hot_keys *hot_keys, struct kv_slice key)
{
    const uint8_t *bytes = key.data;
    uint64_t hash = hot_keys->seed ^ key.size;
    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Holds: lock. */
static void count_key(struct hot_keys *hot_keys, struct kv_slice key)
{
    uint64_t hash = hash_hot_key(hot_keys, key);
    struct hot_key *least = hot_keys->keys;
    hot_keys->seen++;
    for (struct hot_key *hot = hot_keys->keys; hot < hot_keys->keys + hot_keys->count; hot++) {
        if (hot->hash == hash && hot->key_bytes == key.size) {
            hot->count++;
            return;
        }
        if (hot->count < least->count)
            least = hot;
    }
    if (hot_keys->count < HOT_KEYS) {
        least = &hot_keys->keys[hot_keys->count++];
        least->count = 0;
    }
    least->error = least->count++;
    least->hash = hash;
    least->key_bytes = (uint32_t)key.size;
    memcpy(least->key, key.data, key.size < HOT_KEY_BYTES ? key.size : HOT_KEY_BYTES);
}

/* Counts `most` keys at most. Returns how many. Holds: lock. */
static unsigned count_transaction(struct hot_keys *hot_keys, struct kv_slice value, unsigned most)
{
    struct wire_transaction_keys keys = wire_keys_of_transaction(value);
    struct kv_slice key;
    unsigned counted = 0;
    for (; counted < most && wire_next_transaction_key(&keys, &key); counted++)
        count_key(hot_keys, key);
    return counted;
}

void hot_keys_show(struct hot_keys *hot_keys, struct read_cursor operations, unsigned count)
{
    if (pthread_mutex_trylock(&hot_keys->lock) != 0)
        return;
    unsigned left = MAX_OPERATIONS;
    for (unsigned i = 0; i < count && left > 0; i++, left--) {
        struct wire_operation operation;
        if (wire_get_operation(&operations, &operation) != KV_OK)
            break;
        bool of_a_key = operation.opcode <= WIRE_OP_TOUCH;
        if (of_a_key)
            count_key(hot_keys, operation.key);
        else if (operation.opcode == WIRE_OP_TRANSACT)
            left -= count_transaction(hot_keys, operation.value, left - 1);
    }
    pthread_mutex_unlock(&hot_keys->lock);
}

static int compare_hot_keys(const void *left, const void *right)
{
    const struct hot_key *a = left, *b = right;
    return a->count < b->count ? 1 : a->count > b->count ? -1 : 0;
}

/* What the counters say together: of Space-Saving, each operation that was shown. Holds: lock. */
static uint64_t sum_of_counters(const struct hot_keys *hot_keys)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < hot_keys->count; i++) {
        KV_ASSERT(hot_keys->keys[i].error < hot_keys->keys[i].count);
        sum += hot_keys->keys[i].count;
    }
    return sum;
}

unsigned hot_keys_take(struct hot_keys *hot_keys, struct hot_key *keys, uint64_t *seen)
{
    pthread_mutex_lock(&hot_keys->lock);
    unsigned count = hot_keys->count;
    KV_ASSERT(sum_of_counters(hot_keys) == hot_keys->seen);
    *seen = hot_keys->seen;
    memcpy(keys, hot_keys->keys, count * sizeof *keys);
    pthread_mutex_unlock(&hot_keys->lock);
    qsort(keys, count, sizeof *keys, compare_hot_keys);
    return count;
}
