#include <check.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "common/text/parse.h"
#include "tests/support/test_suite.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

START_TEST(u64_takes_whole_decimal_numbers)
{
    uint64_t value = 7;
    ck_assert(parse_u64("0", 0, UINT64_MAX, &value));
    ck_assert_uint_eq(value, 0);
    ck_assert(parse_u64("18446744073709551615", 0, UINT64_MAX, &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert(parse_u64("007", 0, 10, &value));
    ck_assert_uint_eq(value, 7);
}
END_TEST

START_TEST(u64_refuses_everything_else)
{
    static const char *const bad[] = {
        "",  " 1",   "1 ",  "+1",  "-1",  "1x",
        "x", "0x10", "1.0", "1\n", "1e3", "18446744073709551616",
        "-", "٣",    "1k",  "１",  "--1", "99999999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t value = 7;
        ck_assert_msg(!parse_u64(bad[i], 0, UINT64_MAX, &value), "accepted \"%s\"", bad[i]);
        ck_assert_uint_eq(value, 7);
    }
}
END_TEST

START_TEST(limits_are_inclusive)
{
    uint64_t value = 0;
    ck_assert(parse_u64("5", 5, 9, &value));
    ck_assert(parse_u64("9", 5, 9, &value));
    ck_assert(!parse_u64("4", 5, 9, &value));
    ck_assert(!parse_u64("10", 5, 9, &value));
    ck_assert_uint_eq(value, 9);

    int64_t number = 0;
    ck_assert(parse_i64("-2", -2, 2, &number));
    ck_assert_int_eq(number, -2);
    ck_assert(!parse_i64("-3", -2, 2, &number));
    ck_assert(!parse_i64("3", -2, 2, &number));
    ck_assert_int_eq(number, -2);
}
END_TEST

START_TEST(i64_takes_the_whole_range)
{
    int64_t value = 7;
    ck_assert(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value));
    ck_assert_int_eq(value, INT64_MIN);
    ck_assert(parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value));
    ck_assert_int_eq(value, INT64_MAX);
    ck_assert(parse_i64("-0", INT64_MIN, INT64_MAX, &value));
    ck_assert_int_eq(value, 0);
}
END_TEST

START_TEST(i64_refuses_everything_else)
{
    static const char *const bad[] = {"",   "-",   "--1", "+1",
                                      "1-", "- 1", "-1 ", "9223372036854775808",
                                      "1.", "x",   "-x",  "-9223372036854775809"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t value = 7;
        ck_assert_msg(!parse_i64(bad[i], INT64_MIN, INT64_MAX, &value), "accepted \"%s\"", bad[i]);
        ck_assert_int_eq(value, 7);
    }
}
END_TEST

START_TEST(i64_bytes_reads_no_further_than_size)
{
    int64_t value = 7;
    const char digits[] = {'1', '2', '3', '4'};
    ck_assert(parse_i64_bytes(digits, 3, &value));
    ck_assert_int_eq(value, 123);
    ck_assert(parse_i64_bytes("-9223372036854775808", 20, &value));
    ck_assert_int_eq(value, INT64_MIN);

    ck_assert(!parse_i64_bytes(digits, 0, &value));
    ck_assert(!parse_i64_bytes(NULL, 0, &value));
    ck_assert(!parse_i64_bytes("-", 1, &value));
    ck_assert(!parse_i64_bytes("12\0", 3, &value));
    ck_assert(!parse_i64_bytes("1\n", 2, &value));
    ck_assert(!parse_i64_bytes("000000000000000000001", 21, &value));
    ck_assert(!parse_i64_bytes("00000000000000000001", 20, &value)); /* 1 to 19 digits */
    int64_t padded;
    ck_assert(parse_i64_bytes("-0000000000000000007", 20, &padded));
    ck_assert_int_eq(padded, -7);
    ck_assert(parse_i64_bytes("-0", 2, &padded));
    ck_assert_int_eq(padded, 0);
    ck_assert(!parse_i64_bytes("+7", 2, &value));
    ck_assert(!parse_i64_bytes(" 7", 2, &value));
    ck_assert(!parse_i64_bytes("99999999999999999999", 20, &value));
    ck_assert_int_eq(value, INT64_MIN);
}
END_TEST

START_TEST(size_knows_its_units)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"4096", 4096},
                {"64k", 65536},
                {"64K", 65536},
                {"64KiB", 65536},
                {"1M", 1 << 20},
                {"1MiB", 1 << 20},
                {"2G", 2147483648u},
                {"0", 0},
                {"2GiB", 2147483648u},
                {"1T", UINT64_C(1) << 40},
                {"0.5TiB", UINT64_C(1) << 39},
                {"7B", 7},
                {"17179869183G", UINT64_C(17179869183) << 30},
                {"1.5M", 1572864},
                {"0.5k", 512}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        uint64_t bytes = 1;
        ck_assert_msg(parse_size(good[i].text, 0, UINT64_MAX, &bytes), "refused %s", good[i].text);
        ck_assert_uint_eq(bytes, good[i].bytes);
    }
    static const char *const bad[] = {"",    "k",   "1kb",  "1 k", "1kk",
                                      "-1k", "1.5", "1.3k", "1.M", "1GB",
                                      "1TB", "1m",  "1g",   "1Ki", "17179869184G"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t bytes = 1;
        ck_assert_msg(!parse_size(bad[i], 0, UINT64_MAX, &bytes), "accepted %s", bad[i]);
        ck_assert_uint_eq(bytes, 1);
    }
}
END_TEST

START_TEST(limits_hold_after_the_unit)
{
    uint64_t value = 1;
    ck_assert(!parse_size("2k", 0, 2047, &value));
    ck_assert(!parse_duration_ms("1s", 1001, UINT64_MAX, &value));
    ck_assert_uint_eq(value, 1);
    ck_assert(parse_size("2k", 2048, 2048, &value));
    ck_assert_uint_eq(value, 2048);
}
END_TEST

START_TEST(duration_knows_its_units)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"250", 250},       {"250ms", 250},       {"2s", 2000},
                {"5m", 300000},     {"1h", 3600000},      {"7d", 604800000},
                {"0", 0},           {"1.5h", 5400000},    {"0.25s", 250},
                {"1.0", 1},         {"2.50d", 216000000}, {"1w", 604800000},
                {"0.5w", 302400000}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        uint64_t ms = 1;
        ck_assert_msg(parse_duration_ms(good[i].text, 0, UINT64_MAX, &ms), "refused %s",
                      good[i].text);
        ck_assert_uint_eq(ms, good[i].ms);
    }
    static const char *const bad[] = {"",       "s",       "1us",  "1y",
                                      "-1s",    "1.5",     "1.s",  ".5s",
                                      "1.5.5s", "1.0001s", "1,5h", "1.00000000000000000000001s",
                                      "1 s",    "1sec",    "1S",   "18446744073709551615s"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t ms = 1;
        ck_assert_msg(!parse_duration_ms(bad[i], 0, UINT64_MAX, &ms), "accepted %s", bad[i]);
        ck_assert_uint_eq(ms, 1);
    }
}
END_TEST

START_TEST(double_takes_decimal_fractions)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0}, {"0.25", 0.25}, {".5", 0.5}, {"3.", 3}, {"-1.5", -1.5}, {"0.1", 0.1}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        double value = 7;
        ck_assert_msg(parse_double(good[i].text, -10, 10, &value), "refused %s", good[i].text);
        ck_assert(value == good[i].value);
    }
    static const char *const bad[] = {"",    ".",  "-",  "-.", "1e3",   "inf", "nan",   "0x1",
                                      "1,5", " 1", "1 ", "+1", "1.2.3", "--1", "10.01", "-11"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        double value = 7;
        ck_assert_msg(!parse_double(bad[i], -10, 10, &value), "accepted %s", bad[i]);
        ck_assert(value == 7);
    }
}
END_TEST

START_TEST(a_number_too_big_for_a_double_is_refused)
{
    char text[401];
    memset(text, '9', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    double value = 7;
    ck_assert(!parse_double(text, 0, 1.7e308, &value));
    ck_assert(value == 7);
}
END_TEST

START_TEST(sizes_for_people)
{
    char buffer[32];
    ck_assert_str_eq(format_size(0, buffer), "0 B");
    ck_assert_str_eq(format_size(1023, buffer), "1023 B");
    ck_assert_str_eq(format_size(1024, buffer), "1.0 KiB");
    ck_assert_str_eq(format_size(3 << 19, buffer), "1.5 MiB");
    ck_assert_str_eq(format_size((1 << 20) - 1, buffer), "1.0 MiB");
    ck_assert_str_eq(format_size(UINT64_C(5) << 30, buffer), "5.0 GiB");
    ck_assert_str_eq(format_size(UINT64_MAX, buffer), "16777216.0 TiB");
}
END_TEST

START_TEST(durations_for_people)
{
    char buffer[32];
    ck_assert_str_eq(format_duration_ns(0, buffer), "0 ns");
    ck_assert_str_eq(format_duration_ns(999, buffer), "999 ns");
    ck_assert_str_eq(format_duration_ns(12345, buffer), "12.3 us");
    ck_assert_str_eq(format_duration_ns(999999, buffer), "1.0 ms");
    ck_assert_str_eq(format_duration_ns(1500000000, buffer), "1.5 s");
    ck_assert_str_eq(format_duration_ns(UINT64_C(90000000000), buffer), "90.0 s");
    ck_assert_uint_lt(strlen(format_duration_ns(UINT64_MAX, buffer)), 32);
}
END_TEST

START_TEST(integers_are_written_as_printf_writes_them)
{
    static const int64_t values[] = {0, 1, -1, 9, 10, -10, 99, 100, INT64_MAX, INT64_MIN};
    char written[INTEGER_BYTES], expected[INTEGER_BYTES];
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        snprintf(expected, sizeof expected, "%" PRId64, values[i]);
        ck_assert_uint_eq(format_i64(values[i], written), strlen(expected));
        ck_assert_str_eq(written, expected);
    }
    ck_assert_uint_eq(format_u64(UINT64_MAX, written), 20);
    ck_assert_str_eq(written, "18446744073709551615");
}
END_TEST

START_TEST(counts_for_people)
{
    char buffer[32];
    ck_assert_str_eq(format_count(0, "worker", buffer), "0 workers");
    ck_assert_str_eq(format_count(1, "worker", buffer), "1 worker");
    ck_assert_str_eq(format_count(UINT64_MAX, "data file", buffer),
                     "18446744073709551615 data files");
}
END_TEST

TEST_SUITE(common_parse)
{
    TCase *integers = tcase_create("integers");
    tcase_add_test(integers, u64_takes_whole_decimal_numbers);
    tcase_add_test(integers, u64_refuses_everything_else);
    tcase_add_test(integers, limits_are_inclusive);
    tcase_add_test(integers, i64_takes_the_whole_range);
    tcase_add_test(integers, i64_refuses_everything_else);
    tcase_add_test(integers, i64_bytes_reads_no_further_than_size);
    tcase_add_test(integers, integers_are_written_as_printf_writes_them);
    suite_add_tcase(suite, integers);

    TCase *quantities = tcase_create("quantities");
    tcase_add_test(quantities, size_knows_its_units);
    tcase_add_test(quantities, duration_knows_its_units);
    tcase_add_test(quantities, limits_hold_after_the_unit);
    tcase_add_test(quantities, double_takes_decimal_fractions);
    tcase_add_test(quantities, a_number_too_big_for_a_double_is_refused);
    tcase_add_test(quantities, sizes_for_people);
    tcase_add_test(quantities, durations_for_people);
    tcase_add_test(quantities, counts_for_people);
    suite_add_tcase(suite, quantities);
}
