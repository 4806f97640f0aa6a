/*
 * lock: the locks of a store. A strategy decides how many locks there are (one, or one per data
 * file) and of which kind (lock_kind.h); callers name the data file and whether they read or write.
 * The default strategy, a reader-writer lock per data file, is here; the others are variants
 * (variants.h). The cache has a set of its own, a mutex per shard.
 *
 * The lock order of the engine is in ARCHITECTURE.md.
 */
#ifndef MQKV_KVSTORE_CORE_LOCK_H
#define MQKV_KVSTORE_CORE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/kvstore.h"

struct lockset;

/* Makes the locks of `datafiles` files. `locking` and `preference` have names
 * (kvstore_locking_name, kvstore_rwlock_name); mutexes have no preference. NULL: out of memory, or
 * `locking` has no name. */
struct lockset *lockset_create(enum kvstore_locking locking, enum kvstore_rwlock preference,
                               uint32_t datafiles);

/* Makes `count` mutexes. NULL: out of memory. */
struct lockset *lockset_create_mutexes(uint32_t count);

/* NULL is harmless. */
void lockset_free(struct lockset *locks);

/* A thread takes the lock of one file at a time, once, except by the calls below that take several
 * or all, in the order of the files. */
void lockset_read_lock(struct lockset *locks, uint32_t file);
/* Takes the lock if that is possible within `patience_ms` milliseconds; 0: at once. */
bool lockset_try_read_lock(struct lockset *locks, uint32_t file, unsigned patience_ms);
void lockset_read_unlock(struct lockset *locks, uint32_t file);
void lockset_write_lock(struct lockset *locks, uint32_t file);
void lockset_write_unlock(struct lockset *locks, uint32_t file);

/* Takes the locks of `count` files, whose `numbers` ascend, all for writing or all for reading. */
void lockset_lock_several(struct lockset *locks, const uint32_t *numbers, uint32_t count,
                          bool for_writing);
void lockset_unlock_several(struct lockset *locks, const uint32_t *numbers, uint32_t count,
                            bool for_writing);

/* For KV_ASSERT only (common/assert/assert.h; a release does not know who holds a lock): whether
 * the calling thread holds the lock of `file`, for reading or writing; for writing. */
bool lockset_is_held(const struct lockset *locks, uint32_t file);
bool lockset_is_write_held(const struct lockset *locks, uint32_t file);

/* From now on each thread that is about to release one of the locks, and still holds it, calls
 * before_unlock. */
void lockset_set_before_unlock(struct lockset *locks, void (*before_unlock)(void));

/* Takes every lock. */
void lockset_write_lock_all(struct lockset *locks);
/* Does the same if that is possible within `patience_ms` milliseconds; else takes none. */
bool lockset_try_write_lock_all(struct lockset *locks, unsigned patience_ms);
void lockset_write_unlock_all(struct lockset *locks);

/* In a process just forked by a thread that held every lock: makes the locks anew, free. (The
 * copies in the child say that a thread of the parent holds them.) */
void lockset_renew(struct lockset *locks);

/* Tells how threads have waited for the lock of `file`. Any thread, without it. */
void lockset_facts(const struct lockset *locks, uint32_t file, struct kvstore_lock_facts *facts);

/* Bytes of memory that the locks take. */
uint64_t lockset_memory_bytes(const struct lockset *locks);

#endif
