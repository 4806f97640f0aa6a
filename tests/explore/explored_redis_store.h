/*
 * explored_redis_store: a store for harnesses of kresp, in place of session/redis_store.c, whose
 * functions it wraps: each operation takes effect at one moment, a batch takes its time, and by the
 * seed a batch fails, as a server does that is overloaded, away, or answers too late.
 */
#ifndef MQKV_TESTS_EXPLORED_REDIS_STORE_H
#define MQKV_TESTS_EXPLORED_REDIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* Forgets all keys. late_ms: the longest that a batch takes; may_fail: batches may fail. */
void explored_redis_store_begin(uint32_t late_ms, bool may_fail);

/* Frees all keys. */
void explored_redis_store_end(void);

/* The value of the key, until the next operation on it; size 0: it is absent, or empty. */
struct kv_slice explored_redis_store_value(const char *key);

void explored_redis_store_put(const char *key, const void *value, size_t size);

/* Is called after each read of a value, of so many bytes, by the batch of that number. */
extern void (*explored_redis_store_note_read)(unsigned batch, struct kv_slice key, size_t bytes);

#endif
