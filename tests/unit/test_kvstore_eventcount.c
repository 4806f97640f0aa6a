#include "kvstore/core/eventcount.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>

#include "tests/support/test_suite.h"

#define THREADS_A_GROUP 4u
#define GROUPS          2u
#define STEPS           2000u

/* The groups take turns: each step of the counter is for one of them. */
static struct eventcount room;
static atomic_uint steps;

static void set_up(void)
{
    atomic_store(&room.changes, 0);
    atomic_store(&room.sleepers, 0);
    atomic_store(&steps, 0);
}

static uint32_t group_of_step(uint32_t step)
{
    return 1u << step % GROUPS;
}

static void wait_for_step(uint32_t step)
{
    for (;;) {
        uint32_t changes = eventcount_prepare(&room);
        if (atomic_load(&steps) >= step)
            return;
        eventcount_wait(&room, changes, group_of_step(step));
    }
}

static void *wait_for_every_step_of_a_group(void *argument)
{
    for (uint32_t step = *(uint32_t *)argument; step <= STEPS; step += GROUPS)
        wait_for_step(step);
    return NULL;
}

/* A sleeper who is not woken keeps the test until its time is up. */
START_TEST(whom_a_change_concerns_wakes_up)
{
    pthread_t threads[GROUPS][THREADS_A_GROUP];
    uint32_t first[GROUPS];
    for (uint32_t group = 0; group < GROUPS; group++) {
        first[group] = group + 1;
        for (uint32_t i = 0; i < THREADS_A_GROUP; i++)
            ck_assert_int_eq(pthread_create(&threads[group][i], NULL,
                                            wait_for_every_step_of_a_group, &first[group]),
                             0);
    }
    for (uint32_t step = 1; step <= STEPS; step++) {
        atomic_store(&steps, step);
        eventcount_notify(&room, group_of_step(step));
    }
    for (uint32_t group = 0; group < GROUPS; group++)
        for (uint32_t i = 0; i < THREADS_A_GROUP; i++)
            pthread_join(threads[group][i], NULL);
    ck_assert_uint_eq(atomic_load(&room.sleepers), 0);
}
END_TEST

START_TEST(nobody_sleeps_over_a_change_of_another_group)
{
    uint32_t changes = eventcount_prepare(&room);
    eventcount_notify(&room, 1);
    eventcount_wait(&room, changes, 2);
    ck_assert_uint_ne(eventcount_prepare(&room), changes);
}
END_TEST

TEST_SUITE(kvstore_eventcount)
{
    TCase *tests = tcase_create("eventcount");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, whom_a_change_concerns_wakes_up);
    tcase_add_test(tests, nobody_sleeps_over_a_change_of_another_group);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
