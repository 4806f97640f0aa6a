/*
 * Threads, locks, condition variables, semaphores, futexes, sleeps and clocks, as the scheduler has
 * them. In the objects of the rooms the names of these functions begin with explored_ (objcopy), so
 * that only their calls come here. Outside of a schedule they are those of the C library.
 *
 * A lock's own bytes hold its state; a lock that is zeroed, or was set up by its initializer, is
 * free.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/explore/fiber.h"
#include "tests/explore/kernel_calls.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE __builtin_return_address(0)

#define NS_PER_S UINT64_C(1000000000)

static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

/* Locks ---------------------------------------------------------------------------------------- */

struct own_mutex {
    uint32_t owner; /* the thread's number + 1; 0: free */
    uint32_t is_robust;
    uint32_t lost; /* the owner was killed */
};
_Static_assert(sizeof(struct own_mutex) <= sizeof(pthread_mutex_t), "it lies there");

static bool is_mutex_free(const void *what)
{
    const struct own_mutex *mutex = what;
    return mutex->owner == 0 || (mutex->is_robust && schedule_is_killed(mutex->owner - 1));
}

int explored_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    int robust = PTHREAD_MUTEX_STALLED;
    if (!schedule_is_running())
        return pthread_mutex_init(mutex, attributes);
    if (attributes)
        pthread_mutexattr_getrobust(attributes, &robust);
    memset(mutex, 0, sizeof *mutex);
    ((struct own_mutex *)(void *)mutex)->is_robust = robust == PTHREAD_MUTEX_ROBUST;
    return 0;
}

int explored_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    if (!schedule_is_running())
        return pthread_mutex_destroy(mutex);
    if (!is_mutex_free(mutex))
        schedule_fail("a mutex is destroyed while thread %u has it",
                      ((struct own_mutex *)(void *)mutex)->owner - 1);
    return 0;
}

static int take(struct own_mutex *mutex)
{
    bool lost = mutex->owner != 0;
    mutex->owner = schedule_thread() + 1;
    return lost ? EOWNERDEAD : 0;
}

int explored_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    if (!schedule_is_running())
        return pthread_mutex_trylock(mutex);
    schedule_step(HERE);
    if (!is_mutex_free(mutex))
        return EBUSY;
    return take((struct own_mutex *)(void *)mutex);
}

static int lock_until(pthread_mutex_t *mutex, uint64_t until_ns, const void *place)
{
    struct own_mutex *own = (struct own_mutex *)(void *)mutex;
    schedule_step(place);
    delayed_stores_keep_order();
    if (own->owner == schedule_thread() + 1)
        schedule_fail("a thread locks a mutex that it has");
    while (!is_mutex_free(mutex))
        if (!schedule_wait(is_mutex_free, mutex, until_ns, place))
            return ETIMEDOUT;
    return take(own);
}

int explored_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return schedule_is_running() ? lock_until(mutex, UINT64_MAX, HERE) : pthread_mutex_lock(mutex);
}

int explored_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    return lock_until(mutex, ns_of(until), HERE);
}

int explored_pthread_mutex_consistent(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

int explored_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct own_mutex *own = (struct own_mutex *)(void *)mutex;
    if (!schedule_is_running())
        return pthread_mutex_unlock(mutex);
    if (own->owner != schedule_thread() + 1)
        schedule_fail("a thread unlocks a mutex that it has not");
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    own->owner = 0;
    schedule_note_wake();
    schedule_step(HERE);
    return 0;
}

struct own_rwlock {
    uint32_t writer; /* the thread's number + 1 */
    uint32_t readers;
    uint32_t waiting_writers;
};

static bool is_free_to_write(const void *what)
{
    const struct own_rwlock *lock = what;
    return lock->writer == 0 && lock->readers == 0;
}

static bool is_free_to_read(const void *what)
{
    const struct own_rwlock *lock = what;
    return lock->writer == 0 && lock->waiting_writers == 0;
}

int explored_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes)
{
    if (!schedule_is_running())
        return pthread_rwlock_init(lock, attributes);
    memset(lock, 0, sizeof *lock);
    return 0;
}

int explored_pthread_rwlock_destroy(pthread_rwlock_t *lock)
{
    if (!schedule_is_running())
        return pthread_rwlock_destroy(lock);
    if (!is_free_to_write(lock))
        schedule_fail("a lock is destroyed while somebody has it");
    return 0;
}

int explored_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
    struct own_rwlock *own = (struct own_rwlock *)(void *)lock;
    schedule_step(HERE);
    if (!is_free_to_read(own))
        return EBUSY;
    own->readers++;
    return 0;
}

int explored_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    struct own_rwlock *own = (struct own_rwlock *)(void *)lock;
    schedule_step(HERE);
    while (!is_free_to_read(own))
        schedule_wait(is_free_to_read, own, UINT64_MAX, HERE);
    own->readers++;
    return 0;
}

int explored_pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
    struct own_rwlock *own = (struct own_rwlock *)(void *)lock;
    schedule_step(HERE);
    if (!is_free_to_write(own))
        return EBUSY;
    own->writer = schedule_thread() + 1;
    return 0;
}

int explored_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    struct own_rwlock *own = (struct own_rwlock *)(void *)lock;
    schedule_step(HERE);
    if (own->writer == schedule_thread() + 1)
        schedule_fail("a thread locks a lock that it has");
    while (!is_free_to_write(own)) {
        own->waiting_writers++;
        schedule_wait(is_free_to_write, own, UINT64_MAX, HERE);
        own->waiting_writers--;
    }
    own->writer = schedule_thread() + 1;
    return 0;
}

int explored_pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    struct own_rwlock *own = (struct own_rwlock *)(void *)lock;
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    if (own->writer == schedule_thread() + 1)
        own->writer = 0;
    else if (own->readers > 0)
        own->readers--;
    else
        schedule_fail("a thread releases a lock that nobody has");
    schedule_note_wake();
    schedule_step(HERE);
    return 0;
}

/* Condition variables -------------------------------------------------------------------------- */

struct own_condition {
    struct sleeper *first;
    uint32_t is_monotonic;
};
_Static_assert(sizeof(struct own_condition) <= sizeof(pthread_cond_t), "it lies there");

struct sleeper {
    bool woken;
    struct sleeper *next;
};

int explored_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    (void)attributes;
    memset(condition, 0, sizeof *condition);
    return 0;
}

int explored_pthread_cond_destroy(pthread_cond_t *condition)
{
    if (schedule_is_running() && ((struct own_condition *)(void *)condition)->first)
        schedule_fail("a condition variable is destroyed while somebody waits for it");
    return 0;
}

static bool is_woken(const void *what)
{
    return ((const struct sleeper *)what)->woken;
}

static void forget(struct own_condition *own, const struct sleeper *sleeper)
{
    for (struct sleeper **at = &own->first; *at; at = &(*at)->next)
        if (*at == sleeper) {
            *at = sleeper->next;
            return;
        }
}

static int wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until_ns,
                    const void *place)
{
    struct own_condition *own = (struct own_condition *)(void *)condition;
    struct sleeper sleeper = {.next = own->first};
    own->first = &sleeper;
    explored_pthread_mutex_unlock(mutex);
    bool in_time = schedule_wait(is_woken, &sleeper, until_ns, place);
    if (!in_time)
        forget(own, &sleeper);
    lock_until(mutex, UINT64_MAX, place);
    return in_time ? 0 : ETIMEDOUT;
}

int explored_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_for(condition, mutex, UINT64_MAX, HERE);
}

int explored_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                    const struct timespec *until)
{
    return wait_for(condition, mutex, ns_of(until), HERE);
}

/* Wakes any, by the seed. */
int explored_pthread_cond_signal(pthread_cond_t *condition)
{
    struct own_condition *own = (struct own_condition *)(void *)condition;
    unsigned count = 0;
    if (!schedule_is_running())
        return 0;
    schedule_step(HERE);
    for (struct sleeper *sleeper = own->first; sleeper; sleeper = sleeper->next)
        count++;
    if (count == 0)
        return 0;
    struct sleeper **chosen = &own->first;
    for (uint64_t i = schedule_random() % count; i > 0; i--)
        chosen = &(*chosen)->next;
    (*chosen)->woken = true;
    *chosen = (*chosen)->next;
    schedule_note_wake();
    schedule_step(HERE);
    return 0;
}

int explored_pthread_cond_broadcast(pthread_cond_t *condition)
{
    struct own_condition *own = (struct own_condition *)(void *)condition;
    if (!schedule_is_running())
        return 0;
    schedule_step(HERE);
    for (; own->first; own->first = own->first->next)
        own->first->woken = true;
    schedule_note_wake();
    schedule_step(HERE);
    return 0;
}

/* Semaphores ----------------------------------------------------------------------------------- */

struct own_semaphore {
    uint32_t value;
};

static bool is_posted(const void *what)
{
    return ((const struct own_semaphore *)what)->value > 0;
}

int explored_sem_init(sem_t *semaphore, int shared, unsigned value)
{
    (void)shared;
    ((struct own_semaphore *)(void *)semaphore)->value = value;
    return 0;
}

int explored_sem_destroy(sem_t *semaphore)
{
    (void)semaphore;
    return 0;
}

int explored_sem_post(sem_t *semaphore)
{
    schedule_step(HERE);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    ((struct own_semaphore *)(void *)semaphore)->value++;
    schedule_note_wake();
    schedule_step(HERE);
    return 0;
}

static int wait_for_post(sem_t *semaphore, uint64_t until_ns, const void *place)
{
    schedule_step(place);
    while (!is_posted(semaphore))
        if (!schedule_wait(is_posted, semaphore, until_ns, place)) {
            errno = ETIMEDOUT;
            return -1;
        }
    ((struct own_semaphore *)(void *)semaphore)->value--;
    return 0;
}

int explored_sem_wait(sem_t *semaphore)
{
    return wait_for_post(semaphore, UINT64_MAX, HERE);
}

int explored_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    (void)clock;
    return wait_for_post(semaphore, ns_of(until), HERE);
}

/* Futexes -------------------------------------------------------------------------------------- */

/* Where two mappings show one object, a futex in it is the same through both. */
#define MAPPINGS_MAX 256u

static struct mapping {
    const char *begin;
    size_t bytes;
    dev_t device;
    ino_t inode;
    off_t offset;
} mappings[MAPPINGS_MAX];

void *explored_mmap(void *hint, size_t bytes, int protection, int flags, int descriptor,
                    off_t offset)
{
    struct stat facts;
    if (machine_has(descriptor))
        return machine_map(bytes, protection, flags, descriptor, offset);
    void *memory = mmap(hint, bytes, protection, flags, descriptor, offset);
    if (memory != MAP_FAILED && machine_runs())
        machine_note_map(memory, bytes);
    if (memory == MAP_FAILED || descriptor < 0 || !(flags & MAP_SHARED) ||
        fstat(descriptor, &facts) != 0)
        return memory;
    for (unsigned i = 0; i < MAPPINGS_MAX; i++)
        if (mappings[i].bytes == 0) {
            mappings[i] = (struct mapping){memory, bytes, facts.st_dev, facts.st_ino, offset};
            break;
        }
    return memory;
}

int explored_munmap(void *memory, size_t bytes)
{
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    if (machine_runs() && machine_unmap(memory, bytes))
        return 0;
    for (unsigned i = 0; i < MAPPINGS_MAX; i++)
        if (mappings[i].begin == memory)
            mappings[i].bytes = 0;
    return munmap(memory, bytes);
}

struct futex_key {
    dev_t device;
    ino_t inode;
    uint64_t offset;
};

static struct futex_key key_of(const void *word)
{
    for (unsigned i = 0; i < MAPPINGS_MAX; i++) {
        const struct mapping *mapping = &mappings[i];
        if (mapping->bytes > 0 && (const char *)word >= mapping->begin &&
            (const char *)word < mapping->begin + mapping->bytes)
            return (struct futex_key){mapping->device, mapping->inode,
                                      (uint64_t)mapping->offset +
                                          (uint64_t)((const char *)word - mapping->begin)};
    }
    return (struct futex_key){0, 0, (uint64_t)(uintptr_t)word};
}

struct memory_place memory_place(const void *address)
{
    struct futex_key key = key_of(address);
    return (struct memory_place){(uint64_t)key.inode << 8 ^ key.device, key.offset};
}

struct futex_sleeper {
    bool woken;
    bool sleeps;
    struct futex_key key;
    uint32_t groups;
};

static struct futex_sleeper futex_sleepers[FIBERS_MAX];

static bool is_futex_woken(const void *what)
{
    return ((const struct futex_sleeper *)what)->woken;
}

static long futex_wait(const uint32_t *word, uint32_t value, uint64_t until_ns, uint32_t groups,
                       const void *place)
{
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        errno = EAGAIN;
        return -1;
    }
    struct futex_sleeper *sleeper = &futex_sleepers[schedule_thread()];
    *sleeper = (struct futex_sleeper){.sleeps = true, .key = key_of(word), .groups = groups};
    bool in_time = schedule_wait(is_futex_woken, sleeper, until_ns, place);
    sleeper->sleeps = false;
    if (in_time)
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

static long futex_wake(const uint32_t *word, unsigned count, uint32_t groups, const void *place)
{
    struct futex_key key = key_of(word);
    long woken = 0;
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    unsigned first = (unsigned)(schedule_random() % FIBERS_MAX);
    for (unsigned i = 0; i < FIBERS_MAX && woken < (long)count; i++) {
        unsigned thread = (first + i) % FIBERS_MAX;
        struct futex_sleeper *sleeper = &futex_sleepers[thread];
        if (!sleeper->sleeps || sleeper->woken || !(sleeper->groups & groups) ||
            memcmp(&sleeper->key, &key, sizeof key) != 0 || schedule_is_killed(thread))
            continue;
        sleeper->woken = true;
        woken++;
    }
    schedule_note_wake();
    schedule_step(place);
    return woken;
}

static uint64_t futex_until_ns(int operation, const struct timespec *time)
{
    if (!time)
        return UINT64_MAX;
    bool is_absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    return ns_of(time) + (is_absolute ? 0 : schedule_clock_ns());
}

long explored_syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (schedule_is_running() && number == SYS_futex) {
        const uint32_t *word = (const uint32_t *)a[0];
        int operation = (int)a[1];
        uint32_t groups = (uint32_t)a[5];
        switch (operation & FUTEX_CMD_MASK) {
        case FUTEX_WAIT:
            groups = FUTEX_BITSET_MATCH_ANY; /* fall through */
            __attribute__((fallthrough));
        case FUTEX_WAIT_BITSET:
            return futex_wait(word, (uint32_t)a[2],
                              futex_until_ns(operation, (const struct timespec *)a[3]), groups,
                              HERE);
        case FUTEX_WAKE:
            groups = FUTEX_BITSET_MATCH_ANY; /* fall through */
            __attribute__((fallthrough));
        case FUTEX_WAKE_BITSET:
            return futex_wake(word, (unsigned)a[2], groups, HERE);
        default:
            schedule_fail("a futex operation that the explorer does not know: %d", operation);
        }
    }
    if (schedule_is_running() && number == SYS_pidfd_open && kernel_has_processes())
        return kernel_open_pidfd((pid_t)a[0]);
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Clocks, sleeps, chance ----------------------------------------------------------------------- */

int explored_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!schedule_is_running())
        return clock_gettime(clock, time);
    schedule_step(HERE);
    uint64_t now_ns = clock == CLOCK_THREAD_CPUTIME_ID ? schedule_cpu_ns() : schedule_clock_ns();
    if (machine_runs() && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now_ns = machine_clock_ns(now_ns);
    time->tv_sec = (time_t)(now_ns / NS_PER_S);
    time->tv_nsec = (long)(now_ns % NS_PER_S);
    return 0;
}

static bool never(const void *what)
{
    (void)what;
    return false;
}

int explored_nanosleep(const struct timespec *time, struct timespec *rest)
{
    if (!schedule_is_running())
        return nanosleep(time, rest);
    schedule_wait(never, NULL, schedule_clock_ns() + ns_of(time), HERE);
    return 0;
}

int explored_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                             struct timespec *rest)
{
    if (!schedule_is_running())
        return clock_nanosleep(clock, flags, time, rest);
    uint64_t base_ns = flags & TIMER_ABSTIME ? 0 : schedule_clock_ns();
    schedule_wait(never, NULL, base_ns + ns_of(time), HERE);
    return 0;
}

int explored_sched_yield(void)
{
    schedule_yield(HERE);
    return 0;
}

ssize_t explored_getrandom(void *buffer, size_t bytes, unsigned flags)
{
    if (!schedule_is_running())
        return getrandom(buffer, bytes, flags);
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)buffer)[i] = (uint8_t)schedule_random();
    return (ssize_t)bytes;
}

void explored_abort(void)
{
    if (schedule_is_running())
        schedule_fail("the code calls abort");
    abort();
}

/* Threads -------------------------------------------------------------------------------------- */

struct start {
    void *(*run)(void *);
    void *argument;
};

#define KEYS_MAX 16u

static struct key {
    bool used;
    void (*destroy)(void *);
} keys[KEYS_MAX];
static void *key_values[FIBERS_MAX][KEYS_MAX];

static void run_start(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    start.run(start.argument);
}

void thread_values_begin(void)
{
    memset(key_values[schedule_thread()], 0, sizeof key_values[0]);
}

void thread_values_end(void)
{
    for (unsigned i = 0; i < KEYS_MAX; i++) {
        void *value = key_values[schedule_thread()][i];
        key_values[schedule_thread()][i] = NULL;
        if (value && keys[i].used && keys[i].destroy)
            keys[i].destroy(value);
    }
}

int explored_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*run)(void *), void *argument)
{
    if (!schedule_is_running())
        return pthread_create(thread, attributes, run, argument);
    struct start *start = malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){run, argument};
    unsigned number = schedule_spawn(schedule_process(), run_start, start);
    *thread = schedule_pthread(number);
    schedule_step(HERE);
    return 0;
}

static bool has_ended(const void *what)
{
    return schedule_has_ended((unsigned)(uintptr_t)what);
}

static int join_until(pthread_t thread, uint64_t until_ns, const void *place)
{
    unsigned number = schedule_thread_of(thread);
    if (number == FIBERS_MAX)
        return ESRCH;
    while (!has_ended((const void *)(uintptr_t)number))
        if (!schedule_wait(has_ended, (const void *)(uintptr_t)number, until_ns, place))
            return ETIMEDOUT;
    schedule_note_joined(number);
    return 0;
}

int explored_pthread_join(pthread_t thread, void **result)
{
    return schedule_is_running() ? join_until(thread, UINT64_MAX, HERE)
                                 : pthread_join(thread, result);
}

int explored_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until)
{
    return schedule_is_running() ? join_until(thread, ns_of(until), HERE)
                                 : pthread_timedjoin_np(thread, result, until);
}

int explored_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread, (void)name;
    return 0;
}

int explored_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    if (!schedule_is_running())
        return pthread_sigmask(how, set, before);
    if (before)
        sigemptyset(before);
    return 0;
}

/* Once: 0 not yet, 1 by somebody, 2 done. It stays done over schedules of one process. */
static bool is_done(const void *what)
{
    return *(const pthread_once_t *)what == 2;
}

int explored_pthread_once(pthread_once_t *control, void (*run)(void))
{
    schedule_step(HERE);
    if (*control == 1)
        schedule_wait(is_done, control, UINT64_MAX, HERE);
    if (*control == 2)
        return 0;
    *control = 1;
    run();
    *control = 2;
    return 0;
}

int explored_pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    for (unsigned i = 0; i < KEYS_MAX; i++)
        if (!keys[i].used) {
            keys[i] = (struct key){true, destroy};
            *key = i;
            return 0;
        }
    return EAGAIN;
}

void thread_values_forget(void)
{
    memset(keys, 0, sizeof keys);
    memset(key_values, 0, sizeof key_values);
}

int explored_pthread_setspecific(pthread_key_t key, const void *value)
{
    key_values[schedule_thread()][key] = (void *)(uintptr_t)value;
    return 0;
}

void *explored_pthread_getspecific(pthread_key_t key)
{
    return key_values[schedule_thread()][key];
}
