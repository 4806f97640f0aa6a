#include <check.h>
#include <stddef.h>
#include <string.h>

#include "clientk/program/cli/arguments.h"
#include "tests/support/test_suite.h"

static const char *colour(int index)
{
    static const char *const colours[] = {"red", "green"};
    return index < 2 ? colours[index] : NULL;
}

struct target {
    bool flag;
    uint64_t number, size, duration_ms;
    int64_t integer;
    double fraction;
    const char *text;
    int choice;
};

#define FIELD(name) OPTION_FIELD(struct target, name)
static const struct option_row rows[] = {
    {.name = "flag", .letter = 'f', .kind = OPTION_FLAG, FIELD(flag)},
    {.name = "number",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .argument = "N",
     FIELD(number),
     .min = 1,
     .max = 10},
    {.name = "size", .kind = OPTION_SIZE, .argument = "SIZE", FIELD(size), .max = 1 << 20},
    {.name = "time",
     .kind = OPTION_DURATION_MS,
     .argument = "MS",
     FIELD(duration_ms),
     .max = 1000000},
    {.name = "integer", .kind = OPTION_INTEGER, .argument = "I", FIELD(integer)},
    {.name = "fraction", .kind = OPTION_FRACTION, .argument = "F", FIELD(fraction), .max = 5},
    {.name = "text", .kind = OPTION_TEXT, .argument = "TEXT", FIELD(text)},
    {.name = "colour",
     .kind = OPTION_CHOICE,
     .argument = "COLOUR",
     FIELD(choice),
     .choice_name = colour},
    {.name = NULL},
};

static struct target target;
static struct line line;
static size_t count;
static struct kv_error error;

static void reset(void)
{
    target = (struct target){0};
    error = (struct kv_error){0};
}

static void release(void)
{
    line_free(&line);
}

static enum kv_status take(const char *text, bool leading)
{
    const struct option_set sets[] = {{.rows = rows, .target = &target}, {.rows = NULL}};
    struct line_error wrong;
    ck_assert(line_parse(&line, text, strlen(text), &wrong));
    count = line.count;
    return arguments_take_options(sets, line.words, &count, leading, &error);
}

START_TEST(options_stand_anywhere_in_all_their_forms)
{
    ck_assert_int_eq(take("a --number 3 b -f --size=4k c --time 2s --integer -5", false), KV_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert_str_eq(line.words[2].data, "c");
    ck_assert(target.flag);
    ck_assert_uint_eq(target.number, 3);
    ck_assert_uint_eq(target.size, 4096);
    ck_assert_uint_eq(target.duration_ms, 2000);
    ck_assert_int_eq(target.integer, -5);
    ck_assert_int_eq(take("-n7 --fraction 2.5 --text \"x y\" --colour GREEN", false), KV_OK);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(target.number, 7);
    ck_assert_double_eq(target.fraction, 2.5);
    ck_assert_str_eq(target.text, "x y");
    ck_assert_int_eq(target.choice, 1);
}
END_TEST

START_TEST(what_only_looks_like_an_option_is_an_operand)
{
    ck_assert_int_eq(take("add -5 - \"--flag\" \"-f\"", false), KV_OK);
    ck_assert_uint_eq(count, 5);
    ck_assert(!target.flag);
}
END_TEST

START_TEST(two_dashes_end_the_options)
{
    ck_assert_int_eq(take("put -- -f --flag -", false), KV_OK);
    ck_assert_uint_eq(count, 4);
    ck_assert(!target.flag);
    ck_assert(!line.words[0].literal);
    ck_assert(line.words[3].literal);
}
END_TEST

START_TEST(leading_options_stop_at_the_first_operand)
{
    ck_assert_int_eq(take("-f get --unknown -- x", true), KV_OK);
    ck_assert(target.flag);
    ck_assert_uint_eq(count, 4);
    ck_assert_str_eq(line.words[1].data, "--unknown");
    ck_assert_str_eq(line.words[2].data, "--");
}
END_TEST

START_TEST(errors_name_the_option_and_the_value)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"--number 0", "--number: '0' is not"},
        {"--number 11", "from 1 to 10"},
        {"--number", "--number needs a value"},
        {"--size 4x", "--size: '4x'"},
        {"--time 1w", "--time: '1w'"},
        {"--fraction 6", "--fraction: '6'"},
        {"--colour blue", "is not red or green"},
        {"--flag=1", "--flag takes no value"},
        {"--nubmer 3", "did you mean --number?"},
        {"-z", "unknown option '-z'"},
        {"--text \"a\\0b\"", "NUL"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(take(bad[i].text, false), KV_USAGE);
        ck_assert_msg(strstr(error.text, bad[i].said), "%s: %s", bad[i].text, error.text);
    }
}
END_TEST

START_TEST(a_second_set_takes_what_the_first_does_not_know)
{
    static const struct option_row others[] = {
        {.name = "flag", .kind = OPTION_FLAG, .offset = 0},
        {.name = "other", .kind = OPTION_FLAG, .offset = 1},
        {.name = NULL},
    };
    bool second[2] = {false, false};
    const struct option_set sets[] = {
        {.rows = rows, .target = &target}, {.rows = others, .target = second}, {.rows = NULL}};
    struct line_error wrong;
    ck_assert(line_parse(&line, "--flag --other", 14, &wrong));
    count = line.count;
    ck_assert_int_eq(arguments_take_options(sets, line.words, &count, false, &error), KV_OK);
    ck_assert(target.flag);
    ck_assert(!second[0]);
    ck_assert(second[1]);
}
END_TEST

TEST_SUITE(program_arguments)
{
    TCase *options = tcase_create("options");
    tcase_add_checked_fixture(options, reset, release);
    tcase_add_test(options, options_stand_anywhere_in_all_their_forms);
    tcase_add_test(options, what_only_looks_like_an_option_is_an_operand);
    tcase_add_test(options, two_dashes_end_the_options);
    tcase_add_test(options, leading_options_stop_at_the_first_operand);
    tcase_add_test(options, errors_name_the_option_and_the_value);
    tcase_add_test(options, a_second_set_takes_what_the_first_does_not_know);
    suite_add_tcase(suite, options);
}
