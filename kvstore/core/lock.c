#include "kvstore/core/lock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/time/pause.h"
#include "kvstore/core/lock_kind.h"
#include "kvstore/core/variants.h"
#include "mqkv/kvstore.h"

/* Most operations hold a lock for less than a microsecond, but a thread that sleeps for one costs
 * two context switches and a wake-up: some 5 us, paid by who holds the lock, too. So a thread tries
 * for as long at most before it sleeps, and for less the more often that was in vain lately: when
 * holders are not running, or those who sleep already are served first. The least is what one short
 * operation takes. A success moves the time by 1/4 of the way up, a failure by 1/8 down. */
#define SPIN_MAX_NS    5000u
#define SPIN_MIN_NS    300u
#define PAUSES_PER_TRY 4u

/* The default; the others are variants. */
static const struct locking_strategy file_rwlock = {"file-rwlock", &lock_kind_rwlock, true, NULL};

struct lockset {
    struct lock_kind kind;
    uint32_t lock_count;
    uint32_t file_mask; /* all ones with a lock per file, 0 with one for all */
    struct lock locks[];
};

static _Thread_local uint64_t waited_ns;
static _Thread_local uint64_t spin_ns = SPIN_MAX_NS;

/* NULL: the library has no such strategy. */
static const struct locking_strategy *find_locking_strategy(enum kvstore_locking locking)
{
    if (locking == KVSTORE_FILE_RWLOCK)
        return &file_rwlock;
    return (unsigned)locking < KVSTORE_LOCKING_COUNT ? store_variants.strategies[locking] : NULL;
}

const char *kvstore_locking_name(enum kvstore_locking locking)
{
    const struct locking_strategy *strategy = find_locking_strategy(locking);
    return strategy ? strategy->name : NULL;
}

bool kvstore_locking_has_rwlocks(enum kvstore_locking locking)
{
    const struct locking_strategy *strategy = find_locking_strategy(locking);
    return strategy && strategy->kind->is_shared_by_readers;
}

const char *kvstore_rwlock_name(enum kvstore_rwlock rwlock)
{
    if (rwlock == KVSTORE_PREFER_WRITER)
        return "prefer-writer";
    return (unsigned)rwlock < KVSTORE_RWLOCK_COUNT ? store_variants.preferences[rwlock].name : NULL;
}

/* init: makes each lock; that of the kind, or another for the same kind. */
static struct lockset *create_lockset(const struct lock_kind *kind, int (*init)(struct lock *lock),
                                      uint32_t lock_count, bool lock_per_file)
{
    struct lockset *locks =
        aligned_alloc(CACHE_LINE_BYTES, sizeof *locks + (size_t)lock_count * sizeof(struct lock));
    if (!locks)
        return NULL;
    locks->kind = *kind;
    locks->kind.init = init;
    locks->file_mask = lock_per_file ? UINT32_MAX : 0;
    for (locks->lock_count = 0; locks->lock_count < lock_count; locks->lock_count++) {
        if (init(&locks->locks[locks->lock_count]) != 0) {
            lockset_free(locks);
            return NULL;
        }
    }
    return locks;
}

struct lockset *lockset_create(enum kvstore_locking locking, enum kvstore_rwlock preference,
                               uint32_t datafiles)
{
    const struct locking_strategy *strategy = find_locking_strategy(locking);
    if (!strategy)
        return NULL;
    const struct lock_kind *kind = strategy->kind;
    bool has_preference = kind->is_shared_by_readers && preference != KVSTORE_PREFER_WRITER;
    return create_lockset(kind,
                          has_preference ? store_variants.preferences[preference].init : kind->init,
                          strategy->lock_per_file ? datafiles : 1, strategy->lock_per_file);
}

struct lockset *lockset_create_mutexes(uint32_t count)
{
    return create_lockset(&lock_kind_mutex, lock_kind_mutex.init, count, true);
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
    locks->kind.unlock = locks->kind.call_and_unlock;
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
