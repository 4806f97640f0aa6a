/*
 * A starting point: the locks of a store behind kvstore/core/lock.h, with one mutex for all. It is
 * correct, and as slow as it can be. Write your own strategy here: a lock per data file, ticket
 * locks, readers that share, fairness between readers and writers.
 *
 *     make -C examples/student check       # builds it and runs lockset_check against it
 *
 * It replaces the whole of kvstore/core/lock.c: copy it there in a branch of your own, `make`, and
 * the daemon uses it, whatever --locking says. docs/COURSE.md tells what to measure.
 */
#include "kvstore/core/lock.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/time/clock.h"

struct lockset {
    uint32_t datafiles;
    pthread_mutex_t mutex;
    void (*before_unlock)(void); /* --service-time ...:locked; NULL: no call */
};

static _Thread_local uint64_t waited_ns;

struct lockset *lockset_create(enum kvstore_locking strategy, enum kvstore_rwlock preference,
                               uint32_t datafiles)
{
    (void)strategy, (void)preference;
    struct lockset *locks = calloc(1, sizeof *locks);
    if (!locks)
        return NULL;
    locks->datafiles = datafiles;
    pthread_mutex_init(&locks->mutex, NULL);
    return locks;
}

/* Of the cache, not of the data files. */
struct lockset *lockset_create_mutexes(uint32_t count)
{
    return lockset_create(KVSTORE_FILE_MUTEX, KVSTORE_PREFER_WRITER, count);
}

void lockset_free(struct lockset *locks)
{
    if (!locks)
        return;
    pthread_mutex_destroy(&locks->mutex);
    free(locks);
}

void lockset_set_before_unlock(struct lockset *locks, void (*before_unlock)(void))
{
    locks->before_unlock = before_unlock;
}

/* What `stats latency` calls lock_wait: time that a thread has waited for locks. */
static void lock_and_count(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) == 0)
        return;
    uint64_t started_ns = clock_monotonic_ns();
    pthread_mutex_lock(mutex);
    waited_ns += clock_monotonic_ns() - started_ns;
}

static void unlock(struct lockset *locks)
{
    if (locks->before_unlock)
        locks->before_unlock();
    pthread_mutex_unlock(&locks->mutex);
}

void lockset_read_lock(struct lockset *locks, uint32_t file)
{
    (void)file;
    lock_and_count(&locks->mutex);
}

void lockset_read_unlock(struct lockset *locks, uint32_t file)
{
    (void)file;
    unlock(locks);
}

void lockset_write_lock(struct lockset *locks, uint32_t file)
{
    (void)file;
    lock_and_count(&locks->mutex);
}

void lockset_write_unlock(struct lockset *locks, uint32_t file)
{
    (void)file;
    unlock(locks);
}

void lockset_write_lock_all(struct lockset *locks)
{
    lock_and_count(&locks->mutex);
}

void lockset_write_unlock_all(struct lockset *locks)
{
    unlock(locks);
}

void lockset_renew(struct lockset *locks)
{
    pthread_mutex_init(&locks->mutex, NULL);
}

uint64_t lockset_memory_bytes(const struct lockset *locks)
{
    return sizeof *locks;
}

uint64_t kvstore_lock_wait_ns(void)
{
    return waited_ns;
}

/* What the options are called; leave it as it is, or name a strategy of your own. */
const char *kvstore_locking_name(enum kvstore_locking locking)
{
    static const char *const names[KVSTORE_LOCKING_COUNT] = {
        [KVSTORE_FILE_RWLOCK] = "file-rwlock",     [KVSTORE_FILE_MUTEX] = "file-mutex",
        [KVSTORE_GLOBAL_RWLOCK] = "global-rwlock", [KVSTORE_GLOBAL_MUTEX] = "global-mutex",
        [KVSTORE_OPTIMISTIC] = "optimistic",
    };
    return (unsigned)locking < KVSTORE_LOCKING_COUNT ? names[locking] : NULL;
}

bool kvstore_locking_has_rwlocks(enum kvstore_locking locking)
{
    return locking != KVSTORE_FILE_MUTEX && locking != KVSTORE_GLOBAL_MUTEX;
}

const char *kvstore_rwlock_name(enum kvstore_rwlock rwlock)
{
    static const char *const names[KVSTORE_RWLOCK_COUNT] = {
        [KVSTORE_PREFER_WRITER] = "prefer-writer", [KVSTORE_PREFER_READER] = "prefer-reader"};
    return (unsigned)rwlock < KVSTORE_RWLOCK_COUNT ? names[rwlock] : NULL;
}
