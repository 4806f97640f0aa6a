#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"
#include "tests/support/test_suite.h"

typedef void (*printer)(FILE *stream, struct kv_slice bytes);

/* What the printer writes, NUL-terminated, in memory of its own. */
static char *printed(printer print, const void *data, size_t size)
{
    char *text = NULL;
    size_t text_size = 0;
    FILE *stream = open_memstream(&text, &text_size);
    ck_assert_ptr_nonnull(stream);
    print(stream, kv_slice(data, size));
    fclose(stream);
    return text;
}

static void assert_prints(printer print, const void *data, size_t size, const char *expected)
{
    char *text = printed(print, data, size);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(print_escapes_what_is_not_printable)
{
    assert_prints(escape_print, "plain text!", 11, "plain text!");
    assert_prints(escape_print, "a\\b\"c\n\r\t\0d", 10, "a\\\\b\\\"c\\n\\r\\t\\0d");
    assert_prints(escape_print, "\x01\x7f\x80\xff", 4, "\\x01\\x7f\\x80\\xff");
    assert_prints(escape_print, NULL, 0, "");
}
END_TEST

START_TEST(a_word_is_quoted_only_when_needed)
{
    assert_prints(escape_print_word, "user:7/a-b_c.d@e%f+g=h", 22, "user:7/a-b_c.d@e%f+g=h");
    assert_prints(escape_print_word, "", 0, "\"\"");
    assert_prints(escape_print_word, "two words", 9, "\"two words\"");
    assert_prints(escape_print_word, "#comment", 8, "\"#comment\"");
    assert_prints(escape_print_word, "a\0b", 3, "\"a\\0b\"");
    assert_prints(escape_print_word, "\"", 1, "\"\\\"\"");
}
END_TEST

START_TEST(what_is_printed_reads_back_as_the_same_bytes)
{
    uint8_t bytes[512];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        char *text = printed(escape_print, bytes, size);
        char back[4 * sizeof bytes];
        ck_assert_int_eq(unescape(text, strlen(text), back, NULL), (long)size);
        ck_assert_mem_eq(back, bytes, size);
        free(text);
    }
}
END_TEST

START_TEST(a_nul_before_a_digit_reads_back)
{
    char back[8];
    assert_prints(escape_print,
                  "\0"
                  "12",
                  3, "\\012");
    ck_assert_int_eq(unescape("\\012", 4, back, NULL), 3);
    ck_assert_mem_eq(back,
                     "\0"
                     "12",
                     3);
}
END_TEST

START_TEST(unescape_takes_both_cases_of_hex)
{
    char back[8];
    ck_assert_int_eq(unescape("\\xaB\\xCd", 8, back, NULL), 2);
    ck_assert_mem_eq(back, "\xab\xcd", 2);
}
END_TEST

START_TEST(malformed_escapes_are_refused_with_their_place)
{
    static const struct {
        const char *text;
        size_t error_at;
    } bad[] = {{"\\", 0},   {"ab\\", 2},    {"a\\q", 1},  {"\\x", 0},
               {"\\x1", 0}, {"ab\\x1g", 2}, {"\\X41", 0}, {"\\\\\\", 2}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char out[16];
        size_t error_at = 99;
        ck_assert_int_eq(unescape(bad[i].text, strlen(bad[i].text), out, &error_at), -1);
        ck_assert_uint_eq(error_at, bad[i].error_at);
        ck_assert_int_eq(unescape(bad[i].text, strlen(bad[i].text), out, NULL), -1);
    }
}
END_TEST

START_TEST(unescape_reads_no_further_than_size)
{
    char out[8];
    ck_assert_int_eq(unescape("\\x41", 3, out, NULL), -1);
    ck_assert_int_eq(unescape("ab\\n", 3, out, NULL), -1);
    ck_assert_int_eq(unescape("abc", 2, out, NULL), 2);
    ck_assert_int_eq(unescape(NULL, 0, out, NULL), 0);
}
END_TEST

START_TEST(json_escapes_quotes_and_controls)
{
    assert_prints(escape_print_json, "a\"b\\c\n\0", 7, "\"a\\\"b\\\\c\\u000a\\u0000\"");
    assert_prints(escape_print_json, "", 0, "\"\"");
}
END_TEST

START_TEST(json_commands_no_terminal)
{
    assert_prints(escape_print_json, "a\x7f\xc2\x80\xc2\x9b\x1b[2J", 10,
                  "\"a\\u007f\\u0080\\u009b\\u001b[2J\"");
    assert_prints(escape_print_json, "\x9b", 1, "\"\\u009b\"");
}
END_TEST

START_TEST(a_document_of_others_commands_no_terminal)
{
    assert_prints(escape_print_document, "{\"a\":\"\xc3\xa9\xc2\x9b\x7f\x9b\"\n\t}", 16,
                  "{\"a\":\"\xc3\xa9\\u009b\\u007f\\u009b\"\n\t}");
}
END_TEST

START_TEST(json_keeps_valid_utf8)
{
    static const char *const valid[] = {"gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                        "\xc2\xa0",           "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "\"%s\"", valid[i]);
        assert_prints(escape_print_json, valid[i], strlen(valid[i]), expected);
    }
}
END_TEST

START_TEST(json_writes_other_bytes_as_code_points)
{
    /* Overlong, surrogate, above U+10FFFF, cut off, a lone continuation, never a lead byte. */
    assert_prints(escape_print_json, "\xc0\x80", 2, "\"\\u00c0\\u0080\"");
    assert_prints(escape_print_json, "\xe0\x9f\xbf", 3, "\"\\u00e0\\u009f\\u00bf\"");
    assert_prints(escape_print_json, "\xed\xa0\x80", 3, "\"\\u00ed\\u00a0\\u0080\"");
    assert_prints(escape_print_json, "\xf4\x90\x80\x80", 4, "\"\\u00f4\\u0090\\u0080\\u0080\"");
    assert_prints(escape_print_json, "\xe2\x82", 2, "\"\\u00e2\\u0082\"");
    assert_prints(escape_print_json, "\xe2\x82x", 3, "\"\\u00e2\\u0082x\"");
    assert_prints(escape_print_json, "\x80", 1, "\"\\u0080\"");
    assert_prints(escape_print_json, "\xff", 1, "\"\\u00ff\"");
}
END_TEST

static ssize_t refuse(void *count, const char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    ++*(int *)count;
    return 0; /* fopencookie(3): an error */
}

START_TEST(a_stream_that_fails_is_not_tried_for_each_byte)
{
    static uint8_t bytes[100000];
    int tries = 0;
    FILE *stream = fopencookie(&tries, "w", (cookie_io_functions_t){.write = refuse});
    if (_i == 0)
        escape_print(stream, kv_slice(bytes, sizeof bytes));
    else
        escape_print_json(stream, kv_slice(bytes, sizeof bytes));
    ck_assert(ferror(stream));
    ck_assert_int_le(tries, 3);
    fclose(stream);
}
END_TEST

TEST_SUITE(common_escape)
{
    TCase *text = tcase_create("text");
    tcase_add_test(text, print_escapes_what_is_not_printable);
    tcase_add_test(text, a_word_is_quoted_only_when_needed);
    tcase_add_test(text, what_is_printed_reads_back_as_the_same_bytes);
    tcase_add_test(text, a_nul_before_a_digit_reads_back);
    tcase_add_test(text, unescape_takes_both_cases_of_hex);
    tcase_add_test(text, malformed_escapes_are_refused_with_their_place);
    tcase_add_test(text, unescape_reads_no_further_than_size);
    tcase_add_loop_test(text, a_stream_that_fails_is_not_tried_for_each_byte, 0, 2);
    suite_add_tcase(suite, text);

    TCase *json = tcase_create("json");
    tcase_add_test(json, json_escapes_quotes_and_controls);
    tcase_add_test(json, json_commands_no_terminal);
    tcase_add_test(json, a_document_of_others_commands_no_terminal);
    tcase_add_test(json, json_keeps_valid_utf8);
    tcase_add_test(json, json_writes_other_bytes_as_code_points);
    suite_add_tcase(suite, json);
}
