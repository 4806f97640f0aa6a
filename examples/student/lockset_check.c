/*
 * Tests of a lock strategy (kvstore/core/lock.h): what must hold of any, and what yours does beyond
 * that. Exit status 1: something that must hold does not.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/time/clock.h"
#include "kvstore/core/lock.h"

#define FILES   8u
#define THREADS 4u
#define ROUNDS  20000u

static struct lockset *locks;
static int failures;

static void check(bool good, const char *text)
{
    printf("%s - %s\n", good ? "ok" : "not ok", text);
    failures += !good;
}

/* Two counters of each file, which only a writer may find or leave different. */
static struct {
    uint64_t first, second;
} counters[FILES];
static atomic_uint torn;

static void *write_and_read(void *argument)
{
    unsigned at = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t file = (at + i * 7) % FILES;
        if (i % 4 == 0) {
            lockset_write_lock(locks, file);
            counters[file].first++;
            counters[file].second++;
            lockset_write_unlock(locks, file);
        } else {
            lockset_read_lock(locks, file);
            if (counters[file].first != counters[file].second)
                atomic_fetch_add(&torn, 1);
            lockset_read_unlock(locks, file);
        }
    }
    return NULL;
}

static void check_exclusion(void)
{
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, write_and_read, (void *)i) != 0)
            exit(2);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < FILES; i++)
        sum += counters[i].first;
    check(sum == THREADS * (ROUNDS / 4), "no write is lost");
    check(atomic_load(&torn) == 0, "no reader sees half of a write");
}

static atomic_bool entered;

static void *enter_write(void *file)
{
    lockset_write_lock(locks, (uint32_t)(uintptr_t)file);
    atomic_store(&entered, true);
    lockset_write_unlock(locks, (uint32_t)(uintptr_t)file);
    return NULL;
}

static void *enter_read(void *file)
{
    lockset_read_lock(locks, (uint32_t)(uintptr_t)file);
    atomic_store(&entered, true);
    lockset_read_unlock(locks, (uint32_t)(uintptr_t)file);
    return NULL;
}

/* Whether another thread gets in within a tenth of a second; joins it after `leave`. */
static bool gets_in(void *(*enter)(void *), uint32_t file, void (*leave)(void))
{
    pthread_t thread;
    atomic_store(&entered, false);
    if (pthread_create(&thread, NULL, enter, (void *)(uintptr_t)file) != 0)
        exit(2);
    for (unsigned i = 0; i < 100 && !atomic_load(&entered); i++)
        clock_sleep_ms(1);
    bool in = atomic_load(&entered);
    leave();
    pthread_join(thread, NULL);
    return in;
}

static void leave_read(void)
{
    lockset_read_unlock(locks, 0);
}

static void leave_write(void)
{
    lockset_write_unlock(locks, 0);
}

static void leave_all(void)
{
    lockset_write_unlock_all(locks);
}

static void check_who_waits(void)
{
    lockset_write_lock(locks, 0);
    check(!gets_in(enter_write, 0, leave_write), "a writer keeps another out");
    lockset_write_lock(locks, 0);
    check(!gets_in(enter_read, 0, leave_write), "a writer keeps a reader out");
    lockset_read_lock(locks, 0);
    check(!gets_in(enter_write, 0, leave_read), "a reader keeps a writer out");
    lockset_write_lock_all(locks);
    check(!gets_in(enter_read, FILES - 1, leave_all), "who has all locks keeps everybody out");
}

/* Not required: what the measurements are about. */
static void tell_what_is_shared(void)
{
    lockset_read_lock(locks, 0);
    printf("yours: two readers of a file %s\n",
           gets_in(enter_read, 0, leave_read) ? "share its lock" : "exclude each other");
    lockset_write_lock(locks, 0);
    printf("yours: writers of two files %s\n",
           gets_in(enter_write, 1, leave_write) ? "do not meet" : "exclude each other");
    printf("yours: %u files take %llu bytes of locks\n", FILES,
           (unsigned long long)lockset_memory_bytes(locks));
}

static unsigned calls;

static void count_call(void)
{
    calls++;
}

static void check_calls(void)
{
    uint64_t before_ns = kvstore_lock_wait_ns();
    lockset_write_lock(locks, 0);
    lockset_write_unlock(locks, 0);
    check(kvstore_lock_wait_ns() == before_ns, "a lock that is free is not waited for");
    lockset_set_before_unlock(locks, count_call);
    lockset_read_lock(locks, 1);
    lockset_read_unlock(locks, 1);
    lockset_write_lock(locks, 2);
    lockset_write_unlock(locks, 2);
    check(calls == 2, "before_unlock is called for each lock that is released");
}

int main(void)
{
    locks = lockset_create(KVSTORE_FILE_RWLOCK, KVSTORE_PREFER_WRITER, FILES);
    if (!locks)
        return 2;
    check_exclusion();
    check_who_waits();
    tell_what_is_shared();
    check_calls();
    lockset_free(locks);
    return failures > 0;
}
