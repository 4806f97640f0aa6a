/* shares: nothing is counted for one tenant; of several, who uses more rests until the clock has
 * made up for it. */
#include <check.h>

#include "serverk/receive/shares.h"
#include "tests/support/test_suite.h"

#define US 1000u
#define MS 1000000u

static struct shares shares;
static uint64_t now_ns;

static void begin(void)
{
    shares = (struct shares){.workers = 4};
    now_ns = 1000 * (uint64_t)MS;
}

static bool rests(unsigned tenant)
{
    uint64_t until_ns;
    return shares_resting(&shares, now_ns, &until_ns) >> tenant & 1;
}

/* A message of the tenant that takes so long. */
static void work(unsigned tenant, uint64_t ns, unsigned workers)
{
    struct share_use use = {
        .start_ns = now_ns, .end_ns = now_ns + ns, .weight = 1, .was_away = ns >= 10 * MS};
    shares_charge(&shares, tenant, &use, workers);
    now_ns += ns;
}

START_TEST(a_single_tenant_never_rests)
{
    for (unsigned i = 0; i < 1000; i++) {
        work(3, 10 * MS, 1);
        ck_assert(!shares_contended(&shares));
        ck_assert(!rests(3));
    }
    ck_assert(shares_is_alone(&shares, 3));
}
END_TEST

START_TEST(who_uses_more_rests_as_long_as_it_worked)
{
    work(0, 5 * US, 1);
    work(1, 4 * MS, 1);
    ck_assert(shares_contended(&shares));
    ck_assert(rests(1));
    ck_assert(!rests(0));
    uint64_t until_ns;
    shares_resting(&shares, now_ns, &until_ns);
    ck_assert_uint_ge(until_ns, now_ns + 3 * MS);
    ck_assert_uint_le(until_ns, now_ns + 4 * MS);
    now_ns = until_ns;
    ck_assert(!rests(1));
}
END_TEST

/* A client that asks again after each reply, and a flood: what each gets of a simulated worker. */
static void simulate(uint64_t good_ns, uint64_t flood_ns, unsigned weight, double *good,
                     double *flood)
{
    uint64_t start_ns = now_ns, good_used_ns = 0, flood_used_ns = 0;
    while (now_ns < start_ns + 500 * (uint64_t)MS) {
        if (!rests(1)) {
            struct share_use use = {
                .start_ns = now_ns, .end_ns = now_ns + flood_ns, .weight = weight};
            shares_charge(&shares, 1, &use, 1);
            now_ns += flood_ns;
            flood_used_ns += flood_ns;
        }
        if (!rests(0)) {
            work(0, good_ns, 1);
            good_used_ns += good_ns;
        }
        now_ns += 2 * US; /* until the next request */
    }
    *good = (double)good_used_ns / (double)(now_ns - start_ns);
    *flood = (double)flood_used_ns / (double)(now_ns - start_ns);
}

/* A rest of some microseconds would end before the others' clients and workers found each other
 * awake. */
START_TEST(rests_are_few_and_long)
{
    unsigned rests_begun = 0;
    bool rested = false;
    for (uint64_t end_ns = now_ns + 500 * (uint64_t)MS; now_ns < end_ns;) {
        work(0, 2 * US, 1);
        bool resting = rests(1);
        rests_begun += resting && !rested;
        rested = resting;
        if (!resting)
            work(1, 30 * US, 1);
    }
    ck_assert_uint_gt(rests_begun, 500 / 20);
    ck_assert_uint_lt(rests_begun, 500 / 2);
}
END_TEST

START_TEST(a_flood_gets_its_share_and_no_more)
{
    double good, flood;
    simulate(5 * US, 1500 * US, 1, &good, &flood);
    ck_assert_double_le(flood, 0.55);
    ck_assert_double_ge(flood, 0.3);
    ck_assert_double_ge(good, 0.25);
    begin();
    simulate(5 * US, 2 * US, 8, &good, &flood); /* garbage through the door */
    ck_assert_double_le(flood, 0.1);
    ck_assert_double_ge(good, 0.5);
}
END_TEST

START_TEST(a_rest_ends_with_the_activity_of_the_others)
{
    work(0, 5 * US, 1);
    work(1, 40 * MS, 1); /* nobody else had a chance meanwhile */
    ck_assert(rests(1)); /* so the others get some time to be seen */
    work(0, 5 * US, 1);
    ck_assert(rests(1));
    now_ns += 10 * MS + 1; /* a quarter of that time */
    ck_assert(!rests(1));
}
END_TEST

/* How long tenant 1 rests now while tenant 0 stays active. */
static uint64_t rest_ns(void)
{
    uint64_t start_ns = now_ns, until_ns;
    for (work(0, 5 * US, 1); rests(1); work(0, 5 * US, 1)) {
        shares_resting(&shares, now_ns, &until_ns);
        ck_assert_uint_gt(until_ns, now_ns);
        ck_assert_uint_le(until_ns, now_ns + SHARES_MAX_REST_NS);
        now_ns += MS;
    }
    return now_ns - start_ns;
}

START_TEST(a_rest_has_an_end)
{
    work(0, 5 * US, 1);
    work(1, 3000 * (uint64_t)MS, 1);
    ck_assert_uint_le(rest_ns(), SHARES_LONGEST_REST_NS + 2 * MS);
}
END_TEST

START_TEST(many_short_messages_make_no_long_rest)
{
    work(0, 5 * US, 1);
    for (unsigned i = 0; i < 100; i++)
        work(1, 4 * MS, 1);
    ck_assert_uint_le(rest_ns(), SHARES_MAX_REST_NS + 2 * MS);
}
END_TEST

START_TEST(a_long_message_is_followed_by_as_long_a_rest)
{
    work(0, 5 * US, 1);
    work(1, 400 * MS, 1);
    uint64_t rest = rest_ns();
    ck_assert_uint_ge(rest, 390 * MS);
    ck_assert_uint_le(rest, 410 * MS);
}
END_TEST

/* On a machine that is busy with other things. */
START_TEST(a_worker_without_a_cpu_makes_no_long_rest)
{
    work(0, 5 * US, 1);
    struct share_use use = {.start_ns = now_ns, .end_ns = now_ns + 400 * MS, .weight = 1};
    shares_charge(&shares, 1, &use, 1);
    now_ns += 400 * MS;
    ck_assert_uint_le(rest_ns(), SHARES_MAX_REST_NS + 2 * MS);
}
END_TEST

START_TEST(a_worker_that_lost_its_cpu_for_a_moment_makes_nobody_rest_alone)
{
    work(0, 5 * US, 1);
    struct share_use use = {
        .start_ns = now_ns, .end_ns = now_ns + 8 * MS, .weight = 1, .was_away = true};
    shares_charge(&shares, 1, &use, 1);
    now_ns += 8 * MS;
    ck_assert_uint_eq(shares.tenants[1].alone_until_ns, 0);
    use.end_ns = (use.start_ns = now_ns) + 10 * MS;
    work(0, 5 * US, 1);
    shares_charge(&shares, 1, &use, 1);
    ck_assert_uint_gt(shares.tenants[1].alone_until_ns, use.end_ns);
}
END_TEST

START_TEST(waiting_for_others_locks_is_not_charged_but_written_bytes_are)
{
    work(0, 5 * US, 1);
    struct share_use use = {
        .start_ns = now_ns, .end_ns = now_ns + 40 * MS, .waited_ns = 40 * MS, .weight = 1};
    shares_charge(&shares, 1, &use, 1);
    now_ns += 40 * MS;
    work(0, 5 * US, 1);
    ck_assert(!rests(1));
    use = (struct share_use){.start_ns = now_ns, .end_ns = now_ns + 5 * US, .weight = 1};
    use.written_bytes = 60u << 20;
    use.was_away = true;
    shares_charge(&shares, 1, &use, 1);
    ck_assert_uint_ge(rest_ns(), 60 * MS);
}
END_TEST

START_TEST(beside_others_nobody_keeps_the_last_worker)
{
    work(0, 5 * US, 1);
    work(1, 5 * US, 1);
    shares_begin_message(&shares, 1);
    shares_begin_message(&shares, 1);
    ck_assert(!rests(1));
    shares_begin_message(&shares, 1); /* the third of four */
    now_ns += 900 * MS;
    ck_assert(rests(1));
    ck_assert(!rests(0));
    shares_end_message(&shares, 1);
    ck_assert(!rests(1));
}
END_TEST

START_TEST(many_workers_leave_one_for_each_other)
{
    work(0, 5 * US, 8);
    work(1, 7 * MS, 8); /* an eighth of the workers' time: no more than its share */
    ck_assert(!rests(1));
}
END_TEST

START_TEST(a_new_tenant_does_not_inherit)
{
    work(0, 5 * US, 1);
    work(1, 4 * MS, 1);
    ck_assert(rests(1));
    shares_forget(&shares, 1);
    ck_assert(!rests(1));
    ck_assert(!shares_contended(&shares));
}
END_TEST

TEST_SUITE(serverk_shares)
{
    TCase *cases = tcase_create("shares");
    tcase_add_checked_fixture(cases, begin, NULL);
    tcase_add_test(cases, a_single_tenant_never_rests);
    tcase_add_test(cases, who_uses_more_rests_as_long_as_it_worked);
    tcase_add_test(cases, rests_are_few_and_long);
    tcase_add_test(cases, a_flood_gets_its_share_and_no_more);
    tcase_add_test(cases, a_rest_ends_with_the_activity_of_the_others);
    tcase_add_test(cases, a_rest_has_an_end);
    tcase_add_test(cases, many_short_messages_make_no_long_rest);
    tcase_add_test(cases, a_long_message_is_followed_by_as_long_a_rest);
    tcase_add_test(cases, a_worker_without_a_cpu_makes_no_long_rest);
    tcase_add_test(cases, a_worker_that_lost_its_cpu_for_a_moment_makes_nobody_rest_alone);
    tcase_add_test(cases, waiting_for_others_locks_is_not_charged_but_written_bytes_are);
    tcase_add_test(cases, beside_others_nobody_keeps_the_last_worker);
    tcase_add_test(cases, many_workers_leave_one_for_each_other);
    tcase_add_test(cases, a_new_tenant_does_not_inherit);
    suite_add_tcase(suite, cases);
}
