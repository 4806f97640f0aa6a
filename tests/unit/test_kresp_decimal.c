#include <check.h>
#include <string.h>

#include "common/numbers/random.h"
#include "common/text/parse.h"
#include "bridges/kresp/protocol/decimal.h"
#include "tests/support/test_suite.h"

static bool parses(const char *text, int64_t *value)
{
    return decimal_parse(kv_slice_from_string(text), value);
}

START_TEST(only_the_canonical_form_is_an_integer)
{
    static const char *const wrong[] = {"",
                                        "-",
                                        "+1",
                                        "007",
                                        "-0",
                                        "00",
                                        " 1",
                                        "1 ",
                                        "1.0",
                                        "1e3",
                                        "0x10",
                                        "--1",
                                        "-01",
                                        "9223372036854775808",
                                        "-9223372036854775809",
                                        "99999999999999999999",
                                        "18446744073709551616",
                                        "123456789012345678901"};
    int64_t value = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(!parses(wrong[i], &value), "%s", wrong[i]);
    ck_assert_int_eq(value, 77);
    ck_assert(parses("0", &value) && value == 0);
    ck_assert(parses("-1", &value) && value == -1);
    ck_assert(parses("9223372036854775807", &value) && value == INT64_MAX);
    ck_assert(parses("-9223372036854775808", &value) && value == INT64_MIN);
}
END_TEST

START_TEST(integers_come_back_as_they_were_written)
{
    struct random_state random;
    random_seed(&random, 7);
    for (unsigned i = 0; i < 100000; i++) {
        char text[INTEGER_BYTES];
        int64_t value = (int64_t)(random_next(&random) >> random_below(&random, 64)), back;
        value = i % 2 ? value : -value;
        size_t size = format_i64(value, text);
        ck_assert_uint_eq(size, strlen(text));
        ck_assert(decimal_parse(kv_slice(text, size), &back));
        ck_assert_int_eq(back, value);
    }
}
END_TEST

START_TEST(cursors_have_all_bits)
{
    char text[INTEGER_BYTES];
    uint64_t cursor;
    ck_assert_uint_eq(format_u64(UINT64_MAX, text), 20);
    ck_assert_str_eq(text, "18446744073709551615");
    ck_assert(decimal_parse_cursor(kv_slice_from_string(text), &cursor));
    ck_assert(cursor == UINT64_MAX);
    ck_assert(!decimal_parse_cursor(kv_slice_from_string("18446744073709551616"), &cursor));
    ck_assert(!decimal_parse_cursor(kv_slice_from_string("-1"), &cursor));
    ck_assert(!decimal_parse_cursor(kv_slice_from_string(""), &cursor));
}
END_TEST

static void check_real(const char *text, const char *expected)
{
    char out[DECIMAL_REAL_BYTES];
    long double value;
    ck_assert_msg(decimal_parse_real(kv_slice_from_string(text), &value), "%s", text);
    ck_assert_uint_eq(decimal_write_real(out, value), strlen(expected));
    ck_assert_str_eq(out, expected);
}

START_TEST(reals_have_no_exponent_and_no_zeros_at_the_end)
{
    check_real("10.50", "10.5");
    check_real("5.0e3", "5000");
    check_real("-0", "0");
    check_real("-0.0", "0");
    check_real("0.1", "0.1");
    check_real("1e-5", "0.00001");
    check_real("-2.25", "-2.25");
    check_real("100", "100");
}
END_TEST

START_TEST(what_is_no_real_number_is_refused)
{
    static const char *const wrong[] = {"", " 1", "1 ", "abc", "1x", "nan", "1e99999"};
    long double value;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(!decimal_parse_real(kv_slice_from_string(wrong[i]), &value), "%s", wrong[i]);
    ck_assert(!decimal_parse_real(kv_slice("1\0", 2), &value));
}
END_TEST

TEST_SUITE(kresp_decimal)
{
    TCase *numbers = tcase_create("numbers");
    tcase_add_test(numbers, only_the_canonical_form_is_an_integer);
    tcase_add_test(numbers, integers_come_back_as_they_were_written);
    tcase_add_test(numbers, cursors_have_all_bits);
    tcase_add_test(numbers, reals_have_no_exponent_and_no_zeros_at_the_end);
    tcase_add_test(numbers, what_is_no_real_number_is_refused);
    suite_add_tcase(suite, numbers);
}
