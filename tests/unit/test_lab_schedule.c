/* schedule: the order of waiting messages, its bounds, and the nice values that go with
 * priorities. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/numbers/random.h"
#include "serverk/dispatch/nice.h"
#include "lab/schedule/schedule.h"
#include "tests/support/test_suite.h"

#define MESSAGE_BYTES 64u
#define US            UINT64_C(1000)
#define MS            (1000 * US)

static struct schedule *schedule;
static uint32_t tenants_due = UINT32_MAX; /* messages of these are taken */

/* A message whose bytes say its number. */
static void add(uint32_t number, unsigned priority, uint64_t work_ns, uint64_t now_ns)
{
    schedule_add(schedule, kv_slice(&number, sizeof number), (struct message_source){0}, priority,
                 work_ns, now_ns);
}

/* The same of another tenant. */
static void add_of(unsigned tenant, uint32_t number, uint64_t work_ns)
{
    schedule_add(schedule, kv_slice(&number, sizeof number),
                 (struct message_source){.tenant = tenant}, 0, work_ns, 0);
}

/* The number of the message that comes next, -1: none waits. */
static int64_t take_at(uint64_t now_ns, unsigned *priority, uint64_t *waited_ns)
{
    uint8_t buffer[MESSAGE_BYTES];
    uint32_t number;
    struct message_source source;
    size_t size =
        schedule_take(schedule, tenants_due, buffer, &source, priority, now_ns, waited_ns);
    if (size == 0)
        return -1;
    ck_assert_uint_eq(size, sizeof number);
    memcpy(&number, buffer, sizeof number);
    return number;
}

static int64_t take(void)
{
    unsigned priority;
    uint64_t waited_ns;
    return take_at(0, &priority, &waited_ns);
}

START_TEST(equal_cost_is_first_in_first_out)
{
    schedule = schedule_create(100, 1, MESSAGE_BYTES, 1);
    for (uint32_t i = 0; i < 100; i++)
        add(i, 7, 5 * US, 1000);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_int_eq(take(), i);
    ck_assert_int_eq(take(), -1);
    schedule_free(schedule);
}
END_TEST

START_TEST(less_work_and_higher_priority_come_first)
{
    schedule = schedule_create(10, 1, MESSAGE_BYTES, 1);
    add(0, 0, 50 * US, 0);
    add(1, 0, 5 * US, 0);
    add(2, 31, 50 * US, 0); /* 50 / 32 is less than 5 */
    add(3, 31, 5 * US, 0);
    add(4, 4, 50 * US, 0); /* 50 / 5 is more */
    const int64_t expected[] = {3, 2, 1, 4, 0};
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(take(), expected[i]);
    schedule_free(schedule);
}
END_TEST

START_TEST(delay_is_work_by_weight_and_bounded)
{
    ck_assert_uint_eq(schedule_delay_ns(0, 10 * US), 10 * US * SCHEDULE_STRETCH);
    ck_assert_uint_eq(schedule_delay_ns(9, 10 * US), US * SCHEDULE_STRETCH);
    ck_assert_uint_eq(schedule_delay_ns(4711, 32 * US), schedule_delay_ns(31, 32 * US));
    ck_assert_uint_eq(schedule_delay_ns(31, 32 * US), US * SCHEDULE_STRETCH);
    ck_assert_uint_eq(schedule_delay_ns(0, UINT64_MAX), SCHEDULE_AGING_NS);
    ck_assert_uint_eq(schedule_delay_ns(31, UINT64_MAX), SCHEDULE_AGING_NS);
    for (unsigned priority = 0; priority < 32; priority++)
        for (uint64_t work_ns = 1; work_ns < UINT64_MAX / 3; work_ns *= 3)
            ck_assert_uint_le(schedule_delay_ns(priority, work_ns), SCHEDULE_AGING_NS);
}
END_TEST

/* The worst of all messages in a flood of the best: it is passed by those that come within the
 * bound, and by none that comes later. */
START_TEST(nothing_starves)
{
    schedule = schedule_create(10, 1, MESSAGE_BYTES, 1);
    add(1, 0, UINT64_MAX, 0);
    unsigned passed = 0;
    uint64_t now_ns = 0;
    for (;;) {
        add(2, 31, 1, now_ns);
        if (take() == 1)
            break;
        passed++;
        now_ns += MS;
        ck_assert_uint_le(now_ns, SCHEDULE_AGING_NS);
    }
    ck_assert_uint_eq(passed, SCHEDULE_AGING_NS / MS);
    ck_assert_int_eq(take(), 2);
    schedule_free(schedule);
}
END_TEST

/* Any mix: what comes out is never due before what came out earlier, unless it came in between, and
 * nothing is lost or doubled. */
START_TEST(random_messages_come_out_in_order)
{
    enum { COUNT = 2000 };
    static uint64_t due_ns[COUNT];
    static bool seen[COUNT];
    struct random_state random;
    random_seed(&random, 5);
    schedule = schedule_create(COUNT, 1, MESSAGE_BYTES, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        unsigned priority = (unsigned)random_below(&random, 32);
        uint64_t work_ns = random_below(&random, 200 * US), now_ns = i * US;
        due_ns[i] = now_ns + schedule_delay_ns(priority, work_ns);
        add(i, priority, work_ns, now_ns);
    }
    uint64_t last_ns = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t number = take();
        ck_assert_int_ge(number, 0);
        ck_assert(!seen[number]);
        seen[number] = true;
        ck_assert_uint_ge(due_ns[number], last_ns);
        last_ns = due_ns[number];
    }
    ck_assert_int_eq(take(), -1);
    schedule_free(schedule);
}
END_TEST

START_TEST(full_at_its_capacity)
{
    schedule = schedule_create(3, 1, MESSAGE_BYTES, 2);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(!schedule_full(schedule));
        add(i, 0, US, 0);
    }
    ck_assert(schedule_full(schedule));
    add(3, 0, US, 0); /* two workers had asked before */
    add(4, 0, US, 0);
    ck_assert_uint_eq(schedule_waiting(schedule), 5);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(take(), i);
    ck_assert(!schedule_full(schedule));
    schedule_free(schedule);
}
END_TEST

START_TEST(messages_of_tenants_who_rest_stay)
{
    schedule = schedule_create(100, 3, MESSAGE_BYTES, 1);
    add_of(2, 20, US);
    add_of(0, 1, 4 * US);
    add_of(2, 21, 2 * US);
    add_of(1, 10, 3 * US);
    ck_assert_uint_eq(schedule_tenants(schedule), 7);
    tenants_due = ~4u;
    ck_assert_int_eq(take(), 10);
    ck_assert_int_eq(take(), 1);
    ck_assert_int_eq(take(), -1);
    ck_assert_uint_eq(schedule_tenants(schedule), 4);
    tenants_due = UINT32_MAX;
    add_of(0, 2, 4 * US);
    const int64_t expected[] = {20, 21, 2, -1};
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(take(), expected[i]);
    ck_assert_uint_eq(schedule_tenants(schedule), 0);
    schedule_free(schedule);
}
END_TEST

START_TEST(one_of_several_tenants_gets_a_quarter_of_the_places)
{
    schedule = schedule_create(8, 3, MESSAGE_BYTES, 2);
    add_of(1, 0, US);
    ck_assert_uint_eq(schedule_full_tenants(schedule), 0);
    add_of(1, 1, US);
    ck_assert_uint_eq(schedule_full_tenants(schedule), 2);
    add_of(1, 2, US); /* two workers had asked before */
    add_of(1, 3, US);
    ck_assert(!schedule_full(schedule));
    add_of(2, 4, US);
    ck_assert_uint_eq(schedule_full_tenants(schedule), 2);
    tenants_due = 2;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(take(), i);
    ck_assert_uint_eq(schedule_full_tenants(schedule), 0);
    tenants_due = UINT32_MAX;
    schedule_free(schedule);
}
END_TEST

START_TEST(statistics_tell_depth_and_waits)
{
    static struct schedule_statistics statistics;
    unsigned priority;
    uint64_t waited_ns;
    schedule = schedule_create(2, 1, MESSAGE_BYTES, 1);
    add(0, 31, US, 10 * US);
    add(1, 2, US, 10 * US);
    ck_assert(schedule_full(schedule));
    ck_assert_int_eq(take_at(15 * US, &priority, &waited_ns), 0);
    ck_assert_uint_eq(priority, 31);
    ck_assert_uint_eq(waited_ns, 5 * US);
    add(2, 2000, US, 15 * US);
    ck_assert_int_eq(take_at(8 * US, &priority, &waited_ns), 2);
    ck_assert_uint_eq(priority, 31);
    ck_assert_uint_eq(waited_ns, 0); /* the clock of another worker */
    schedule_statistics(schedule, &statistics);
    ck_assert_uint_eq(statistics.capacity, 2);
    ck_assert_uint_eq(statistics.waiting, 1);
    ck_assert_uint_eq(statistics.waiting_max, 2);
    ck_assert_uint_eq(statistics.received, 3);
    ck_assert_uint_eq(statistics.full, 2); /* both times that there were two, however often asked */
    ck_assert_double_eq_tol(statistics.waiting_mean, 2.0 / 3, 1e-9);
    ck_assert_uint_eq(statistics.waits[3].total_count, 2);
    ck_assert_uint_eq(statistics.waits[3].total_ns, 5 * US);
    ck_assert_uint_eq(statistics.waits[0].total_count, 0);
    schedule_free(schedule);
}
END_TEST

enum { THREADS = 4, MESSAGES = 4000 };
static _Atomic unsigned times_taken[THREADS * MESSAGES];

static void *add_and_take(void *argument)
{
    uint32_t first = *(uint32_t *)argument * MESSAGES;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (!schedule_full(schedule))
            add(first + i, i % 32, i, i);
        else
            times_taken[first + i]++; /* as if */
        int64_t number = take();
        if (number >= 0)
            times_taken[number]++;
    }
    return NULL;
}

START_TEST(threads_lose_and_double_nothing)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    schedule = schedule_create(2, 1, MESSAGE_BYTES, THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_and_take, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    int64_t number;
    while ((number = take()) >= 0)
        times_taken[number]++;
    for (unsigned i = 0; i < THREADS * MESSAGES; i++)
        ck_assert_uint_eq(times_taken[i], 1);
    schedule_free(schedule);
}
END_TEST

START_TEST(nice_falls_as_priority_rises)
{
    struct nice nice = {.on = true, .lowest = 0};
    ck_assert_int_eq(nice_of(&nice, 31), 0);
    ck_assert_int_eq(nice_of(&nice, 0), 19);
    ck_assert_int_eq(nice_of(&nice, 100), 0);
    for (unsigned priority = 1; priority < 32; priority++)
        ck_assert_int_le(nice_of(&nice, priority), nice_of(&nice, priority - 1));
    nice.lowest = -20;
    ck_assert_int_eq(nice_of(&nice, 31), -20);
    ck_assert_int_eq(nice_of(&nice, 0), 19);
    nice.lowest = 19;
    ck_assert_int_eq(nice_of(&nice, 31), 19);
}
END_TEST

TEST_SUITE(lab_schedule)
{
    TCase *cases = tcase_create("schedule");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, equal_cost_is_first_in_first_out);
    tcase_add_test(cases, less_work_and_higher_priority_come_first);
    tcase_add_test(cases, delay_is_work_by_weight_and_bounded);
    tcase_add_test(cases, nothing_starves);
    tcase_add_test(cases, random_messages_come_out_in_order);
    tcase_add_test(cases, full_at_its_capacity);
    tcase_add_test(cases, messages_of_tenants_who_rest_stay);
    tcase_add_test(cases, one_of_several_tenants_gets_a_quarter_of_the_places);
    tcase_add_test(cases, statistics_tell_depth_and_waits);
    tcase_add_test(cases, threads_lose_and_double_nothing);
    tcase_add_test(cases, nice_falls_as_priority_rises);
    suite_add_tcase(suite, cases);
}
