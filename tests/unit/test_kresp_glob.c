#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kresp/protocol/glob.h"
#include "tests/unit/suites.h"

static bool matches(const char *pattern, const char *text)
{
    return glob_matches(kv_slice_from_string(pattern), kv_slice_from_string(text), false);
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
    ck_assert(glob_matches(kv_slice_from_string("MAX*"), kv_slice_from_string("maxmemory"), true));
}
END_TEST

START_TEST(binary_texts_match)
{
    ck_assert(glob_matches(kv_slice("a\0*", 3), kv_slice("a\0\xff", 3), false));
    ck_assert(glob_matches(kv_slice("[\x80-\xff]", 5), kv_slice("\xee", 1), false));
}
END_TEST

/* A matcher that tries all ways would not come to an end. */
START_TEST(many_stars_take_no_time)
{
    enum { STARS = 200, TEXT = 20000 };
    char *pattern = malloc(STARS * 2 + 2), *text = malloc(TEXT);
    for (size_t i = 0; i < STARS; i++)
        memcpy(pattern + i * 2, "a*", 2);
    memcpy(pattern + (size_t)STARS * 2, "b", 1);
    memset(text, 'a', TEXT);
    ck_assert(!glob_matches(kv_slice(pattern, STARS * 2 + 1), kv_slice(text, TEXT), false));
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

Suite *suite_kresp_glob(void)
{
    Suite *suite = suite_create("kresp_glob");
    TCase *matching = tcase_create("matching");
    tcase_add_test(matching, patterns_match_whole_texts);
    tcase_add_test(matching, binary_texts_match);
    tcase_add_test(matching, many_stars_take_no_time);
    tcase_add_test(matching, the_start_of_a_pattern_may_be_literal);
    suite_add_tcase(suite, matching);
    return suite;
}
