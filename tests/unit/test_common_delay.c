#include <check.h>
#include <math.h>
#include <string.h>

#include "common/numbers/cpu_list.h"
#include "common/numbers/delay.h"
#include "tests/support/test_suite.h"

#define CAP_NS 1e9
#define DRAWS  20000u

static bool parse(const char *text, struct delay *delay)
{
    return delay_parse(text, strlen(text), CAP_NS, delay);
}

/* The mean of many draws; *most is the largest. */
static double mean_ns(const char *text, uint64_t *most)
{
    struct delay delay;
    struct random_state random;
    double sum = 0;
    random_seed(&random, 7);
    ck_assert_msg(parse(text, &delay), "%s", text);
    *most = 0;
    for (unsigned i = 0; i < DRAWS; i++) {
        uint64_t ns = delay_draw_ns(&delay, &random);
        sum += (double)ns;
        *most = ns > *most ? ns : *most;
    }
    return sum / DRAWS;
}

START_TEST(each_distribution_has_its_mean)
{
    static const struct {
        const char *text;
        double mean_ns;
        double within; /* of it */
    } rows[] = {{"off", 0, 0},
                {"fixed:0", 0, 0},
                {"exp:0us", 0, 0},
                {"fixed:50us", 50e3, 0},
                {"fixed:1.5ms", 1.5e6, 0},
                {"uniform:10us-30us", 20e3, 0.02},
                {"exp:100ns", 100, 0.05},
                {"exp:1ms", 1e6, 0.05},
                {"pareto:1ms", 1e6, 0.1},
                {"pareto:1ms,1.5", 1e6, 0.3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t most;
        double mean = mean_ns(rows[i].text, &most);
        ck_assert_msg(fabs(mean - rows[i].mean_ns) <= rows[i].within * rows[i].mean_ns, "%s: %f",
                      rows[i].text, mean);
    }
}
END_TEST

START_TEST(no_draw_is_beyond_the_cap)
{
    uint64_t most;
    mean_ns("pareto:900ms,1.01", &most);
    ck_assert_uint_eq(most, (uint64_t)CAP_NS);
    mean_ns("exp:900ms", &most);
    ck_assert_uint_eq(most, (uint64_t)CAP_NS);
}
END_TEST

START_TEST(what_is_no_delay_is_refused)
{
    static const char *const texts[] = {
        "",         "on",          "50us",         "fixed",           "fixed:",
        "fixed:50", "fixed:-1us",  "fixed:1e3us",  "fixed:.5us",      "fixed:1..5us",
        "fixed:2s", "fixed:5us ",  "uniform:3us",  "uniform:3us-1us", "uniform:1us-",
        "exp:1m",   "pareto:1ms,", "pareto:1ms,1", "pareto:1ms,nan",  "pareto:1ms,2000",
        "offf",     "fixed:inf",   "fixed:1msms",  "exp:1ms:work",    "FIXED:1ms"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct delay delay = {.time_ns = 77};
        ck_assert_msg(!parse(texts[i], &delay), "%s", texts[i]);
        ck_assert(delay.time_ns == 77);
    }
    struct delay delay;
    char longer[200];
    memset(longer, '1', sizeof longer);
    memcpy(longer, "fixed:", 6);
    ck_assert(!delay_parse(longer, sizeof longer, CAP_NS, &delay));
    ck_assert(!delay_parse("fixed:1us\0", 10, CAP_NS, &delay));
}
END_TEST

START_TEST(cpus_are_a_list)
{
    struct cpu_list list;
    ck_assert(cpu_list_parse("0,2-4,7", &list));
    ck_assert(list.given);
    ck_assert_int_eq(CPU_COUNT(&list.cpus), 5);
    ck_assert(CPU_ISSET(3, &list.cpus) && !CPU_ISSET(1, &list.cpus));
    ck_assert(cpu_list_parse("all", &list) && !list.given);
    ck_assert(cpu_list_apply(&list));
    static const char *const texts[] = {
        "", ",", "0,", "-1", "3-1", "0-", "0 1", "x", "99999", "0-99999", "18446744073709551617"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ck_assert_msg(!cpu_list_parse(texts[i], &list), "%s", texts[i]);
    ck_assert(cpu_list_parse("0-1023", &list));
    ck_assert(!cpu_list_apply(&list)); /* not all of them are there */
}
END_TEST

TEST_SUITE(common_delay)
{
    TCase *tests = tcase_create("delay");
    tcase_add_test(tests, each_distribution_has_its_mean);
    tcase_add_test(tests, no_draw_is_beyond_the_cap);
    tcase_add_test(tests, what_is_no_delay_is_refused);
    tcase_add_test(tests, cpus_are_a_list);
    suite_add_tcase(suite, tests);
}
