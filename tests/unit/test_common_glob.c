#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/glob.h"
#include "tests/support/test_suite.h"

static bool matches(const char *pattern, const char *text)
{
    uint64_t steps = glob_steps(strlen(text));
    bool result =
        glob_matches(kv_slice_from_string(pattern), kv_slice_from_string(text), false, &steps);
    ck_assert_uint_gt(steps, 0);
    return result;
}

/* Whether the pattern is given up on the text. */
static bool runs_out(const char *pattern, size_t pattern_size, const char *text, size_t size)
{
    uint64_t steps = glob_steps(size);
    ck_assert(!glob_matches(kv_slice(pattern, pattern_size), kv_slice(text, size), false, &steps));
    return steps == 0;
}

START_TEST(patterns_match_whole_texts)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "a", true},
        {"a", "ab", false},
        {"ab", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"**", "x", true},
        {"a*", "abc", true},
        {"*c", "abc", true},
        {"a*c", "abdc", true},
        {"a*c", "abd", false},
        {"?", "", false},
        {"?", "x", true},
        {"a?c", "abc", true},
        {"a*b*c", "a1b2b3c", true},
        {"a*b*c", "a1c2b", false},
        {"[abc]", "b", true},
        {"[abc]", "d", false},
        {"[^abc]", "d", true},
        {"[^abc]", "a", false},
        {"[a-c]x", "bx", true},
        {"[c-a]x", "bx", true},
        {"[a-c]", "d", false},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"[\\]]", "]", true},
        {"[a", "a", true},
        {"a\\", "a\\", true},
        {"h[^e]llo", "hello", false},
        {"h[a-b]llo", "hallo", true},
        {"A", "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(matches(cases[i].pattern, cases[i].text) == cases[i].matches,
                      "\"%s\", \"%s\"", cases[i].pattern, cases[i].text);
    uint64_t steps = 100;
    ck_assert(glob_matches(kv_slice_from_string("MAX*"), kv_slice_from_string("maxmemory"), true,
                           &steps));
}
END_TEST

START_TEST(binary_texts_match)
{
    uint64_t steps = 100;
    ck_assert(glob_matches(kv_slice("a\0*", 3), kv_slice("a\0\xff", 3), false, &steps));
    ck_assert(glob_matches(kv_slice("[\x80-\xff]", 5), kv_slice("\xee", 1), false, &steps));
}
END_TEST

/* A matcher that tries all ways would not come to an end. */
START_TEST(many_stars_take_few_steps)
{
    enum { STARS = 200, TEXT = 20000 };
    char pattern[STARS * 2 + 1], text[TEXT];
    for (size_t i = 0; i < STARS; i++)
        memcpy(pattern + i * 2, "a*", 2);
    pattern[STARS * 2] = 'b';
    memset(text, 'a', TEXT);
    ck_assert(!runs_out(pattern, sizeof pattern, text, TEXT));
}
END_TEST

START_TEST(what_takes_too_many_steps_is_given_up)
{
    enum { PATTERN = 300000, TEXT = 60000 };
    char *pattern = malloc(PATTERN), *text = malloc(TEXT);
    memset(text, 'a', TEXT);
    memset(pattern, 'b', PATTERN);
    memcpy(pattern, "*[", 2);
    ck_assert_msg(runs_out(pattern, PATTERN, text, TEXT), "a set as large as that");
    memset(pattern, 'a', PATTERN);
    pattern[0] = '*';
    pattern[TEXT / 2] = 'b';
    ck_assert_msg(runs_out(pattern, TEXT / 2 + 1, text, TEXT), "long behind its star");
    memset(pattern, '*', PATTERN);
    pattern[PATTERN - 1] = 'b';
    ck_assert_msg(runs_out(pattern, PATTERN, text, 1), "stars without end");
    free(pattern);
    free(text);
}
END_TEST

START_TEST(the_start_of_a_pattern_may_be_literal)
{
    ck_assert_uint_eq(glob_literal_prefix(kv_slice_from_string("key:*")).size, 4);
    ck_assert_uint_eq(glob_literal_prefix(kv_slice_from_string("*")).size, 0);
    ck_assert_uint_eq(glob_literal_prefix(kv_slice_from_string("ab[c]")).size, 2);
    ck_assert_uint_eq(glob_literal_prefix(kv_slice_from_string("ab\\*")).size, 2);
    ck_assert_uint_eq(glob_literal_prefix(kv_slice_from_string("plain")).size, 5);
}
END_TEST

TEST_SUITE(common_glob)
{
    TCase *matching = tcase_create("matching");
    tcase_add_test(matching, patterns_match_whole_texts);
    tcase_add_test(matching, binary_texts_match);
    tcase_add_test(matching, many_stars_take_few_steps);
    tcase_add_test(matching, what_takes_too_many_steps_is_given_up);
    tcase_add_test(matching, the_start_of_a_pattern_may_be_literal);
    suite_add_tcase(suite, matching);
}
