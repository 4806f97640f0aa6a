#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/line.h"
#include "common/text/escape.h"
#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

static struct line line;

static void free_line(void)
{
    line_free(&line);
}

static bool parse(const char *text, struct line_error *error)
{
    return line_parse(&line, text, strlen(text), error);
}

static void check_word(size_t index, const char *bytes, size_t size, bool literal)
{
    ck_assert_uint_lt(index, line.count);
    const struct word *word = &line.words[index];
    ck_assert_uint_eq(word->size, size);
    ck_assert_mem_eq(word->data, bytes, size);
    ck_assert_int_eq(word->data[size], '\0');
    ck_assert(word->literal == literal);
}

START_TEST(blanks_separate_words)
{
    struct line_error error;
    ck_assert(parse("  PUT\tkey   some value \r", &error));
    ck_assert_uint_eq(line.count, 4);
    check_word(0, "PUT", 3, false);
    check_word(1, "key", 3, false);
    check_word(2, "some", 4, false);
    check_word(3, "value", 5, false);
}
END_TEST

START_TEST(empty_lines_and_comments_have_no_words)
{
    struct line_error error;
    static const char *const empty[] = {"", "   ", "\t", "# comment", "   # PUT a b", "\r"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        ck_assert(parse(empty[i], &error));
        ck_assert_uint_eq(line.count, 0);
    }
}
END_TEST

START_TEST(a_comment_begins_where_a_word_could)
{
    struct line_error error;
    ck_assert(parse("GET a#b # rest", &error));
    ck_assert_uint_eq(line.count, 2);
    check_word(1, "a#b", 3, false);
    ck_assert(parse("GET \"# no comment\"", &error));
    check_word(1, "# no comment", 12, true);
}
END_TEST

START_TEST(quotes_hold_blanks_and_binary)
{
    struct line_error error;
    ck_assert(parse("PUT \"a b\" \"\\x00\\xFf\\\\\\\"\\n\\r\\t\\0\"", &error));
    ck_assert_uint_eq(line.count, 3);
    check_word(1, "a b", 3, true);
    check_word(2, "\0\xff\\\"\n\r\t\0", 8, true);
}
END_TEST

START_TEST(a_quoted_word_may_be_empty)
{
    struct line_error error;
    ck_assert(parse("PUT k \"\"", &error));
    ck_assert_uint_eq(line.count, 3);
    check_word(2, "", 0, true);
}
END_TEST

START_TEST(a_backslash_in_a_bare_word_is_itself)
{
    struct line_error error;
    ck_assert(parse("PUT path C:\\new", &error));
    check_word(2, "C:\\new", 6, false);
}
END_TEST

START_TEST(errors_name_their_column)
{
    static const struct {
        const char *text;
        size_t column;
    } bad[] = {
        {"GET \"abc", 5},     {"\"", 1},          {"GET \"a\\q\"", 7},
        {"GET \"\\x0g\"", 6}, {"GET \"a\"b", 8},  {"GET \"a\"\"b\"", 8},
        {"a \"b\\\"", 3},     {"GET \"\\x\"", 6},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct line_error error = {0};
        ck_assert_msg(!parse(bad[i].text, &error), "accepted: %s", bad[i].text);
        ck_assert_msg(error.column == bad[i].column, "%s: column %zu", bad[i].text, error.column);
        ck_assert_ptr_nonnull(error.message);
        ck_assert_uint_eq(line.count, 0);
    }
}
END_TEST

START_TEST(words_of_an_error_do_not_linger)
{
    struct line_error error;
    ck_assert(parse("one two", &error));
    ck_assert(!parse("one \"two", &error));
    ck_assert_uint_eq(line.count, 0);
    ck_assert(parse("three", &error));
    ck_assert_uint_eq(line.count, 1);
}
END_TEST

/* What escape_print_word writes, the parser reads back: batches and dumps rely on it. */
START_TEST(every_byte_string_comes_back_from_its_escaped_form)
{
    struct random_state random;
    random_seed(&random, 7);
    for (int round = 0; round < 2000; round++) {
        char bytes[64], *text = NULL;
        size_t size = (size_t)random_below(&random, sizeof bytes + 1), text_size = 0;
        struct line_error error;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)random_next(&random);
        FILE *stream = open_memstream(&text, &text_size);
        escape_print_word(stream, kv_slice(bytes, size));
        fclose(stream);
        ck_assert(line_parse(&line, text, text_size, &error));
        ck_assert_uint_eq(line.count, 1);
        ck_assert_uint_eq(line.words[0].size, size);
        ck_assert(memcmp(line.words[0].data, bytes, size) == 0);
        free(text);
    }
}
END_TEST

START_TEST(arguments_are_taken_as_they_are)
{
    char *arguments[] = {(char[]){"put"}, (char[]){"a b"}, (char[]){"\\x41\"#"}, (char[]){""}};
    struct line_error error;
    ck_assert(line_from_arguments(&line, arguments, 4, false, &error));
    ck_assert_uint_eq(line.count, 4);
    check_word(1, "a b", 3, false);
    check_word(2, "\\x41\"#", 6, false);
    check_word(3, "", 0, false);
}
END_TEST

START_TEST(arguments_may_hold_escapes)
{
    char *arguments[] = {(char[]){"put"}, (char[]){"\\x00k"}, (char[]){"bad\\q"}};
    struct line_error error = {0};
    ck_assert(line_from_arguments(&line, arguments, 2, true, &error));
    check_word(1, "\0k", 2, false);
    ck_assert(!line_from_arguments(&line, arguments, 3, true, &error));
    ck_assert_uint_eq(error.column, 3);
}
END_TEST

START_TEST(words_compare_without_case)
{
    struct line_error error;
    ck_assert(parse("GeT gets ge", &error));
    ck_assert(word_is(&line.words[0], "get"));
    ck_assert(!word_is(&line.words[1], "get"));
    ck_assert(!word_is(&line.words[2], "get"));
}
END_TEST

TEST_SUITE(program_line)
{
    TCase *words = tcase_create("words");
    tcase_add_checked_fixture(words, NULL, free_line);
    tcase_add_test(words, blanks_separate_words);
    tcase_add_test(words, empty_lines_and_comments_have_no_words);
    tcase_add_test(words, a_comment_begins_where_a_word_could);
    tcase_add_test(words, quotes_hold_blanks_and_binary);
    tcase_add_test(words, a_quoted_word_may_be_empty);
    tcase_add_test(words, a_backslash_in_a_bare_word_is_itself);
    tcase_add_test(words, errors_name_their_column);
    tcase_add_test(words, words_of_an_error_do_not_linger);
    tcase_add_test(words, every_byte_string_comes_back_from_its_escaped_form);
    tcase_add_test(words, words_compare_without_case);
    suite_add_tcase(suite, words);
    TCase *arguments = tcase_create("arguments");
    tcase_add_checked_fixture(arguments, NULL, free_line);
    tcase_add_test(arguments, arguments_are_taken_as_they_are);
    tcase_add_test(arguments, arguments_may_hold_escapes);
    suite_add_tcase(suite, arguments);
}
