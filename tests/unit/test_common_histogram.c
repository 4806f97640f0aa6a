#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/numbers/histogram.h"
#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

#define LONGEST_NS (UINT64_C(1) << HISTOGRAM_MAX_BITS)

START_TEST(an_empty_histogram_answers_zero)
{
    struct histogram histogram = {0};
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.5), 0);
    ck_assert(histogram_mean_ns(&histogram) == 0);
}
END_TEST

START_TEST(small_values_are_exact)
{
    struct histogram histogram = {0};
    for (uint64_t ns = 1; ns <= 60; ns++)
        histogram_record(&histogram, ns);
    ck_assert_uint_eq(histogram.total_count, 60);
    ck_assert_uint_eq(histogram.min_ns, 1);
    ck_assert_uint_eq(histogram.max_ns, 60);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.5), 30);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0), 1);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 1), 60);
    ck_assert(histogram_mean_ns(&histogram) == 30.5);
}
END_TEST

/* Both neighbours of every bucket border, over the whole range. */
START_TEST(buckets_cover_the_range_without_gap_or_overlap)
{
    for (unsigned bucket = 0; bucket + 1 < HISTOGRAM_BUCKETS; bucket++) {
        uint64_t top_ns = histogram_bucket_top_ns(bucket);
        struct histogram histogram = {0};
        histogram_record(&histogram, top_ns);
        histogram_record(&histogram, top_ns + 1);
        ck_assert_uint_eq(histogram.counts[bucket], 1);
        ck_assert_uint_eq(histogram.counts[bucket + 1], 1);
    }
    ck_assert_uint_eq(histogram_bucket_top_ns(HISTOGRAM_BUCKETS - 1), LONGEST_NS - 1);
}
END_TEST

START_TEST(a_reported_value_is_at_most_a_64th_too_high)
{
    struct random_state random;
    random_seed(&random, 1);
    for (int i = 0; i < 2000; i++) {
        uint64_t ns = random_next(&random) >> (24 + random_below(&random, 40));
        struct histogram histogram = {0};
        histogram_record(&histogram, ns);
        histogram_record(&histogram, LONGEST_NS); /* so that max_ns does not cap the answer */
        uint64_t reported_ns = histogram_quantile_ns(&histogram, 0.5);
        ck_assert_uint_ge(reported_ns, ns);
        ck_assert_uint_le(reported_ns - ns, ns / 64);
    }
}
END_TEST

START_TEST(values_too_long_keep_the_exact_maximum)
{
    struct histogram histogram = {0};
    histogram_record(&histogram, 5);
    histogram_record(&histogram, UINT64_MAX / 4);
    ck_assert_uint_eq(histogram.counts[HISTOGRAM_BUCKETS - 1], 1);
    ck_assert_uint_eq(histogram.max_ns, UINT64_MAX / 4);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.99), UINT64_MAX / 4);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.5), 5);
}
END_TEST

START_TEST(a_quantile_is_never_above_the_maximum)
{
    struct histogram histogram = {0};
    histogram_record(&histogram, 1000001);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.999), 1000001);
}
END_TEST

START_TEST(quantiles_count_values)
{
    struct histogram histogram = {0};
    for (int i = 0; i < 990; i++)
        histogram_record(&histogram, 10);
    for (int i = 0; i < 9; i++)
        histogram_record(&histogram, 20);
    histogram_record(&histogram, 30);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.99), 10);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.991), 20);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.999), 20);
    ck_assert_uint_eq(histogram_quantile_ns(&histogram, 0.9995), 30);
}
END_TEST

START_TEST(merge_is_the_same_as_recording_all_in_one)
{
    struct histogram all = {0}, one = {0}, two = {0}, merged = {0};
    for (uint64_t ns = 1; ns < 1000000; ns = ns * 3 / 2 + 1) {
        histogram_record(&all, ns);
        histogram_record(ns % 2 ? &one : &two, ns);
    }
    histogram_merge(&merged, &one);
    histogram_merge(&merged, &two);
    ck_assert_mem_eq(&merged, &all, sizeof all);

    struct histogram empty = {0};
    histogram_merge(&merged, &empty);
    ck_assert_mem_eq(&merged, &all, sizeof all);
}
END_TEST

struct recorder {
    struct histogram histogram;
    _Atomic bool stop;
};

static void *record_until_stopped(void *argument)
{
    struct recorder *recorder = argument;
    for (uint64_t ns = 100; !atomic_load(&recorder->stop); ns = ns % 900 + 100)
        histogram_record(&recorder->histogram, ns);
    return NULL;
}

START_TEST(a_copy_taken_while_it_is_written_is_whole)
{
    struct recorder recorder = {.stop = false};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, record_until_stopped, &recorder), 0);
    uint64_t last_count = 0;
    for (int i = 0; i < 500; i++) {
        struct histogram copy = {0};
        histogram_merge(&copy, &recorder.histogram);
        uint64_t count = 0;
        for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
            count += copy.counts[bucket];
        ck_assert_uint_eq(copy.total_count, count);
        ck_assert_uint_ge(count, last_count);
        last_count = count;
        if (count > 0) {
            ck_assert_uint_eq(copy.min_ns, 100);
            ck_assert_uint_le(histogram_quantile_ns(&copy, 1), copy.max_ns);
        }
    }
    atomic_store(&recorder.stop, true);
    pthread_join(thread, NULL);
}
END_TEST

TEST_SUITE(common_histogram)
{
    TCase *tests = tcase_create("histogram");
    tcase_add_test(tests, an_empty_histogram_answers_zero);
    tcase_add_test(tests, small_values_are_exact);
    tcase_add_test(tests, buckets_cover_the_range_without_gap_or_overlap);
    tcase_add_test(tests, a_reported_value_is_at_most_a_64th_too_high);
    tcase_add_test(tests, values_too_long_keep_the_exact_maximum);
    tcase_add_test(tests, a_quantile_is_never_above_the_maximum);
    tcase_add_test(tests, quantiles_count_values);
    tcase_add_test(tests, merge_is_the_same_as_recording_all_in_one);
    tcase_add_test(tests, a_copy_taken_while_it_is_written_is_whole);
    suite_add_tcase(suite, tests);
}
