#include "rwlock.h"

/* A start that is safe, and too strict: one mutex for all. */

void rwlock_init(struct rwlock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
}

void rwlock_destroy(struct rwlock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void rwlock_read_lock(struct rwlock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

void rwlock_read_unlock(struct rwlock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

void rwlock_write_lock(struct rwlock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

void rwlock_write_unlock(struct rwlock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
