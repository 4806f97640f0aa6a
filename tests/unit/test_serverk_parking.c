/* parking: of the workers that share the lanes, one always watches, and no more than needed are
 * awake. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "serverk/receive/parking.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

static struct parking *parking;
static _Atomic uint64_t pulses[3]; /* of its workers */
static struct parking_place *places[3];
static _Atomic int back; /* threads whose parking_park has returned true */

static void make_parking(unsigned workers, unsigned max_active)
{
    parking = parking_create(workers, max_active);
    ck_assert_ptr_nonnull(parking);
    for (unsigned i = 0; i < workers; i++)
        places[i] = parking_place(parking, i, &pulses[i]);
}

static void *rest(void *place)
{
    if (parking_park(place))
        atomic_fetch_add(&back, 1);
    return NULL;
}

static pthread_t start_resting(unsigned worker)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, rest, places[worker]), 0);
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

/* The workers of these bits look at the lanes. */
static void look_at_lanes(unsigned workers)
{
    for (unsigned i = 0; i < 3; i++)
        atomic_fetch_add(&pulses[i], workers >> i & 1);
}

static bool timer_runs(void)
{
    struct itimerspec left;
    ck_assert_int_eq(timerfd_gettime(parking_timer(parking), &left), 0);
    return left.it_interval.tv_nsec != 0;
}

START_TEST(the_last_on_duty_does_not_park)
{
    make_parking(1, 4);
    ck_assert(!parking_park(places[0]));
    ck_assert_uint_eq(parking_counts(parking).active, 1);
    parking_free(parking);
}
END_TEST

START_TEST(others_park_until_called)
{
    make_parking(3, 2);
    pthread_t first = start_resting(0), second = start_resting(1);
    wait_parked(2);
    ck_assert(!parking_park(places[2]));
    ck_assert_int_eq(atomic_load(&back), 0);
    parking_unpark(parking);
    wait_parked(1);
    parking_unpark(parking); /* two on duty are the maximum */
    ck_assert_uint_eq(parking_counts(parking).parked, 1);
    parking_stop(parking);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    ck_assert_int_eq(atomic_load(&back), 2);
    struct parking_counts counts = parking_counts(parking);
    ck_assert_uint_eq(counts.active, 3);
    ck_assert_uint_eq(counts.parked, 0);
    parking_free(parking);
}
END_TEST

START_TEST(who_does_not_come_back_is_replaced_only_if_last)
{
    make_parking(3, 3);
    pthread_t parked = start_resting(2);
    wait_parked(1);
    look_at_lanes(3);
    ck_assert(parking_look(parking));
    look_at_lanes(2);
    ck_assert(parking_look(parking)); /* the first has not looked since */
    ck_assert_uint_eq(parking_counts(parking).away, 1);
    ck_assert_uint_eq(parking_counts(parking).parked, 1);
    ck_assert(parking_look(parking)); /* nor has the second */
    pthread_join(parked, NULL);
    ck_assert_int_eq(atomic_load(&back), 1);
    struct parking_counts counts = parking_counts(parking);
    ck_assert_uint_eq(counts.active, 1);
    ck_assert_uint_eq(counts.away, 2);
    ck_assert(parking_come_back(places[0]));
    ck_assert(!parking_come_back(places[0]));
    ck_assert(parking_come_back(places[1]));
    ck_assert_uint_eq(parking_counts(parking).active, 3);
    parking_free(parking);
}
END_TEST

START_TEST(it_is_told_when_all_are_away)
{
    make_parking(2, 2);
    look_at_lanes(3);
    ck_assert(parking_look(parking));
    ck_assert_uint_eq(parking_counts(parking).all_away_ms, 0);
    ck_assert(!parking_look(parking));
    while (parking_counts(parking).all_away_ms < 2)
        sched_yield();
    ck_assert(!parking_look(parking));
    ck_assert_uint_ge(parking_counts(parking).all_away_ms, 2);
    ck_assert(parking_come_back(places[1]));
    ck_assert_uint_eq(parking_counts(parking).all_away_ms, 0);
    look_at_lanes(2);
    ck_assert(parking_look(parking));
    parking_free(parking);
}
END_TEST

/* Who has not noticed yet that it was found away does so before it parks or sleeps. */
START_TEST(who_was_away_is_back_when_it_rests)
{
    make_parking(3, 3);
    look_at_lanes(7);
    parking_look(parking);
    look_at_lanes(1);
    parking_look(parking);
    ck_assert_uint_eq(parking_counts(parking).away, 2);
    parking_fall_asleep(places[1]);
    ck_assert_uint_eq(parking_counts(parking).away, 1);
    pthread_t parked = start_resting(2);
    wait_parked(1);
    ck_assert_uint_eq(parking_counts(parking).away, 0);
    ck_assert_uint_eq(parking_counts(parking).active, 2);
    parking_stop(parking);
    pthread_join(parked, NULL);
    parking_free(parking);
}
END_TEST

START_TEST(the_timer_runs_only_beside_active_workers_that_do_not_sleep)
{
    make_parking(2, 2);
    pthread_t parked = start_resting(1);
    wait_parked(1);
    parking_fall_asleep(places[0]);
    parking_look(parking);
    ck_assert(!timer_runs());
    parking_wake_up(places[0]);
    ck_assert(timer_runs());
    look_at_lanes(1);
    parking_look(parking);
    ck_assert(timer_runs());
    parking_fall_asleep(places[0]); /* a sleeper is not away, however long */
    for (unsigned i = 0; i < 3; i++)
        ck_assert(parking_look(parking));
    ck_assert(!timer_runs());
    ck_assert_uint_eq(parking_counts(parking).away, 0);
    parking_wake_up(places[0]);
    parking_look(parking);
    parking_look(parking); /* away, and the other one is active, but not asleep */
    pthread_join(parked, NULL);
    ck_assert(timer_runs());
    parking_fall_asleep(places[1]);
    parking_look(parking);
    ck_assert(!timer_runs());
    parking_come_back(places[0]);
    ck_assert(timer_runs());
    parking_free(parking);
}
END_TEST

/* The first message may keep the last of them for as long as it likes. */
START_TEST(the_timer_runs_before_the_first_message)
{
    make_parking(2, 2);
    ck_assert(timer_runs());
    pthread_t first = start_resting(0);
    wait_parked(1);
    ck_assert(timer_runs());
    parking_look(parking); /* the other one has not come back: the first is called */
    ck_assert_uint_eq(parking_counts(parking).away, 1);
    pthread_join(first, NULL);
    parking_free(parking);
}
END_TEST

START_TEST(nobody_parks_after_a_stop)
{
    make_parking(2, 2);
    parking_stop(parking);
    ck_assert(parking_park(places[0]));
    ck_assert(parking_park(places[1]));
    uint64_t expirations;
    ck_assert_int_eq(read(parking_timer(parking), &expirations, sizeof expirations), 8);
    parking_free(parking);
}
END_TEST

TEST_SUITE(serverk_parking)
{
    TCase *cases = tcase_create("parking");
    tcase_add_test(cases, the_last_on_duty_does_not_park);
    tcase_add_test(cases, others_park_until_called);
    tcase_add_test(cases, who_does_not_come_back_is_replaced_only_if_last);
    tcase_add_test(cases, it_is_told_when_all_are_away);
    tcase_add_test(cases, who_was_away_is_back_when_it_rests);
    tcase_add_test(cases, the_timer_runs_only_beside_active_workers_that_do_not_sleep);
    tcase_add_test(cases, the_timer_runs_before_the_first_message);
    tcase_add_test(cases, nobody_parks_after_a_stop);
    suite_add_tcase(suite, cases);
}
