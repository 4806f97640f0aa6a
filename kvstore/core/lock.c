#include "kvstore/core/lock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/time/pause.h"
#include "kvstore/core/lock_kind.h"
#include "kvstore/core/variants.h"
#include "kvstore/format/sizes.h"
#include "mqkv/kvstore.h"

/* Most operations hold a lock for less than a microsecond, but a thread that sleeps for a lock
 * costs two context switches and a wake-up: some 5 us, which the holder of the lock pays, too. So a
 * thread tries for up to SPIN_MAX_NS before it sleeps, and for less time the more often that was in
 * vain lately: when holders are not running, or threads that sleep already are served first. The
 * least is what one short operation takes. A success moves the time by 1/4 of the way up, a failure
 * by 1/8 down. */
#define SPIN_MAX_NS    5000u
#define SPIN_MIN_NS    300u
#define PAUSES_PER_TRY 4u

/* The default; the others are variants. */
static const struct locking_strategy file_rwlock = {"file-rwlock", &lock_kind_rwlock, true, NULL};

struct lockset {
    struct lock_kind kind;
    uint32_t lock_count;
    uint32_t file_mask; /* all ones with a lock per file, 0 with one for all */
#ifdef MQKV_ASSERT
    _Atomic uint64_t *writers; /* this_thread() of each lock's holder for writing; 0: none */
#endif
    struct lock locks[];
};

static _Thread_local uint64_t waited_ns;
static _Thread_local uint64_t spin_ns = SPIN_MAX_NS;

/* Who holds a lock ----------------------------------------------------------------------------- */

#ifdef MQKV_ASSERT

/* Locks that a thread holds for reading at a time, at most: those of all files. */
#define READ_HELD_MAX (KVSTORE_MAX_DATAFILES + 4u)

static _Thread_local const struct lock *read_held[READ_HELD_MAX];
static _Thread_local unsigned read_held_count;

/* The calling thread's number, from 1. */
static uint64_t this_thread(void)
{
    static _Atomic uint64_t numbers;
    static _Thread_local uint64_t own_number;
    if (own_number == 0)
        own_number = atomic_fetch_add(&numbers, 1) + 1;
    return own_number;
}

/* Returns where read_held has `lock`. read_held_count: nowhere. */
static unsigned find_read_held(const struct lock *lock)
{
    unsigned i = 0;
    while (i < read_held_count && read_held[i] != lock)
        i++;
    return i;
}

static _Atomic uint64_t *writer_of(const struct lockset *locks, const struct lock *lock)
{
    return &locks->writers[lock - locks->locks];
}

static bool holders_create(struct lockset *locks, uint32_t lock_count)
{
    locks->writers = calloc(lock_count, sizeof *locks->writers);
    return locks->writers != NULL;
}

static void holders_free(struct lockset *locks)
{
    free(locks->writers);
}

static void note_lock_renewed(struct lockset *locks, struct lock *lock)
{
    atomic_store(writer_of(locks, lock), 0);
}

static void note_lock_taken(struct lockset *locks, struct lock *lock, bool for_writing)
{
    KV_ASSERT(atomic_load(writer_of(locks, lock)) == 0);
    if (for_writing) {
        atomic_store(writer_of(locks, lock), this_thread());
        return;
    }
    KV_ASSERT(read_held_count < READ_HELD_MAX);
    read_held[read_held_count++] = lock;
}

static void note_lock_releasing(struct lockset *locks, struct lock *lock, bool for_writing)
{
    if (for_writing) {
        KV_ASSERT(atomic_load(writer_of(locks, lock)) == this_thread());
        atomic_store(writer_of(locks, lock), 0);
        return;
    }
    unsigned place = find_read_held(lock);
    KV_ASSERT(place < read_held_count);
    read_held[place] = read_held[--read_held_count];
}

bool lockset_is_write_held(const struct lockset *locks, uint32_t file)
{
    return atomic_load(writer_of(locks, &locks->locks[file & locks->file_mask])) == this_thread();
}

bool lockset_is_held(const struct lockset *locks, uint32_t file)
{
    return find_read_held(&locks->locks[file & locks->file_mask]) < read_held_count ||
           lockset_is_write_held(locks, file);
}

#else
#define holders_create(locks, lock_count)             true
#define holders_free(locks)                           ((void)0)
#define note_lock_renewed(locks, lock)                ((void)0)
#define note_lock_taken(locks, lock, for_writing)     ((void)0)
#define note_lock_releasing(locks, lock, for_writing) ((void)0)
#endif

/* Making --------------------------------------------------------------------------------------- */

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

static void forget_waits(struct lock *lock)
{
    atomic_store_explicit(&lock->awaited_since_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->waits, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->longest_wait_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->longest_hold_ns, 0, memory_order_relaxed);
}

/* Makes lock_count locks of `kind`, each by `init`, the kind's own or another one for that kind. */
static struct lockset *create_lockset(const struct lock_kind *kind, int (*init)(struct lock *lock),
                                      uint32_t lock_count, bool lock_per_file)
{
    struct lockset *locks =
        aligned_alloc(CACHE_LINE_BYTES, sizeof *locks + (size_t)lock_count * sizeof(struct lock));
    if (!locks)
        return NULL;
    if (!holders_create(locks, lock_count)) {
        free(locks);
        return NULL;
    }
    locks->kind = *kind;
    locks->kind.init = init;
    locks->file_mask = lock_per_file ? UINT32_MAX : 0;
    for (locks->lock_count = 0; locks->lock_count < lock_count; locks->lock_count++) {
        if (init(&locks->locks[locks->lock_count]) != 0) {
            lockset_free(locks);
            return NULL;
        }
        forget_waits(&locks->locks[locks->lock_count]);
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
    holders_free(locks);
    free(locks);
}

void lockset_set_before_unlock(struct lockset *locks, void (*before_unlock)(void))
{
    locks->kind.unlock = locks->kind.call_and_unlock;
    for (uint32_t i = 0; i < locks->lock_count; i++)
        locks->locks[i].before_unlock = before_unlock;
}

/* Who waits for how long ----------------------------------------------------------------------- */

static void raise_to(_Atomic uint64_t *longest_ns, uint64_t ns)
{
    uint64_t before_ns = atomic_load_explicit(longest_ns, memory_order_relaxed);
    while (before_ns < ns &&
           !atomic_compare_exchange_weak_explicit(longest_ns, &before_ns, ns, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/* Waits by wait(lock), and tells the holder that it is waited for. */
static int wait_and_note(struct lock *lock, int (*wait)(struct lock *), bool for_writing,
                         uint64_t started_ns)
{
    uint64_t nobody = 0, own = started_ns;
    bool is_first = atomic_compare_exchange_strong_explicit(
        &lock->awaited_since_ns, &nobody, started_ns, memory_order_relaxed, memory_order_relaxed);
    int result = wait(lock);
    uint64_t now_ns = clock_monotonic_ns();
    atomic_fetch_add_explicit(&lock->waits, 1, memory_order_relaxed);
    raise_to(&lock->longest_wait_ns, now_ns - started_ns);
    if (for_writing) /* others may wait for this one, too */
        atomic_store_explicit(&lock->awaited_since_ns, now_ns, memory_order_relaxed);
    else if (is_first) /* told a holder that had just gone: nobody else is to take it for theirs */
        atomic_compare_exchange_strong_explicit(&lock->awaited_since_ns, &own, 0,
                                                memory_order_relaxed, memory_order_relaxed);
    return result;
}

/* Before a lock that is held for writing is released. */
__attribute__((always_inline)) static inline void note_hold(struct lock *lock)
{
    uint64_t since_ns = atomic_load_explicit(&lock->awaited_since_ns, memory_order_relaxed);
    if (__builtin_expect(since_ns == 0, 1))
        return;
    raise_to(&lock->longest_hold_ns, clock_monotonic_ns() - since_ns);
    atomic_store_explicit(&lock->awaited_since_ns, 0, memory_order_relaxed);
}

/* Taking and releasing ------------------------------------------------------------------------- */

static struct lock *lock_of(struct lockset *locks, uint32_t file)
{
    KV_ASSERT((file & locks->file_mask) < locks->lock_count);
    return &locks->locks[file & locks->file_mask];
}

/* A lock call fails only if the locking rules were broken (a lock taken twice, or released that was
 * not held) or the lock's memory was overwritten: to continue would corrupt the store. */
static void require_locking(int result, const char *what)
{
    if (__builtin_expect(result != 0, 0)) {
        log_error("kvstore: %s failed (%s): a bug, or memory was overwritten; aborting before "
                  "the store is damaged",
                  what, strerror(result));
        abort();
    }
}

static bool lock_is_taken(int result)
{
    return result == EBUSY || result == EAGAIN;
}

/* Tries again for up to spin_ns. Returns the result of the last try. */
static int spin_for_lock(struct lock *lock, int (*try)(struct lock *), uint64_t started_ns)
{
    int result;
    do {
        for (unsigned i = 0; i < PAUSES_PER_TRY; i++)
            pause_cpu();
        result = try(lock);
    } while (lock_is_taken(result) && clock_monotonic_ns() - started_ns < spin_ns);
    if (!lock_is_taken(result))
        spin_ns += (SPIN_MAX_NS - spin_ns) / 4;
    else if (spin_ns > SPIN_MIN_NS)
        spin_ns -= spin_ns / 8;
    return result;
}

static void acquire_lock(struct lock *lock, int (*try)(struct lock *), int (*wait)(struct lock *),
                         bool for_writing)
{
    int result = try(lock);
    if (__builtin_expect(result == 0, 1))
        return;
    uint64_t started_ns = clock_monotonic_ns();
    if (lock_is_taken(result))
        result = spin_for_lock(lock, try, started_ns);
    if (lock_is_taken(result))
        result = wait_and_note(lock, wait, for_writing, started_ns);
    require_locking(result, "taking a lock");
    waited_ns += clock_monotonic_ns() - started_ns;
}

void lockset_read_lock(struct lockset *locks, uint32_t file)
{
    struct lock *lock = lock_of(locks, file);
    KV_ASSERT(!lockset_is_held(locks, file));
    acquire_lock(lock, locks->kind.try_read, locks->kind.read, false);
    note_lock_taken(locks, lock, false);
}

/* Tries each millisecond, so that no lock is needed that can be waited for with a limit. */
static bool try_lock_until(struct lock *lock, int (*try)(struct lock *), uint64_t until_ns)
{
    int result = try(lock);
    if (lock_is_taken(result))
        result = spin_for_lock(lock, try, clock_monotonic_ns());
    while (lock_is_taken(result) && clock_monotonic_ns() < until_ns) {
        clock_sleep_ms(1);
        result = try(lock);
    }
    if (!lock_is_taken(result))
        require_locking(result, "taking a lock");
    return result == 0;
}

bool lockset_try_read_lock(struct lockset *locks, uint32_t file, unsigned patience_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + patience_ms * UINT64_C(1000000);
    struct lock *lock = lock_of(locks, file);
    KV_ASSERT(!lockset_is_held(locks, file));
    bool taken = try_lock_until(lock, locks->kind.try_read, until_ns);
    if (taken)
        note_lock_taken(locks, lock, false);
    return taken;
}

void lockset_read_unlock(struct lockset *locks, uint32_t file)
{
    struct lock *lock = lock_of(locks, file);
    note_lock_releasing(locks, lock, false);
    require_locking(locks->kind.unlock(lock), "releasing a read lock");
}

static void write_lock(struct lockset *locks, struct lock *lock)
{
    acquire_lock(lock, locks->kind.try_write, locks->kind.write, true);
    note_lock_taken(locks, lock, true);
}

static void write_unlock(struct lockset *locks, struct lock *lock)
{
    note_lock_releasing(locks, lock, true);
    note_hold(lock);
    require_locking(locks->kind.unlock(lock), "releasing a write lock");
}

void lockset_write_lock(struct lockset *locks, uint32_t file)
{
    KV_ASSERT(!lockset_is_held(locks, file));
    write_lock(locks, lock_of(locks, file));
}

void lockset_write_unlock(struct lockset *locks, uint32_t file)
{
    write_unlock(locks, lock_of(locks, file));
}

void lockset_lock_several(struct lockset *locks, const uint32_t *numbers, uint32_t count,
                          bool for_writing)
{
    uint32_t taken = locks->file_mask == 0 ? at_most(count, 1) : count;
    for (uint32_t i = 0; i < taken; i++) {
        KV_ASSERT(i == 0 || numbers[i] > numbers[i - 1]);
        if (for_writing)
            lockset_write_lock(locks, numbers[i]);
        else
            lockset_read_lock(locks, numbers[i]);
    }
}

void lockset_unlock_several(struct lockset *locks, const uint32_t *numbers, uint32_t count,
                            bool for_writing)
{
    uint32_t taken = locks->file_mask == 0 ? at_most(count, 1) : count;
    for (uint32_t i = 0; i < taken; i++) {
        if (for_writing)
            lockset_write_unlock(locks, numbers[i]);
        else
            lockset_read_unlock(locks, numbers[i]);
    }
}

void lockset_write_lock_all(struct lockset *locks)
{
    for (uint32_t i = 0; i < locks->lock_count; i++)
        write_lock(locks, &locks->locks[i]);
}

bool lockset_try_write_lock_all(struct lockset *locks, unsigned patience_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + patience_ms * UINT64_C(1000000);
    uint32_t taken = 0;
    for (; taken < locks->lock_count &&
           try_lock_until(&locks->locks[taken], locks->kind.try_write, until_ns);
         taken++)
        note_lock_taken(locks, &locks->locks[taken], true);
    if (taken == locks->lock_count)
        return true;
    while (taken > 0)
        write_unlock(locks, &locks->locks[--taken]);
    return false;
}

void lockset_write_unlock_all(struct lockset *locks)
{
    for (uint32_t i = 0; i < locks->lock_count; i++)
        write_unlock(locks, &locks->locks[i]);
}

void lockset_renew(struct lockset *locks)
{
    for (uint32_t i = 0; i < locks->lock_count; i++) {
        require_locking(locks->kind.init(&locks->locks[i]), "making a lock anew");
        note_lock_renewed(locks, &locks->locks[i]);
        forget_waits(&locks->locks[i]);
    }
}

void lockset_facts(const struct lockset *locks, uint32_t file, struct kvstore_lock_facts *facts)
{
    const struct lock *lock = &locks->locks[file & locks->file_mask];
    *facts = (struct kvstore_lock_facts){
        .waits = atomic_load_explicit(&lock->waits, memory_order_relaxed),
        .longest_wait_ns = atomic_load_explicit(&lock->longest_wait_ns, memory_order_relaxed),
        .longest_hold_ns = atomic_load_explicit(&lock->longest_hold_ns, memory_order_relaxed)};
}

uint64_t lockset_memory_bytes(const struct lockset *locks)
{
    return sizeof *locks + (uint64_t)locks->lock_count * sizeof(struct lock);
}

uint64_t kvstore_lock_wait_ns(void)
{
    return waited_ns;
}
