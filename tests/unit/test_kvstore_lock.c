#include "kvstore/core/lock.h"
#include "mqkv/kvstore.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/store_variants.h"
#include "tests/support/test_suite.h"

#define FILES 3

/* Tests that every kind of lock must pass run over each strategy with each preference. */
static int lock_variant_count(void)
{
    return locking_count() * preference_count();
}

static atomic_bool held; /* of hold_until_told */

static enum kvstore_locking strategy_of(int variant)
{
    return (enum kvstore_locking)(variant % locking_count());
}

static struct lockset *create(int variant)
{
    enum kvstore_rwlock preference = (enum kvstore_rwlock)(variant / locking_count());
    return lockset_create(strategy_of(variant), preference, FILES);
}

static bool is_global(enum kvstore_locking strategy)
{
    return strategy == KVSTORE_GLOBAL_RWLOCK || strategy == KVSTORE_GLOBAL_MUTEX;
}

static bool shares_readers(enum kvstore_locking strategy)
{
    return strategy == KVSTORE_FILE_RWLOCK || strategy == KVSTORE_GLOBAL_RWLOCK ||
           strategy == KVSTORE_OPTIMISTIC;
}

START_TEST(names_are_those_of_the_option)
{
    ck_assert_str_eq(kvstore_locking_name(KVSTORE_FILE_RWLOCK), "file-rwlock");
    ck_assert_ptr_null(kvstore_locking_name(KVSTORE_LOCKING_COUNT));
    ck_assert_ptr_null(kvstore_locking_name((enum kvstore_locking) - 1));
    ck_assert_str_eq(kvstore_rwlock_name(KVSTORE_PREFER_WRITER), "prefer-writer");
    ck_assert_ptr_null(kvstore_rwlock_name(KVSTORE_RWLOCK_COUNT));
    ck_assert_ptr_null(kvstore_rwlock_name((enum kvstore_rwlock) - 1));
}
END_TEST

START_TEST(locks_share_no_cache_line)
{
    struct lockset *one = lockset_create((enum kvstore_locking)_i, KVSTORE_PREFER_WRITER, 1);
    struct lockset *many = lockset_create((enum kvstore_locking)_i, KVSTORE_PREFER_WRITER, 101);
    uint64_t grown_bytes = lockset_memory_bytes(many) - lockset_memory_bytes(one);
    ck_assert_uint_eq(grown_bytes, is_global((enum kvstore_locking)_i) ? 0 : 100 * 128);
    lockset_free(one);
    lockset_free(many);
    lockset_free(NULL);
}
END_TEST

/* A second thread tries to take a lock; whether it gets it while the first holds another tells
 * which of them exclude each other. */
struct rival {
    struct lockset *locks;
    uint32_t file;
    bool writes;
    atomic_int thread_id; /* 0 until it is about to take the lock */
    atomic_bool entered;
    uint64_t waited_ns;
};

static void *rival_enters(void *context)
{
    struct rival *rival = context;
    uint64_t waited_ns = kvstore_lock_wait_ns();
    atomic_store(&rival->thread_id, (int)gettid());
    if (rival->writes)
        lockset_write_lock(rival->locks, rival->file);
    else
        lockset_read_lock(rival->locks, rival->file);
    atomic_store(&rival->entered, true);
    if (rival->writes)
        lockset_write_unlock(rival->locks, rival->file);
    else
        lockset_read_unlock(rival->locks, rival->file);
    rival->waited_ns = kvstore_lock_wait_ns() - waited_ns;
    return NULL;
}

/* Waits until the rival is in, or sleeps; the lock is all that it can sleep for. */
static void wait_for_rival(struct rival *rival)
{
    while (atomic_load(&rival->thread_id) == 0)
        clock_sleep_ms(1);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&rival->thread_id));
    for (char state = 0; state != 'S' && !atomic_load(&rival->entered);) {
        clock_sleep_ms(1);
        FILE *stat = fopen(path, "r");
        if (!stat)
            continue; /* it is in and out again */
        ck_assert_int_eq(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
        fclose(stat);
    }
}

/* What is told of the locks when the rival has waited, or not. A holder for writing knows that it
 * was waited for; one that has waited is such a holder, too. */
static void assert_facts(const struct rival *rival, bool holder_writes, bool has_waited)
{
    struct kvstore_lock_facts facts;
    lockset_facts(rival->locks, rival->file, &facts);
    ck_assert_uint_eq(facts.waits, has_waited);
    ck_assert_int_eq(facts.longest_wait_ns > 0, has_waited);
    ck_assert_int_eq(facts.longest_hold_ns > 0, has_waited && (holder_writes || rival->writes));
}

/* Whether the rival is kept out of `file` while this thread holds file 0. */
static void assert_excludes(int variant, bool holder_writes, bool rival_writes, uint32_t file,
                            bool expected)
{
    struct rival rival = {create(variant), file, rival_writes, 0, false, 0};
    pthread_t thread;
    if (holder_writes)
        lockset_write_lock(rival.locks, 0);
    else
        lockset_read_lock(rival.locks, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, rival_enters, &rival), 0);
    if (expected)
        wait_for_rival(&rival);
    while (!expected && !atomic_load(&rival.entered))
        clock_sleep_ms(1); /* Check's timeout is the judge */
    ck_assert_int_eq(atomic_load(&rival.entered), !expected);
    if (holder_writes)
        lockset_write_unlock(rival.locks, 0);
    else
        lockset_read_unlock(rival.locks, 0);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&rival.entered));
    ck_assert_int_eq(rival.waited_ns > 0, expected);
    assert_facts(&rival, holder_writes, expected);
    lockset_free(rival.locks);
}

START_TEST(exclusion_is_that_of_the_strategy)
{
    enum kvstore_locking strategy = strategy_of(_i);
    for (uint32_t file = 0; file < FILES; file++) {
        bool same_lock = file == 0 || is_global(strategy);
        assert_excludes(_i, true, true, file, same_lock);
        assert_excludes(_i, true, false, file, same_lock);
        assert_excludes(_i, false, true, file, same_lock);
        assert_excludes(_i, false, false, file, same_lock && !shares_readers(strategy));
    }
}
END_TEST

/* Writers add to a counter that no atomic protects; readers must never see half an addition. */
#define ADDITIONS 20000

struct locked_counter {
    struct lockset *locks;
    uint64_t low, high; /* equal whenever no writer is inside */
};

static void *add_to_counter(void *context)
{
    struct locked_counter *counter = context;
    for (int i = 0; i < ADDITIONS; i++) {
        lockset_write_lock(counter->locks, 1);
        counter->low++;
        counter->high++;
        lockset_write_unlock(counter->locks, 1);
    }
    return NULL;
}

static void *read_counter(void *context)
{
    struct locked_counter *counter = context;
    uintptr_t torn = 0;
    for (int i = 0; i < ADDITIONS; i++) {
        lockset_read_lock(counter->locks, 1);
        torn += counter->low != counter->high;
        lockset_read_unlock(counter->locks, 1);
    }
    return (void *)torn;
}

START_TEST(no_addition_is_lost_and_none_is_seen_half)
{
    struct locked_counter counter = {create(_i), 0, 0};
    pthread_t writers[3];
    pthread_t readers[3];
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&writers[i], NULL, add_to_counter, &counter), 0);
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_counter, &counter), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *torn;
        pthread_join(writers[i], NULL);
        pthread_join(readers[i], &torn);
        ck_assert_ptr_null(torn);
    }
    ck_assert_uint_eq(counter.low, 3 * ADDITIONS);
    lockset_free(counter.locks);
}
END_TEST

/* Readers overlap each other all the time, so that the lock is never free of them: a writer gets
 * in only if it is preferred. */
struct crowd {
    struct lockset *locks;
    atomic_bool stop;
    atomic_int inside;
};

static void *read_without_a_gap(void *context)
{
    struct crowd *crowd = context;
    while (!atomic_load(&crowd->stop)) {
        lockset_read_lock(crowd->locks, 0);
        atomic_fetch_add(&crowd->inside, 1);
        uint64_t until_ns = clock_monotonic_ns() + 2000000;
        while (clock_monotonic_ns() < until_ns && !atomic_load(&crowd->stop))
            ;
        atomic_fetch_sub(&crowd->inside, 1);
        lockset_read_unlock(crowd->locks, 0);
    }
    return NULL;
}

START_TEST(readers_do_not_starve_a_writer)
{
    struct crowd crowd = {create(_i), false, 0};
    pthread_t readers[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_without_a_gap, &crowd), 0);
    for (int i = 0; i < 20; i++) {
        lockset_write_lock(crowd.locks, 0); /* Check's timeout is the judge */
        ck_assert_int_eq(atomic_load(&crowd.inside), 0);
        lockset_write_unlock(crowd.locks, 0);
        clock_sleep_ms(2);
    }
    atomic_store(&crowd.stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(readers[i], NULL);
    lockset_free(crowd.locks);
}
END_TEST

/* A reader holds the lock and a writer sleeps for it: does a second reader get in? */
static void assert_second_reader_passes(enum kvstore_locking strategy,
                                        enum kvstore_rwlock preference, bool expected)
{
    struct lockset *locks = lockset_create(strategy, preference, FILES);
    struct rival writer = {locks, 0, true, 0, false, 0};
    struct rival reader = {locks, 0, false, 0, false, 0};
    pthread_t writer_thread, reader_thread;
    lockset_read_lock(locks, 0);
    ck_assert_int_eq(pthread_create(&writer_thread, NULL, rival_enters, &writer), 0);
    wait_for_rival(&writer);
    ck_assert_int_eq(pthread_create(&reader_thread, NULL, rival_enters, &reader), 0);
    if (expected)
        pthread_join(reader_thread, NULL); /* Check's timeout is the judge */
    else
        wait_for_rival(&reader);
    ck_assert_int_eq(atomic_load(&reader.entered), expected);
    ck_assert(!atomic_load(&writer.entered));
    lockset_read_unlock(locks, 0);
    if (!expected)
        pthread_join(reader_thread, NULL);
    pthread_join(writer_thread, NULL);
    lockset_free(locks);
}

START_TEST(a_reader_passes_a_waiting_writer_if_readers_are_preferred)
{
    enum kvstore_locking strategy = (enum kvstore_locking)_i;
    if (!kvstore_locking_has_rwlocks(strategy))
        return;
    assert_second_reader_passes(strategy, KVSTORE_PREFER_WRITER, false);
    if (preference_count() > 1)
        assert_second_reader_passes(strategy, KVSTORE_PREFER_READER, true);
}
END_TEST

START_TEST(a_free_lock_counts_no_waiting)
{
    struct lockset *locks = create(_i);
    uint64_t waited_ns = kvstore_lock_wait_ns();
    for (int i = 0; i < 1000; i++) {
        lockset_write_lock(locks, 2);
        lockset_write_unlock(locks, 2);
        lockset_read_lock(locks, 2);
        lockset_read_unlock(locks, 2);
    }
    ck_assert_uint_eq(kvstore_lock_wait_ns() - waited_ns, 0);
    lockset_free(locks);
}
END_TEST

static void *hold_until_told(void *context)
{
    struct lockset *locks = context;
    lockset_write_lock(locks, 2);
    atomic_store(&held, true);
    while (atomic_load(&held))
        clock_sleep_ms(1);
    lockset_write_unlock(locks, 2);
    return NULL;
}

START_TEST(a_lock_that_is_kept_is_waited_for_as_long_as_said)
{
    struct lockset *locks = create(_i);
    pthread_t holder;
    ck_assert(lockset_try_read_lock(locks, 2, 0));
    lockset_read_unlock(locks, 2);
    ck_assert_int_eq(pthread_create(&holder, NULL, hold_until_told, locks), 0);
    while (!atomic_load(&held))
        clock_sleep_ms(1);
    ck_assert(!lockset_try_read_lock(locks, 2, 0));
    ck_assert(!lockset_try_read_lock(locks, 2, 5));
    atomic_store(&held, false);
    ck_assert(lockset_try_read_lock(locks, 2, 20000));
    lockset_read_unlock(locks, 2);
    pthread_join(holder, NULL);
    lockset_free(locks);
}
END_TEST

TEST_SUITE(kvstore_lock)
{
    TCase *tests = tcase_create("lock");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, names_are_those_of_the_option);
    tcase_add_loop_test(tests, locks_share_no_cache_line, 0, locking_count());
    tcase_add_loop_test(tests, exclusion_is_that_of_the_strategy, 0, lock_variant_count());
    tcase_add_loop_test(tests, no_addition_is_lost_and_none_is_seen_half, 0, lock_variant_count());
    tcase_add_loop_test(tests, readers_do_not_starve_a_writer, 0, locking_count());
    tcase_add_loop_test(tests, a_reader_passes_a_waiting_writer_if_readers_are_preferred, 0,
                        locking_count());
    tcase_add_loop_test(tests, a_free_lock_counts_no_waiting, 0, lock_variant_count());
    tcase_add_loop_test(tests, a_lock_that_is_kept_is_waited_for_as_long_as_said, 0,
                        lock_variant_count());
    suite_add_tcase(suite, tests);
}
