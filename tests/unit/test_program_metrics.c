/* metrics_reader and top_report: what clientk top makes of the server's metrics. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ops/metrics_reader.h"
#include "tools/ops/top_report.h"
#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

static void read_text(struct metrics *metrics, const char *text)
{
    ck_assert(metrics_read(metrics, text, strlen(text)));
}

START_TEST(samples_have_names_labels_and_values)
{
    struct metrics metrics;
    read_text(&metrics, "# HELP a x\n# TYPE a gauge\na{x=\"1\"} 2\na{x=\"q\\\"}\"} 3.5\n\nb 1e3\n");
    ck_assert_uint_eq(metrics.count, 3);
    ck_assert_double_eq(metrics_value(&metrics, "a", "1"), 2);
    ck_assert_double_eq(metrics_value(&metrics, "a", "q\\\"}"), 3.5);
    ck_assert_double_eq(metrics_value(&metrics, "a", "2"), 0);
    ck_assert_double_eq(metrics_value(&metrics, "b", ""), 1000);
    ck_assert_double_eq(metrics_sum(&metrics, "a"), 5.5);
    ck_assert_uint_eq(metrics_family(&metrics, "c").count, 0);
    metrics_free(&metrics);
}
END_TEST

START_TEST(what_is_no_sample_is_passed_over)
{
    struct metrics metrics;
    read_text(&metrics, "a\na{\na{x\na{x=\na{x=\"\na{x=\"1\"\na{x=\"1\"}\nb nan\nb inf\nb x\nc 1");
    ck_assert_uint_eq(metrics.count, 1);
    ck_assert_double_eq(metrics_value(&metrics, "c", ""), 1);
    metrics_free(&metrics);
}
END_TEST

START_TEST(any_bytes_are_read_to_their_end)
{
    static const char letters[] = "a{}=\",\\ \n#1e.";
    struct random_state random;
    random_seed(&random, 7);
    for (unsigned round = 0; round < 20000; round++) {
        char text[64];
        size_t size = random_below(&random, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = letters[random_below(&random, sizeof letters)]; /* a NUL too */
        struct metrics metrics;
        struct top_report report;
        ck_assert(metrics_read(&metrics, text, size));
        ck_assert(top_report_make(&report, NULL, &metrics, 1));
        top_report_free(&report);
        metrics_free(&metrics);
    }
}
END_TEST

#define WORK(one, two)                                               \
    "mqkv_work_seconds_bucket{operation=\"get\",le=\"1\"} " one      \
    "\nmqkv_work_seconds_bucket{operation=\"get\",le=\"2\"} " two    \
    "\nmqkv_work_seconds_bucket{operation=\"get\",le=\"+Inf\"} " two \
    "\nmqkv_work_seconds_sum{operation=\"get\"} " two                \
    "\nmqkv_work_seconds_count{operation=\"get\"} " two "\n"

START_TEST(quantiles_are_those_of_the_time_between)
{
    struct metrics before, now;
    read_text(&before, WORK("10", "10"));
    read_text(&now, WORK("10", "20"));
    ck_assert_double_eq_tol(metrics_quantile(NULL, &now, "mqkv_work_seconds", "get", 0.5), 1, 1e-9);
    ck_assert_double_eq_tol(metrics_quantile(&before, &now, "mqkv_work_seconds", "get", 0.5), 1.5,
                            1e-9);
    ck_assert_double_eq(metrics_quantile(&now, &now, "mqkv_work_seconds", "get", 0.5), 0);
    ck_assert_double_eq(metrics_quantile(NULL, &now, "mqkv_work_seconds", "put", 0.5), 0);
    metrics_free(&before);
    metrics_free(&now);
}
END_TEST

#define SERVER(start, gets, puts, bytes)                                                \
    "mqkv_start_time_seconds " start "\nmqkv_operations_total{operation=\"get\"} " gets \
    "\nmqkv_operations_total{operation=\"put\"} " puts                                  \
    "\nmqkv_file_appended_bytes_total{file=\"0\"} 5\n"                                  \
    "mqkv_file_appended_bytes_total{file=\"1\"} " bytes "\n"

START_TEST(a_report_tells_the_busiest_first)
{
    struct metrics before, now;
    struct top_report report;
    read_text(&before, SERVER("1000", "10", "10", "0"));
    read_text(&now, SERVER("1000", "14", "30", "100"));
    ck_assert(top_report_make(&report, &before, &now, 2));
    ck_assert_double_eq(report.operations_per_s, 12);
    ck_assert_uint_eq(report.kind_count, 2);
    top_report_sort(&report, TOP_BY_RATE);
    ck_assert_str_eq(report.kinds[0].name, "put");
    ck_assert_double_eq(report.kinds[0].per_second, 10);
    ck_assert_str_eq(report.files[0].name, "1");
    ck_assert_double_eq(report.files[0].written_per_s, 50);
    top_report_sort(&report, TOP_BY_NAME);
    ck_assert_str_eq(report.kinds[0].name, "get");
    ck_assert_str_eq(report.files[0].name, "0");
    top_report_free(&report);
    metrics_free(&before);
    metrics_free(&now);
}
END_TEST

START_TEST(a_server_that_was_restarted_counts_from_its_start)
{
    struct metrics before, now;
    struct top_report report;
    read_text(&before, SERVER("1000", "100", "100", "100"));
    read_text(&now, SERVER("2000", "7", "0", "5"));
    ck_assert(top_report_make(&report, &before, &now, 1));
    ck_assert_double_ge(report.operations_per_s, 0);
    ck_assert_double_gt(report.seconds, 1000);
    ck_assert_uint_eq(report.kind_count, 1);
    top_report_free(&report);
    metrics_free(&before);
    metrics_free(&now);
}
END_TEST

TEST_SUITE(program_metrics)
{
    TCase *tests = tcase_create("metrics");
    tcase_add_test(tests, samples_have_names_labels_and_values);
    tcase_add_test(tests, what_is_no_sample_is_passed_over);
    tcase_add_test(tests, any_bytes_are_read_to_their_end);
    tcase_add_test(tests, quantiles_are_those_of_the_time_between);
    tcase_add_test(tests, a_report_tells_the_busiest_first);
    tcase_add_test(tests, a_server_that_was_restarted_counts_from_its_start);
    suite_add_tcase(suite, tests);
}
