/* option_table: what a command line is taken for, and what is said about a wrong one. */
#include <check.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/options/option_table.h"
#include "common/text/suggest.h"
#include "tests/support/test_suite.h"

static const char *colour(int index)
{
    static const char *const colours[] = {"red", "green", "blue"};
    return index < 3 ? colours[index] : NULL;
}

static const char *switched(int index)
{
    static const char *const names[] = {"off", "on"};
    return index < 2 ? names[index] : NULL;
}

static bool parse_even(const char *text, void *field)
{
    return parse_u64(text, 0, 100, field) && *(uint64_t *)field % 2 == 0;
}

static const char *advise_even(const char *text)
{
    return strcmp(text, "7") == 0 ? "; 8 is" : "";
}

struct option_target {
    bool verbose, quiet, help, sandbox;
    uint32_t workers, largest;
    uint64_t even;
    int64_t offset;
    double share;
    const char *dir;
    enum { RED, GREEN, BLUE } colour;
};

#define FIELD(name) OPTION_FIELD(struct option_target, name)

static const struct option_row rows[] = {
    {"verbose", 'v', OPTION_FLAG, NULL, "say more", FIELD(verbose)},
    {"quiet", 'q', OPTION_FLAG, NULL, "say less", FIELD(quiet)},
    {"workers", 'w', OPTION_NUMBER, "N", "how many", FIELD(workers), .min = 1, .max = 9},
    {"largest", 0, OPTION_SIZE, "SIZE", "how much", FIELD(largest), .min = 1, .max = 1 << 20},
    {"even", 'e', OPTION_PARSED, "N", "a number", FIELD(even), .parse = parse_even,
     .expects = "an even number", .advise = advise_even},
    {"offset", 0, OPTION_INTEGER, "N", "a number with a sign", FIELD(offset)},
    {"share", 0, OPTION_FRACTION, "F", "a part", FIELD(share), .max = 1},
    {"dir", 'f', OPTION_TEXT, "DIR", "where", FIELD(dir), .min = 1, .expects = "a directory"},
    {"colour", 0, OPTION_CHOICE, "COLOUR", "which", FIELD(colour), .choice_name = colour},
    {"sandbox", 0, OPTION_CHOICE, "WHETHER", "or not", FIELD(sandbox), .choice_name = switched},
    {"help", 'h', OPTION_STOP, NULL, "this", FIELD(help)},
    {.name = NULL},
};

static struct option_target target;
static struct kv_error error;
static int argc;
static char *argv[32];

/* Takes a command line of words separated by blanks. */
static enum kv_status take(const char *line)
{
    static char words[512];
    const struct option_set sets[] = {{.rows = rows, .target = &target}, {.rows = NULL}};
    target = (struct option_target){.colour = BLUE, .dir = "."};
    error = (struct kv_error){0};
    argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    return option_take_argv(sets, "see the manual", &argc, argv, &error);
}

START_TEST(values_of_every_kind)
{
    ck_assert_int_eq(take("-v --workers 3 --largest=64k --even 42 --offset -5 --share 0.5 "
                          "--dir /a --colour GREEN --sandbox on"),
                     KV_OK);
    ck_assert_int_eq(argc, 1);
    ck_assert(target.verbose && !target.quiet && target.sandbox);
    ck_assert_uint_eq(target.workers, 3);
    ck_assert_uint_eq(target.largest, 65536);
    ck_assert_uint_eq(target.even, 42);
    ck_assert_int_eq(target.offset, -5);
    ck_assert_double_eq(target.share, 0.5);
    ck_assert_str_eq(target.dir, "/a");
    ck_assert_int_eq(target.colour, GREEN);
    ck_assert_int_eq(take("--sandbox on --sandbox off"), KV_OK);
    ck_assert(!target.sandbox);
}
END_TEST

START_TEST(letters_share_a_word)
{
    ck_assert_int_eq(take("-vqw3"), KV_OK);
    ck_assert(target.verbose && target.quiet);
    ck_assert_uint_eq(target.workers, 3);
    ck_assert_int_eq(take("-qf /b"), KV_OK);
    ck_assert_str_eq(target.dir, "/b");
}
END_TEST

START_TEST(a_name_may_be_cut_short)
{
    ck_assert_int_eq(take("--work 4 --col=red"), KV_OK);
    ck_assert_uint_eq(target.workers, 4);
    ck_assert_int_eq(target.colour, RED);
}
END_TEST

START_TEST(operands_stay_in_their_order)
{
    ck_assert_int_eq(take("a -v b - -5 -- -q --help"), KV_OK);
    ck_assert_int_eq(argc, 7);
    ck_assert_str_eq(argv[1], "a");
    ck_assert_str_eq(argv[2], "b");
    ck_assert_str_eq(argv[3], "-");
    ck_assert_str_eq(argv[4], "-5");
    ck_assert_str_eq(argv[5], "-q");
    ck_assert_str_eq(argv[6], "--help");
    ck_assert(target.verbose && !target.quiet && !target.help);
}
END_TEST

START_TEST(help_ends_the_line)
{
    ck_assert_int_eq(take("-v -h --nonsense"), KV_OK);
    ck_assert(target.verbose && target.help);
    ck_assert_int_eq(take("--nonsense -h"), KV_USAGE);
}
END_TEST

/* The command line, and the sentence. */
static const char *const refused[][2] = {
    {"--workers 0", "--workers: '0' is not a number from 1 to 9"},
    {"--largest 2M", "--largest: '2M' is not a size such as 64, 4k or 1M, from 1 B to 1.0 MiB"},
    {"--even 7", "--even: '7' is not an even number; 8 is"},
    {"--even 9", "--even: '9' is not an even number"},
    {"--offset x", "--offset: 'x' is not a whole number of 64 bits"},
    {"--share 2", "--share: '2' is not a number from 0 to 1"},
    {"--dir=", "--dir: '' is not a directory"},
    {"--colour pink", "--colour: 'pink' is not red, green or blue"},
    {"--sandbox perhaps", "--sandbox: 'perhaps' is not off or on"},
    {"--workers", "--workers needs a value: a number from 1 to 9"},
    {"-w", "--workers needs a value: a number from 1 to 9"},
    {"--dir --quiet", "--dir needs a value: a directory; '--quiet' looks like an option (if you "
                      "mean it: --dir=--quiet)"},
    {"--quiet=yes", "--quiet takes no value, but 'yes' was given"},
    {"--wrokers 3", "unknown option '--wrokers'; did you mean --workers?"},
    {"--replicas=3", "unknown option '--replicas': see the manual"},
    {"-vx", "unknown option '-x': see the manual"},
    {"--=3", "unknown option '--': see the manual"},
};

START_TEST(mistakes_are_told)
{
    ck_assert_int_eq(take(refused[_i][0]), KV_USAGE);
    ck_assert_int_eq(error.status, KV_USAGE);
    ck_assert_str_eq(error.text, refused[_i][1]);
}
END_TEST

START_TEST(an_ambiguous_name_is_refused)
{
    static const struct option_row twins[] = {
        {"left", 0, OPTION_FLAG, NULL, "", .offset = 0},
        {"length", 0, OPTION_FLAG, NULL, "", .offset = 1},
        {"len", 0, OPTION_FLAG, NULL, "", .offset = 2},
        {.name = NULL},
    };
    bool given[3] = {false};
    const struct option_set sets[] = {{.rows = twins, .target = given}, {.rows = NULL}};
    bool took_next;
    ck_assert_int_eq(option_take(sets, "", "--le", NULL, &took_next, &error), KV_USAGE);
    ck_assert_str_eq(error.text, "option '--le' is ambiguous: 3 options begin that way");
    ck_assert_int_eq(option_take(sets, "", "--len", NULL, &took_next, &error), KV_OK);
    ck_assert(given[2] && !given[1]);
}
END_TEST

START_TEST(help_has_a_line_per_row)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    option_print_help(stream, rows, 20);
    option_print_help(stream, NULL, 20);
    option_print_help(stream, rows, 17);
    option_print_section(stream, rows, &(struct option_heading){"No title", "none has it", 0}, 20);
    fclose(stream);
    ck_assert_ptr_nonnull(strstr(text, "  -w, --workers N      how many\n"));
    ck_assert_ptr_nonnull(strstr(text, "      --largest SIZE   how much\n"));
    ck_assert_ptr_nonnull(strstr(text, "      --largest SIZE\n                    how much\n"));
    free(text);
}
END_TEST

static const char *suggested_for(const char *typed)
{
    static const char *const names[] = {"put", "get", "getset", "persist", "stats", "scan"};
    struct suggestion suggestion = SUGGESTION_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        suggest_consider(&suggestion, typed, names[i]);
    return suggestion.name;
}

START_TEST(the_most_similar_name_is_suggested)
{
    ck_assert_str_eq(suggested_for("gte"), "get");
    ck_assert_str_eq(suggested_for("PTU"), "put");
    ck_assert_str_eq(suggested_for("pesrist"), "persist");
    ck_assert_str_eq(suggested_for("stat"), "stats");
    ck_assert_str_eq(suggested_for("pers"), "persist");
    ck_assert_ptr_null(suggested_for("select"));
    ck_assert_ptr_null(suggested_for(""));
    ck_assert_ptr_null(suggested_for("a very long name that nobody would ever give to a command"));
}
END_TEST

TEST_SUITE(common_option_table)
{
    TCase *cases = tcase_create("options");
    tcase_add_test(cases, values_of_every_kind);
    tcase_add_test(cases, letters_share_a_word);
    tcase_add_test(cases, a_name_may_be_cut_short);
    tcase_add_test(cases, operands_stay_in_their_order);
    tcase_add_test(cases, help_ends_the_line);
    tcase_add_loop_test(cases, mistakes_are_told, 0, (int)(sizeof refused / sizeof refused[0]));
    tcase_add_test(cases, an_ambiguous_name_is_refused);
    tcase_add_test(cases, help_has_a_line_per_row);
    tcase_add_test(cases, the_most_similar_name_is_suggested);
    suite_add_tcase(suite, cases);
}
