/* crew: of the workers that share the lanes, one always watches, and no more than needed are awake. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "serverk/receive/parking.h"
#include "tests/support/store_calls.h"
#include "tests/unit/suites.h"

static struct crew *crew;
static _Atomic int back; /* threads whose crew_rest has returned true */

static void *rest(void *unused)
{
    (void)unused;
    if (crew_rest(crew))
        atomic_fetch_add(&back, 1);
    return NULL;
}

static pthread_t start_resting(void)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, rest, NULL), 0);
    return thread;
}

static bool parked_is(void *number)
{
    return crew_counts(crew).parked == *(unsigned *)number;
}

static void wait_parked(unsigned number)
{
    ck_assert(wait_until(parked_is, &number));
}

START_TEST(the_last_on_duty_does_not_park)
{
    crew = crew_create(1, 4);
    ck_assert(!crew_rest(crew));
    ck_assert_uint_eq(crew_counts(crew).on_duty, 1);
    crew_free(crew);
}
END_TEST

START_TEST(others_park_until_called)
{
    crew = crew_create(3, 2);
    pthread_t first = start_resting(), second = start_resting();
    wait_parked(2);
    ck_assert(!crew_rest(crew));
    ck_assert_int_eq(atomic_load(&back), 0);
    crew_call(crew);
    wait_parked(1);
    crew_call(crew); /* two on duty are the maximum */
    ck_assert_uint_eq(crew_counts(crew).parked, 1);
    crew_stop(crew);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    ck_assert_int_eq(atomic_load(&back), 2);
    crew_free(crew);
}
END_TEST

START_TEST(who_leaves_is_replaced_only_if_last)
{
    crew = crew_create(3, 3);
    pthread_t parked = start_resting();
    wait_parked(1);
    crew_leave(crew); /* two were on duty */
    ck_assert_uint_eq(crew_counts(crew).parked, 1);
    crew_leave(crew); /* the last one */
    pthread_join(parked, NULL);
    ck_assert_int_eq(atomic_load(&back), 1);
    struct crew_counts counts = crew_counts(crew);
    ck_assert_uint_eq(counts.on_duty, 1);
    ck_assert_uint_eq(counts.away, 2);
    crew_return(crew);
    crew_return(crew);
    ck_assert_uint_eq(crew_counts(crew).on_duty, 3);
    crew_free(crew);
}
END_TEST

START_TEST(nobody_rests_in_a_stopped_crew)
{
    crew = crew_create(2, 2);
    crew_stop(crew);
    ck_assert(crew_rest(crew));
    ck_assert(crew_rest(crew));
    crew_free(crew);
}
END_TEST

Suite *suite_serverk_parking(void)
{
    Suite *suite = suite_create("serverk crew");
    TCase *cases = tcase_create("crew");
    tcase_add_test(cases, the_last_on_duty_does_not_park);
    tcase_add_test(cases, others_park_until_called);
    tcase_add_test(cases, who_leaves_is_replaced_only_if_last);
    tcase_add_test(cases, nobody_rests_in_a_stopped_crew);
    suite_add_tcase(suite, cases);
    return suite;
}
