/* time_slice: what a thread asks of the scheduler, and what stays as it was. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/skip.h"
#include "tests/support/test_suite.h"
#include "wire/time_slice.h"

/* As of sched_getattr(2). */
struct facts {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

static struct facts own_facts(void)
{
    struct facts facts = {.size = sizeof facts};
    ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &facts, sizeof facts, 0), 0);
    return facts;
}

START_TEST(asks_for_short_turns)
{
    uint64_t before_ns = own_facts().slice_ns;
    if (before_ns == 0)
        SKIP_TEST("the kernel knows no slices of single threads");
    ck_assert_uint_gt(before_ns, TIME_SLICE_SHORT_NS);
    ck_assert(time_slice_shorten());
    ck_assert_uint_eq(own_facts().slice_ns, TIME_SLICE_SHORT_NS);
    ck_assert(time_slice_shorten()); /* once more changes nothing */
    ck_assert_uint_eq(own_facts().slice_ns, TIME_SLICE_SHORT_NS);
}
END_TEST

START_TEST(policy_and_nice_value_stay)
{
    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, 19), 0);
    ck_assert(time_slice_shorten());
    struct facts facts = own_facts();
    ck_assert_uint_eq(facts.policy, SCHED_OTHER);
    ck_assert_int_eq(facts.nice, 19);
}
END_TEST

START_TEST(other_policies_are_left_alone)
{
    struct sched_param none = {0};
    ck_assert_int_eq(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    struct facts before = own_facts();
    ck_assert(!time_slice_shorten());
    ck_assert_uint_eq(own_facts().policy, SCHED_BATCH);
    ck_assert_uint_eq(own_facts().slice_ns, before.slice_ns);
}
END_TEST

static void *shorten(void *asked)
{
    *(bool *)asked = time_slice_shorten();
    return NULL;
}

START_TEST(other_threads_keep_theirs)
{
    uint64_t before_ns = own_facts().slice_ns;
    bool asked = false;
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, shorten, &asked), 0);
    pthread_join(other, NULL);
    ck_assert(asked);
    ck_assert_uint_eq(own_facts().slice_ns, before_ns);
}
END_TEST

TEST_SUITE(wire_timeslice)
{
    TCase *asking = tcase_create("asking");
    tcase_add_test(asking, asks_for_short_turns);
    tcase_add_test(asking, policy_and_nice_value_stay);
    tcase_add_test(asking, other_policies_are_left_alone);
    tcase_add_test(asking, other_threads_keep_theirs);
    suite_add_tcase(suite, asking);
}
