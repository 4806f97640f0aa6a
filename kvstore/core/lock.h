/*
 * lock: the locks of a store. A strategy decides how many there are (one, or one per data file) and of
 * which kind (lock_kind.h); callers name the data file and whether they read or write. The default
 * strategy is here, a reader-writer lock per data file; others are variants (variants.h). The cache
 * has a set of its own, a mutex per shard.
 *
 * The lock order of the engine is in ARCHITECTURE.md.
 */
#ifndef MQKV_KVSTORE_CORE_LOCK_H
#define MQKV_KVSTORE_CORE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/kvstore.h"

struct lockset;

/* Locks for `datafiles` files; `locking` and `preference` are some that have a name
 * (kvstore_locking_name, kvstore_rwlock_name). Mutexes have no preference. NULL: out of memory, or
 * `locking` has no name. */
struct lockset *lockset_create(enum kvstore_locking locking, enum kvstore_rwlock preference,
                               uint32_t datafiles);

/* `count` mutexes. NULL: out of memory. */
struct lockset *lockset_create_mutexes(uint32_t count);

/* NULL is harmless. */
void lockset_free(struct lockset *locks);

void lockset_read_lock(struct lockset *locks, uint32_t file);
/* Takes it if that is possible within so many milliseconds; 0: at once. */
bool lockset_try_read_lock(struct lockset *locks, uint32_t file, unsigned patience_ms);
void lockset_read_unlock(struct lockset *locks, uint32_t file);
void lockset_write_lock(struct lockset *locks, uint32_t file);
void lockset_write_unlock(struct lockset *locks, uint32_t file);

/* From now on before_unlock is called by each thread that is about to release one of the locks,
 * and still holds it. */
void lockset_set_before_unlock(struct lockset *locks, void (*before_unlock)(void));

/* Every lock, in the order of the files: the one case in which a thread holds more than one. */
void lockset_write_lock_all(struct lockset *locks);
/* The same if it is possible within so many milliseconds. */
bool lockset_try_write_lock_all(struct lockset *locks, unsigned patience_ms);
void lockset_write_unlock_all(struct lockset *locks);

/* In a process just forked by a thread that held every lock: makes them anew, free. (Its copies say
 * that they are held by a thread of the parent.) */
void lockset_renew(struct lockset *locks);

/* Memory of the locks. */
uint64_t lockset_memory_bytes(const struct lockset *locks);

#endif
