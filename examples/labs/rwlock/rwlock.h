/*
 * rwlock: a lock that either any number of readers hold, or one writer. Nobody starves: readers
 * that come and go do not keep a writer out, nor writers a reader.
 *
 * You may change the members of the struct, and nothing else in this file.
 */
#ifndef LAB_RWLOCK_H
#define LAB_RWLOCK_H

#include <pthread.h>
#include <stdbool.h>

struct rwlock {
    pthread_mutex_t mutex;
};

/* Makes a lock that is free. */
void rwlock_init(struct rwlock *lock);

/* Ends a lock that nobody holds or waits for. */
void rwlock_destroy(struct rwlock *lock);

/* Waits until the caller may read, along with others that read; and lets go again. A reader that
 * comes while a writer waits lets that writer go first. Who waits sleeps, and does not spin. */
void rwlock_read_lock(struct rwlock *lock);
void rwlock_read_unlock(struct rwlock *lock);

/* Waits until the caller may write, alone; and lets go again. Readers that have waited while it
 * wrote come before the next writer. */
void rwlock_write_lock(struct rwlock *lock);
void rwlock_write_unlock(struct rwlock *lock);

#endif
