/* slots: places are given once at a time, who comes too much waits, and all of it is counted. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/time/clock.h"
#include "lab/dispatch/slots.h"
#include "tests/support/test_suite.h"

#define PLACES  3u
#define THREADS 8u
#define ROUNDS  2000u

START_TEST(places_differ_and_the_last_given_is_taken_first)
{
    struct slots *slots = slots_create(PLACES);
    ck_assert_uint_eq(slots_take(slots), 0);
    ck_assert_uint_eq(slots_take(slots), 1);
    ck_assert_uint_eq(slots_take(slots), 2);
    slots_release(slots, 2);
    slots_release(slots, 0);
    ck_assert_uint_eq(slots_take(slots), 0);
    slots_count_died(slots);
    slots_count_taken_back(slots);
    slots_count_taken_back(slots);
    struct slot_counts counts = slots_counts(slots);
    ck_assert_uint_eq(counts.limit, PLACES);
    ck_assert_uint_eq(counts.live, 2);
    ck_assert_uint_eq(counts.live_max, 3);
    ck_assert_uint_eq(counts.started, 4);
    ck_assert_uint_eq(counts.waits, 0);
    ck_assert_uint_eq(counts.died, 1);
    ck_assert_uint_eq(counts.taken_back, 2);
    slots_free(slots);
    slots_free(NULL);
}
END_TEST

static struct slots *shared;
static _Atomic unsigned owners[PLACES];

static void *come_and_go(void *unused)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned place = slots_take(shared);
        ck_assert_uint_lt(place, PLACES);
        ck_assert_uint_eq(atomic_fetch_add(&owners[place], 1), 0);
        atomic_fetch_sub(&owners[place], 1);
        slots_release(shared, place);
    }
    return unused;
}

START_TEST(no_place_has_two_owners)
{
    pthread_t threads[THREADS];
    shared = slots_create(PLACES);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    slots_wait_all(shared);
    struct slot_counts counts = slots_counts(shared);
    ck_assert_uint_eq(counts.live, 0);
    ck_assert_uint_le(counts.live_max, PLACES);
    ck_assert_uint_eq(counts.started, THREADS * ROUNDS);
    slots_free(shared);
}
END_TEST

static void *take_one(void *taken)
{
    slots_take(shared);
    atomic_store((atomic_bool *)taken, true);
    return NULL;
}

START_TEST(at_the_limit_taking_waits_for_giving)
{
    atomic_bool taken = false;
    pthread_t thread;
    shared = slots_create(1);
    slots_take(shared);
    ck_assert_int_eq(pthread_create(&thread, NULL, take_one, &taken), 0);
    while (slots_counts(shared).waits == 0)
        clock_sleep_ms(1);
    ck_assert(!atomic_load(&taken));
    slots_release(shared, 0);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&taken));
    ck_assert_uint_eq(slots_counts(shared).live_max, 1);
    slots_free(shared);
}
END_TEST

TEST_SUITE(lab_slots)
{
    TCase *cases = tcase_create("slots");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, places_differ_and_the_last_given_is_taken_first);
    tcase_add_test(cases, no_place_has_two_owners);
    tcase_add_test(cases, at_the_limit_taking_waits_for_giving);
    suite_add_tcase(suite, cases);
}
