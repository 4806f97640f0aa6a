/*
 * lock_kind: one lock of a lockset, and the kinds of locks that there are.
 */
#ifndef MQKV_KVSTORE_CORE_LOCK_KIND_H
#define MQKV_KVSTORE_CORE_LOCK_KIND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/memory/machine_sizes.h"

/* One lock, alone on its cache lines: workers at two files share nothing. All that a lock for which
 * nobody waits touches is on the first. */
struct lock {
    _Alignas(CACHE_LINE_BYTES) union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
    };
    _Atomic uint64_t awaited_since_ns; /* since when somebody has waited for the holder, or it has
                                          held what it waited for; 0: nobody has */
    void (*before_unlock)(void);       /* looked at only by call_and_unlock */
    _Atomic uint64_t waits;            /* for which a thread slept; and the longest, and */
    _Atomic uint64_t longest_wait_ns;
    _Atomic uint64_t longest_hold_ns; /* for writing, as far as awaited_since_ns knew of it */
};

/* What a kind of lock can do; results are those of pthreads: 0 or an errno. */
struct lock_kind {
    int (*init)(struct lock *lock);
    int (*destroy)(struct lock *lock);
    int (*try_read)(struct lock *lock);
    int (*read)(struct lock *lock);
    int (*try_write)(struct lock *lock);
    int (*write)(struct lock *lock);
    int (*unlock)(struct lock *lock);
    int (*call_and_unlock)(struct lock *lock); /* calls lock->before_unlock first */
    bool is_shared_by_readers;
};

/* Mutexes. */
extern const struct lock_kind lock_kind_mutex;

/* Reader-writer locks at which readers that come later wait behind a waiting writer. The price is
 * that no thread may take a read lock twice, which the lock order of the engine forbids anyway. */
extern const struct lock_kind lock_kind_rwlock;

/* Makes a reader-writer lock with that preference (pthread_rwlockattr_setkind_np(3)). */
int lock_init_rwlock(struct lock *lock, int preference);

#endif
