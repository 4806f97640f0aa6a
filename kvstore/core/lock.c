#include "kvstore/core/lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/time/pause.h"
#include "common/memory/machine_sizes.h"
#include "mqkv/kvstore.h"

/* Most operations hold a lock for less than a microsecond, but a thread that sleeps for one costs
 * two context switches and a wake-up: some 5 us, paid by who holds the lock, too. So a thread tries
 * for as long at most before it sleeps, and for less the more often that was in vain lately: when
 * holders are not running, or those who sleep already are served first. The least is what one short
 * operation takes. A success moves the time by 1/4 of the way up, a failure by 1/8 down. */
#define SPIN_MAX_NS    5000u
#define SPIN_MIN_NS    300u
#define PAUSES_PER_TRY 4u

/* One lock, alone on its cache line: workers at two files share nothing. */
struct lock {
    _Alignas(CACHE_LINE_BYTES) union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
    };
    void (*before_unlock)(void); /* looked at only by the kinds that call it */
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
};

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

/* A kind of its own, so that locks without such a call do not look for one. */
static int mutex_call_and_unlock(struct lock *lock)
{
    lock->before_unlock();
    return mutex_unlock(lock);
}

static const struct lock_kind mutex_kind = {
    .init = mutex_init,
    .destroy = mutex_destroy,
    .try_read = mutex_try,
    .read = mutex_lock,
    .try_write = mutex_try,
    .write = mutex_lock,
    .unlock = mutex_unlock,
};

static int rwlock_init(struct lock *lock, int preference)
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

/* The price of this preference is that no thread may take a read lock twice, which the lock order
 * of the engine forbids anyway. */
static int writer_rwlock_init(struct lock *lock)
{
    return rwlock_init(lock, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
}

static int reader_rwlock_init(struct lock *lock)
{
    return rwlock_init(lock, PTHREAD_RWLOCK_PREFER_READER_NP);
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

static const struct lock_kind rwlock_kind = {
    .init = writer_rwlock_init,
    .destroy = rwlock_destroy,
    .try_read = rwlock_try_read,
    .read = rwlock_read,
    .try_write = rwlock_try_write,
    .write = rwlock_write,
    .unlock = rwlock_unlock,
};

static const struct strategy {
    const char *name;
    const struct lock_kind *kind;
    bool lock_per_file;
} strategies[KVSTORE_LOCKING_COUNT] = {
    [KVSTORE_FILE_RWLOCK] = {"file-rwlock", &rwlock_kind, true},
    [KVSTORE_FILE_MUTEX] = {"file-mutex", &mutex_kind, true},
    [KVSTORE_GLOBAL_RWLOCK] = {"global-rwlock", &rwlock_kind, false},
    [KVSTORE_GLOBAL_MUTEX] = {"global-mutex", &mutex_kind, false},
    [KVSTORE_OPTIMISTIC] = {"optimistic", &rwlock_kind, true},
};

static const char *const preference_names[KVSTORE_RWLOCK_COUNT] = {
    [KVSTORE_PREFER_WRITER] = "prefer-writer", [KVSTORE_PREFER_READER] = "prefer-reader"};

struct lockset {
    struct lock_kind kind;
    uint32_t lock_count;
    uint32_t file_mask; /* all ones with a lock per file, 0 with one for all */
    struct lock locks[];
};

static _Thread_local uint64_t waited_ns;
static _Thread_local uint64_t spin_ns = SPIN_MAX_NS;

const char *kvstore_locking_name(enum kvstore_locking locking)
{
    return (unsigned)locking < KVSTORE_LOCKING_COUNT ? strategies[locking].name : NULL;
}

bool kvstore_locking_has_rwlocks(enum kvstore_locking locking)
{
    return strategies[locking].kind == &rwlock_kind;
}

const char *kvstore_rwlock_name(enum kvstore_rwlock rwlock)
{
    return (unsigned)rwlock < KVSTORE_RWLOCK_COUNT ? preference_names[rwlock] : NULL;
}

struct lockset *lockset_create(enum kvstore_locking strategy, enum kvstore_rwlock preference,
                               uint32_t datafiles)
{
    const struct strategy *chosen = &strategies[strategy];
    uint32_t lock_count = chosen->lock_per_file ? datafiles : 1;
    struct lockset *locks =
        aligned_alloc(CACHE_LINE_BYTES, sizeof *locks + (size_t)lock_count * sizeof(struct lock));
    if (!locks)
        return NULL;
    locks->kind = *chosen->kind;
    if (chosen->kind == &rwlock_kind && preference == KVSTORE_PREFER_READER)
        locks->kind.init = reader_rwlock_init;
    locks->file_mask = chosen->lock_per_file ? UINT32_MAX : 0;
    for (locks->lock_count = 0; locks->lock_count < lock_count; locks->lock_count++) {
        if (locks->kind.init(&locks->locks[locks->lock_count]) != 0) {
            lockset_free(locks);
            return NULL;
        }
    }
    return locks;
}

void lockset_free(struct lockset *locks)
{
    if (!locks)
        return;
    for (uint32_t i = 0; i < locks->lock_count; i++)
        locks->kind.destroy(&locks->locks[i]);
    free(locks);
}

void lockset_set_before_unlock(struct lockset *locks, void (*before_unlock)(void))
{
    locks->kind.unlock =
        locks->kind.unlock == mutex_unlock ? mutex_call_and_unlock : rwlock_call_and_unlock;
    for (uint32_t i = 0; i < locks->lock_count; i++)
        locks->locks[i].before_unlock = before_unlock;
}

static struct lock *lock_of(struct lockset *locks, uint32_t file)
{
    return &locks->locks[file & locks->file_mask];
}

/* A lock call fails only if the locking rules were broken (a lock taken twice, one released that
 * was not held) or its memory overwritten: going on would corrupt the store. */
static void require(int result, const char *what)
{
    if (__builtin_expect(result != 0, 0)) {
        log_error("kvstore: %s failed (%s): a bug, or memory was overwritten; aborting before "
                  "the store is damaged",
                  what, strerror(result));
        abort();
    }
}

static bool is_taken(int result)
{
    return result == EBUSY || result == EAGAIN;
}

/* Tries again for a while. Returns what the last try did. */
static int spin(struct lock *lock, int (*try)(struct lock *), uint64_t started_ns)
{
    int result;
    do {
        for (unsigned i = 0; i < PAUSES_PER_TRY; i++)
            pause_cpu();
        result = try(lock);
    } while (is_taken(result) && clock_monotonic_ns() - started_ns < spin_ns);
    if (!is_taken(result))
        spin_ns += (SPIN_MAX_NS - spin_ns) / 4;
    else if (spin_ns > SPIN_MIN_NS)
        spin_ns -= spin_ns / 8;
    return result;
}

static void acquire(struct lock *lock, int (*try)(struct lock *), int (*wait)(struct lock *))
{
    int result = try(lock);
    if (__builtin_expect(result == 0, 1))
        return;
    uint64_t started_ns = clock_monotonic_ns();
    if (is_taken(result))
        result = spin(lock, try, started_ns);
    if (is_taken(result))
        result = wait(lock);
    require(result, "taking a lock");
    waited_ns += clock_monotonic_ns() - started_ns;
}

void lockset_read_lock(struct lockset *locks, uint32_t file)
{
    acquire(lock_of(locks, file), locks->kind.try_read, locks->kind.read);
}

/* It looks time and again, so that it needs no lock that can be waited for with a limit. */
static bool try_until(struct lock *lock, int (*try)(struct lock *), uint64_t until_ns)
{
    int result = try(lock);
    if (is_taken(result))
        result = spin(lock, try, clock_monotonic_ns());
    while (is_taken(result) && clock_monotonic_ns() < until_ns) {
        clock_sleep_ms(1);
        result = try(lock);
    }
    if (!is_taken(result))
        require(result, "taking a lock");
    return result == 0;
}

bool lockset_try_read_lock(struct lockset *locks, uint32_t file, unsigned patience_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + patience_ms * UINT64_C(1000000);
    return try_until(lock_of(locks, file), locks->kind.try_read, until_ns);
}

void lockset_read_unlock(struct lockset *locks, uint32_t file)
{
    require(locks->kind.unlock(lock_of(locks, file)), "releasing a read lock");
}

void lockset_write_lock(struct lockset *locks, uint32_t file)
{
    acquire(lock_of(locks, file), locks->kind.try_write, locks->kind.write);
}

void lockset_write_unlock(struct lockset *locks, uint32_t file)
{
    require(locks->kind.unlock(lock_of(locks, file)), "releasing a write lock");
}

void lockset_write_lock_all(struct lockset *locks)
{
    for (uint32_t i = 0; i < locks->lock_count; i++)
        acquire(&locks->locks[i], locks->kind.try_write, locks->kind.write);
}

static void unlock_first(struct lockset *locks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        require(locks->kind.unlock(&locks->locks[i]), "releasing a write lock");
}

bool lockset_try_write_lock_all(struct lockset *locks, unsigned patience_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + patience_ms * UINT64_C(1000000);
    uint32_t taken = 0;
    while (taken < locks->lock_count &&
           try_until(&locks->locks[taken], locks->kind.try_write, until_ns))
        taken++;
    if (taken == locks->lock_count)
        return true;
    unlock_first(locks, taken);
    return false;
}

void lockset_write_unlock_all(struct lockset *locks)
{
    unlock_first(locks, locks->lock_count);
}

void lockset_renew(struct lockset *locks)
{
    for (uint32_t i = 0; i < locks->lock_count; i++)
        require(locks->kind.init(&locks->locks[i]), "making a lock anew");
}

uint64_t lockset_memory_bytes(const struct lockset *locks)
{
    return sizeof *locks + (uint64_t)locks->lock_count * sizeof(struct lock);
}

uint64_t kvstore_lock_wait_ns(void)
{
    return waited_ns;
}
