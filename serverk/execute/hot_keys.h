/*
 * hot_keys: which keys are asked for most, while somebody wants to know: the Space-Saving sketch
 * (Metwally, Agrawal and El Abbadi, ICDT 2005) over the operations of the messages that workers
 * show it. It keeps HOT_KEYS counters: a key that has more than a share of 1/HOT_KEYS is surely
 * among them, and its count is too high by `error` at most.
 *
 * Threads: any. A worker that finds it in use leaves its message out.
 */
#ifndef MQKV_SERVERK_EXECUTE_HOT_KEYS_H
#define MQKV_SERVERK_EXECUTE_HOT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/slice.h"

#define HOT_KEYS            256u
#define HOT_KEY_BYTES       128u /* of a key that are kept */
#define HOT_KEYS_LONGEST_MS 60000u

struct hot_key {
    uint64_t hash; /* of the whole key */
    uint64_t count, error;
    uint32_t key_bytes;
    char key[HOT_KEY_BYTES];
};

struct hot_keys;

/* NULL: out of memory. */
struct hot_keys *hot_keys_create(void);
void hot_keys_free(struct hot_keys *hot_keys);

/* Begins to count anew, for `duration_ms`. */
void hot_keys_begin(struct hot_keys *hot_keys, uint64_t duration_ms);

/* False: the time is over, and messages need not be shown any more. */
bool hot_keys_wanted(const struct hot_keys *hot_keys);

/* Counts the `count` operations of a message. */
void hot_keys_show(struct hot_keys *hot_keys, struct read_cursor operations, unsigned count);

/* Copies the counters, the highest first, to `keys`, which has HOT_KEYS. Returns how many; *seen:
 * the operations that were shown. */
unsigned hot_keys_take(struct hot_keys *hot_keys, struct hot_key *keys, uint64_t *seen);

static inline struct kv_slice hot_key_text(const struct hot_key *key)
{
    return kv_slice(key->key, key->key_bytes < HOT_KEY_BYTES ? key->key_bytes : HOT_KEY_BYTES);
}

#endif
