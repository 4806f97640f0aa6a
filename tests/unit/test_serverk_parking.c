/* parking: of the workers that share the lanes, one always watches, and no more than needed are
 * awake. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/time/clock.h"
#include "serverk/receive/parking.h"
#include "tests/support/store_calls.h"
#include "tests/unit/suites.h"

static struct parking *parking;
static _Atomic int back; /* threads whose parking_park has returned true */

static void *rest(void *unused)
{
    (void)unused;
    if (parking_park(parking))
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
    return parking_counts(parking).parked == *(unsigned *)number;
}

static void wait_parked(unsigned number)
{
    ck_assert(wait_until(parked_is, &number));
}

START_TEST(the_last_on_duty_does_not_park)
{
    parking = parking_create(1, 4);
    ck_assert(!parking_park(parking));
    ck_assert_uint_eq(parking_counts(parking).active, 1);
    parking_free(parking);
}
END_TEST

START_TEST(others_park_until_called)
{
    parking = parking_create(3, 2);
    pthread_t first = start_resting(), second = start_resting();
    wait_parked(2);
    ck_assert(!parking_park(parking));
    ck_assert_int_eq(atomic_load(&back), 0);
    parking_unpark(parking);
    wait_parked(1);
    parking_unpark(parking); /* two on duty are the maximum */
    ck_assert_uint_eq(parking_counts(parking).parked, 1);
    parking_stop(parking);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    ck_assert_int_eq(atomic_load(&back), 2);
    parking_free(parking);
}
END_TEST

START_TEST(who_leaves_is_replaced_only_if_last)
{
    parking = parking_create(3, 3);
    pthread_t parked = start_resting();
    wait_parked(1);
    parking_begin_long(parking); /* two were on duty */
    ck_assert_uint_eq(parking_counts(parking).parked, 1);
    parking_begin_long(parking); /* the last one */
    pthread_join(parked, NULL);
    ck_assert_int_eq(atomic_load(&back), 1);
    struct parking_counts counts = parking_counts(parking);
    ck_assert_uint_eq(counts.active, 1);
    ck_assert_uint_eq(counts.in_long, 2);
    parking_end_long(parking);
    parking_end_long(parking);
    ck_assert_uint_eq(parking_counts(parking).active, 3);
    parking_free(parking);
}
END_TEST

START_TEST(nobody_parks_after_a_stop)
{
    parking = parking_create(2, 2);
    parking_stop(parking);
    ck_assert(parking_park(parking));
    ck_assert(parking_park(parking));
    parking_free(parking);
}
END_TEST

Suite *suite_serverk_parking(void)
{
    Suite *suite = suite_create("serverk parking");
    TCase *cases = tcase_create("parking");
    tcase_add_test(cases, the_last_on_duty_does_not_park);
    tcase_add_test(cases, others_park_until_called);
    tcase_add_test(cases, who_leaves_is_replaced_only_if_last);
    tcase_add_test(cases, nobody_parks_after_a_stop);
    suite_add_tcase(suite, cases);
    return suite;
}
