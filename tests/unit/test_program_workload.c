#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_options.h"
#include "tools/bench/distribution.h"
#include "tools/bench/workload.h"
#include "tests/support/test_suite.h"

#define DRAWS 200000

static struct random_state seeded(uint64_t seed)
{
    struct random_state random;
    random_seed(&random, seed);
    return random;
}

/* Draws from the distribution into counts (of `keys` keys). */
static void draw_many(const struct distribution *distribution, uint64_t seed, uint64_t *counts)
{
    struct random_state random = seeded(seed);
    struct distribution_cursor cursor;
    _Atomic uint64_t latest = 0;
    distribution_cursor_init(&cursor, distribution, 0, 1);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t key = distribution_draw(distribution, &cursor, &random, false, &latest);
        ck_assert_uint_lt(key, distribution->keys);
        counts[key]++;
    }
}

START_TEST(uniform_hits_every_key_about_as_often)
{
    enum { KEYS = 100 };
    uint64_t counts[KEYS] = {0};
    struct distribution distribution;
    distribution_init(&distribution, DISTRIBUTION_UNIFORM, KEYS, 0.99);
    draw_many(&distribution, 1, counts);
    for (int i = 0; i < KEYS; i++) /* 2000 expected, a standard deviation of 45 */
        ck_assert_msg(counts[i] > 1700 && counts[i] < 2300, "key %d: %lu", i, counts[i]);
}
END_TEST

/* The shares of the ranks follow 1 / rank^theta. The method of Gray et al. is exact for the first
 * two ranks and an approximation of some percent after them. */
START_TEST(zipfian_ranks_follow_the_power_law)
{
    enum { KEYS = 1000 };
    static const double thetas[] = {0.5, 0.9, 0.99};
    for (size_t t = 0; t < 3; t++) {
        uint64_t counts[KEYS] = {0};
        struct distribution distribution;
        struct random_state random = seeded(2);
        double zeta = 0;
        for (int rank = 1; rank <= KEYS; rank++)
            zeta += pow(rank, -thetas[t]);
        distribution_init(&distribution, DISTRIBUTION_ZIPFIAN, KEYS, thetas[t]);
        for (int i = 0; i < DRAWS; i++)
            counts[distribution_zipfian_rank(&distribution, &random)]++;
        for (int rank = 1; rank <= 2; rank++) {
            double expected = DRAWS * pow(rank, -thetas[t]) / zeta;
            ck_assert_double_lt(fabs((double)counts[rank - 1] - expected), 5 * sqrt(expected) + 1);
        }
        double upper_expected = 0, upper = 0;
        for (int rank = 1; rank <= 100; rank++) {
            upper_expected += DRAWS * pow(rank, -thetas[t]) / zeta;
            upper += (double)counts[rank - 1];
        }
        ck_assert_double_lt(fabs(upper / upper_expected - 1), 0.05);
    }
}
END_TEST

START_TEST(zipfian_scatters_the_popular_keys)
{
    enum { KEYS = 1000 };
    uint64_t counts[KEYS] = {0};
    struct distribution distribution;
    distribution_init(&distribution, DISTRIBUTION_ZIPFIAN, KEYS, 0.99);
    draw_many(&distribution, 3, counts);
    uint64_t first_half = 0, most = 0;
    for (int i = 0; i < KEYS; i++) {
        first_half += i < KEYS / 2 ? counts[i] : 0;
        most = counts[i] > most ? counts[i] : most;
    }
    ck_assert_uint_gt(most, DRAWS / 10);           /* the first rank alone has 13 % */
    ck_assert_uint_lt(first_half, DRAWS * 8 / 10); /* unscattered: 91 % */
    ck_assert_uint_gt(first_half, DRAWS * 2 / 10);
}
END_TEST

START_TEST(zipfian_works_for_the_smallest_numbers_of_keys)
{
    for (uint64_t keys = 1; keys <= 3; keys++) {
        uint64_t counts[3] = {0};
        struct distribution distribution;
        struct random_state random = seeded(4);
        distribution_init(&distribution, DISTRIBUTION_ZIPFIAN, keys, 0.99);
        for (int i = 0; i < 10000; i++) {
            uint64_t rank = distribution_zipfian_rank(&distribution, &random);
            ck_assert_uint_lt(rank, keys);
            counts[rank]++;
        }
        for (uint64_t i = 1; i < keys; i++) {
            ck_assert_uint_gt(counts[i], 0);
            ck_assert_uint_lt(counts[i], counts[i - 1]);
        }
    }
}
END_TEST

START_TEST(latest_reads_near_the_last_write)
{
    enum { KEYS = 1000 };
    struct distribution distribution;
    struct distribution_cursor cursor;
    struct random_state random = seeded(5);
    _Atomic uint64_t latest = 0;
    distribution_init(&distribution, DISTRIBUTION_LATEST, KEYS, 0.99);
    distribution_cursor_init(&cursor, &distribution, 0, 1);
    uint64_t near = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t written = distribution_draw(&distribution, &cursor, &random, true, &latest);
        ck_assert_uint_eq(written, (uint64_t)(i + 1) % KEYS);
        uint64_t read = distribution_draw(&distribution, &cursor, &random, false, &latest);
        near += (written + KEYS - read) % KEYS < 10;
    }
    ck_assert_uint_gt(near, 3000); /* 39 % by the power law */
}
END_TEST

START_TEST(sequential_threads_share_the_keys_out)
{
    enum { KEYS = 10 };
    struct distribution distribution;
    struct random_state random = seeded(6);
    distribution_init(&distribution, DISTRIBUTION_SEQUENTIAL, KEYS, 0.99);
    for (uint64_t thread = 0; thread < 2; thread++) {
        struct distribution_cursor cursor;
        distribution_cursor_init(&cursor, &distribution, thread, 2);
        for (uint64_t i = 0; i < 2 * KEYS; i++)
            ck_assert_uint_eq(distribution_draw(&distribution, &cursor, &random, false, NULL),
                              (thread * 5 + i) % KEYS);
    }
}
END_TEST

START_TEST(the_same_seed_draws_the_same)
{
    enum { KEYS = 500 };
    struct distribution distribution;
    uint64_t first[KEYS] = {0}, again[KEYS] = {0}, other[KEYS] = {0};
    distribution_init(&distribution, DISTRIBUTION_ZIPFIAN, KEYS, 0.9);
    draw_many(&distribution, 7, first);
    draw_many(&distribution, 7, again);
    draw_many(&distribution, 8, other);
    ck_assert(memcmp(first, again, sizeof first) == 0);
    ck_assert(memcmp(first, other, sizeof first) != 0);
}
END_TEST

START_TEST(a_mix_keeps_its_shares)
{
    struct workload_mix mix;
    struct kv_error error;
    struct random_state random = seeded(9);
    uint64_t counts[WORKLOAD_KINDS] = {0};
    char text[256];
    ck_assert_int_eq(workload_mix_parse("put=40,get=50,del=10", &mix, &error), KV_OK);
    ck_assert_str_eq(workload_mix_format(&mix, ',', text), "put=40,get=50,del=10");
    for (int i = 0; i < DRAWS; i++)
        counts[workload_mix_draw(&mix, &random)]++;
    for (int kind = 0; kind < WORKLOAD_KINDS; kind++) {
        double expected = (double)DRAWS * mix.weights[kind] / mix.total;
        ck_assert_double_lt(fabs((double)counts[kind] - expected), 5 * sqrt(expected) + 1);
    }
}
END_TEST

START_TEST(mixes_are_read_leniently_and_refused_clearly)
{
    struct workload_mix mix;
    struct kv_error error;
    ck_assert_int_eq(workload_mix_parse("GET", &mix, &error), KV_OK);
    ck_assert_uint_eq(mix.total, 1);
    ck_assert_int_eq(workload_mix_parse("get=3,put=0,get=5", &mix, &error), KV_OK);
    ck_assert_uint_eq(mix.total, 5);
    static const char *const bad[] = {"",      "get=",  "get=-1",       "get=x",
                                      "gte=1", "get=0", "get=1,,put=1", "get=9999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(workload_mix_parse(bad[i], &mix, &error) == KV_USAGE, "took \"%s\"", bad[i]);
    workload_mix_parse("gte=1", &mix, &error);
    ck_assert_ptr_nonnull(strstr(error.text, "did you mean get"));
}
END_TEST

START_TEST(sizes_are_one_or_a_range)
{
    struct workload_sizes sizes;
    struct kv_error error;
    struct random_state random = seeded(10);
    bool seen[4] = {false};
    ck_assert_int_eq(workload_sizes_parse("4k", 1 << 20, &sizes, &error), KV_OK);
    ck_assert_uint_eq(workload_sizes_draw(&sizes, &random), 4096);
    ck_assert_int_eq(workload_sizes_parse("0-3", 1 << 20, &sizes, &error), KV_OK);
    for (int i = 0; i < 1000; i++) {
        size_t size = workload_sizes_draw(&sizes, &random);
        ck_assert_uint_le(size, 3);
        seen[size] = true;
    }
    ck_assert(seen[0] && seen[1] && seen[2] && seen[3]);
    static const char *const bad[] = {"", "-", "5-", "-5", "9-3", "2M", "x", "1-2-3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(workload_sizes_parse(bad[i], 1 << 20, &sizes, &error) == KV_USAGE,
                      "took \"%s\"", bad[i]);
}
END_TEST

START_TEST(keys_have_their_size_and_differ)
{
    char key[9] = "";
    workload_key(key, 8, WORKLOAD_GET, 1234);
    ck_assert_str_eq(key, "k0001234");
    workload_key(key, 8, WORKLOAD_ADD, 1234);
    ck_assert_str_eq(key, "n0001234");
    ck_assert(workload_keys_fit(10, 2));
    ck_assert(!workload_keys_fit(11, 2));
    ck_assert(workload_keys_fit(1000000000, 1024));
}
END_TEST

START_TEST(values_tell_key_size_and_seed)
{
    struct workload_values *values = workload_values_create(1, 4096);
    struct workload_values *others = workload_values_create(2, 4096);
    const struct workload_sizes sizes = {16, 4096};
    struct kv_slice value = workload_value(values, 77, 100);
    ck_assert_uint_eq(value.size, 100);
    ck_assert(workload_value_matches(values, 77, &sizes, value));
    ck_assert(!workload_value_matches(values, 78, &sizes, value));
    ck_assert(!workload_value_matches(others, 77, &sizes, value));
    ck_assert(!workload_value_matches(values, 77, &sizes, kv_slice(value.data, 99)));
    ck_assert(!workload_value_matches(values, 77, &sizes, workload_value(values, 77, 15)));
    char torn[100];
    memcpy(torn, value.data, sizeof torn);
    torn[99] ^= 1;
    ck_assert(!workload_value_matches(values, 77, &sizes, kv_slice(torn, sizeof torn)));
    workload_values_free(values);
    workload_values_free(others);
}
END_TEST

static enum kv_status plan_of(struct bench_options options)
{
    struct bench_plan plan;
    struct kv_error error = {0};
    enum kv_status status = bench_plan_make(&plan, &options, &error);
    ck_assert((status == KV_OK) == (error.text[0] == '\0'));
    bench_plan_free(&plan);
    return status;
}

START_TEST(plans_that_make_no_sense_are_refused)
{
    struct bench_options options = bench_option_defaults;
    ck_assert_int_eq(plan_of(options), KV_OK);
    options.processes = 2;
    ck_assert_int_eq(plan_of(options), KV_USAGE);
    options.threads = 2;
    ck_assert_int_eq(plan_of(options), KV_OK);
    options.key_bytes = 3;
    ck_assert_int_eq(plan_of(options), KV_USAGE);
    options.keys = 100;
    ck_assert_int_eq(plan_of(options), KV_OK);
    options.seconds = 0;
    ck_assert_int_eq(plan_of(options), KV_USAGE);
    options.count = 1;
    ck_assert_int_eq(plan_of(options), KV_OK);
    options.theta = 1;
    ck_assert_int_eq(plan_of(options), KV_USAGE);
}
END_TEST

START_TEST(deltas_are_all_drawn_but_zero)
{
    struct random_state random;
    unsigned counts[21] = {0};
    random_seed(&random, 5);
    ck_assert_int_eq(workload_delta(0, &random), 1);
    for (int i = 0; i < 20000; i++) {
        int64_t delta = workload_delta(10, &random);
        ck_assert(delta >= -10 && delta <= 10 && delta != 0);
        counts[delta + 10]++;
    }
    for (int i = 0; i <= 20; i++)
        ck_assert(i == 10 ? counts[i] == 0 : counts[i] > 800 && counts[i] < 1200);
    for (int i = 0; i < 100; i++) {
        int64_t delta = workload_delta(1, &random);
        ck_assert(delta == 1 || delta == -1);
    }
}
END_TEST

TEST_SUITE(program_workload)
{
    TCase *keys = tcase_create("distribution");
    tcase_add_test(keys, uniform_hits_every_key_about_as_often);
    tcase_add_test(keys, zipfian_ranks_follow_the_power_law);
    tcase_add_test(keys, zipfian_scatters_the_popular_keys);
    tcase_add_test(keys, zipfian_works_for_the_smallest_numbers_of_keys);
    tcase_add_test(keys, latest_reads_near_the_last_write);
    tcase_add_test(keys, sequential_threads_share_the_keys_out);
    tcase_add_test(keys, the_same_seed_draws_the_same);
    suite_add_tcase(suite, keys);
    TCase *operations = tcase_create("operations");
    tcase_add_test(operations, a_mix_keeps_its_shares);
    tcase_add_test(operations, mixes_are_read_leniently_and_refused_clearly);
    tcase_add_test(operations, sizes_are_one_or_a_range);
    tcase_add_test(operations, keys_have_their_size_and_differ);
    tcase_add_test(operations, values_tell_key_size_and_seed);
    tcase_add_test(operations, plans_that_make_no_sense_are_refused);
    tcase_add_test(operations, deltas_are_all_drawn_but_zero);
    suite_add_tcase(suite, operations);
}
