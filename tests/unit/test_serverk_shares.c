/* shares: nothing is counted for one payer; of several, who uses more rests until the clock has made up for it. */
#include <check.h>
#include <string.h>

#include "serverk/receive/shares.h"
#include "tests/unit/suites.h"

#define US 1000u
#define MS 1000000u

static struct shares shares;
static uint64_t now_ns;

static void begin(void)
{
    memset(&shares, 0, sizeof shares);
    now_ns = 1000 * (uint64_t)MS;
}

static bool rests(unsigned payer)
{
    uint64_t until_ns;
    return shares_resting(&shares, now_ns, &until_ns) >> payer & 1;
}

/* A message of the payer that takes so long. */
static void work(unsigned payer, uint64_t ns, unsigned workers)
{
    shares_charge(&shares, payer, now_ns, now_ns + ns, 1, workers);
    now_ns += ns;
}

START_TEST(a_single_payer_never_rests)
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
            shares_charge(&shares, 1, now_ns, now_ns + flood_ns, weight, 1);
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

/* A rest of some microseconds would end before the others' clients and workers found each other awake. */
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
    work(1, 40 * MS, 1);  /* nobody else had a chance meanwhile */
    ck_assert(!rests(1)); /* but it is long ago that there was somebody else */
    work(0, 5 * US, 1);
    ck_assert(rests(1));
    now_ns += SHARES_ACTIVE_NS + 1;
    ck_assert(!rests(1));
}
END_TEST

START_TEST(a_rest_has_an_end)
{
    work(0, 5 * US, 1);
    work(1, 3000 * (uint64_t)MS, 1);
    work(0, 5 * US, 1);
    uint64_t until_ns;
    ck_assert_uint_ne(shares_resting(&shares, now_ns, &until_ns), 0);
    ck_assert_uint_le(until_ns, now_ns + SHARES_MAX_REST_NS);
}
END_TEST

START_TEST(many_workers_leave_one_for_each_other)
{
    work(0, 5 * US, 8);
    work(1, 7 * MS, 8); /* an eighth of the workers' time: no more than its share */
    ck_assert(!rests(1));
}
END_TEST

START_TEST(a_new_payer_does_not_inherit)
{
    work(0, 5 * US, 1);
    work(1, 4 * MS, 1);
    ck_assert(rests(1));
    shares_forget(&shares, 1);
    ck_assert(!rests(1));
    ck_assert(!shares_contended(&shares));
}
END_TEST

Suite *suite_serverk_shares(void)
{
    Suite *suite = suite_create("serverk shares");
    TCase *cases = tcase_create("shares");
    tcase_add_checked_fixture(cases, begin, NULL);
    tcase_add_test(cases, a_single_payer_never_rests);
    tcase_add_test(cases, who_uses_more_rests_as_long_as_it_worked);
    tcase_add_test(cases, rests_are_few_and_long);
    tcase_add_test(cases, a_flood_gets_its_share_and_no_more);
    tcase_add_test(cases, a_rest_ends_with_the_activity_of_the_others);
    tcase_add_test(cases, a_rest_has_an_end);
    tcase_add_test(cases, many_workers_leave_one_for_each_other);
    tcase_add_test(cases, a_new_payer_does_not_inherit);
    suite_add_tcase(suite, cases);
    return suite;
}
