#include "kvstore/core/lock_kind.h"

static int mutex_init(struct lock *lock)
{
    return pthread_mutex_init(&lock->mutex, NULL);
}

static int mutex_destroy(struct lock *lock)
{
    return pthread_mutex_destroy(&lock->mutex);
}

static int mutex_try(struct lock *lock)
{
    return pthread_mutex_trylock(&lock->mutex);
}

static int mutex_lock(struct lock *lock)
{
    return pthread_mutex_lock(&lock->mutex);
}

static int mutex_unlock(struct lock *lock)
{
    return pthread_mutex_unlock(&lock->mutex);
}

static int mutex_call_and_unlock(struct lock *lock)
{
    lock->before_unlock();
    return mutex_unlock(lock);
}

const struct lock_kind lock_kind_mutex = {
    .init = mutex_init,
    .destroy = mutex_destroy,
    .try_read = mutex_try,
    .read = mutex_lock,
    .try_write = mutex_try,
    .write = mutex_lock,
    .unlock = mutex_unlock,
    .call_and_unlock = mutex_call_and_unlock,
};

int lock_init_rwlock(struct lock *lock, int preference)
{
    pthread_rwlockattr_t attributes;
    int result = pthread_rwlockattr_init(&attributes);
    if (result != 0)
        return result;
    result = pthread_rwlockattr_setkind_np(&attributes, preference);
    if (result == 0)
        result = pthread_rwlock_init(&lock->rwlock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    return result;
}

static int writer_rwlock_init(struct lock *lock)
{
    return lock_init_rwlock(lock, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
}

static int rwlock_destroy(struct lock *lock)
{
    return pthread_rwlock_destroy(&lock->rwlock);
}

static int rwlock_try_read(struct lock *lock)
{
    return pthread_rwlock_tryrdlock(&lock->rwlock);
}

static int rwlock_read(struct lock *lock)
{
    return pthread_rwlock_rdlock(&lock->rwlock);
}

static int rwlock_try_write(struct lock *lock)
{
    return pthread_rwlock_trywrlock(&lock->rwlock);
}

static int rwlock_write(struct lock *lock)
{
    return pthread_rwlock_wrlock(&lock->rwlock);
}

static int rwlock_unlock(struct lock *lock)
{
    return pthread_rwlock_unlock(&lock->rwlock);
}

static int rwlock_call_and_unlock(struct lock *lock)
{
    lock->before_unlock();
    return rwlock_unlock(lock);
}

const struct lock_kind lock_kind_rwlock = {
    .init = writer_rwlock_init,
    .destroy = rwlock_destroy,
    .try_read = rwlock_try_read,
    .read = rwlock_read,
    .try_write = rwlock_try_write,
    .write = rwlock_write,
    .unlock = rwlock_unlock,
    .call_and_unlock = rwlock_call_and_unlock,
    .is_shared_by_readers = true,
};
