/* option_file: what a configuration file is taken for, and what is said about a wrong one. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serverk/config/command_line.h"
#include "serverk/config/settings.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

static char file[512];
static struct server_options options;
static struct kv_error error;

static void make_file(void)
{
    test_path(file, sizeof file, "option_file-XXXXXX");
    int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_file(void)
{
    unlink(file);
}

static void write_file(const char *text)
{
    FILE *stream = fopen(file, "w");
    ck_assert_ptr_nonnull(stream);
    fputs(text, stream);
    fclose(stream);
}

/* Parses "serverk -c FILE more". */
static enum options_outcome parse(const char *text, char *more, char *value)
{
    static char program[] = "serverk", letter[] = "-c";
    char *words[] = {program, letter, file, more, value, NULL};
    write_file(text);
    options_free(&options);
    memset(&error, 0, sizeof error);
    return command_line_parse(3 + (more != NULL) + (value != NULL), words, &options, &error);
}

START_TEST(values_of_each_kind)
{
    ck_assert_int_eq(parse("# a comment\n"
                           "[store]\n"
                           "dir = /srv/a dir  ; not this\n"
                           "sync=interval:250\n"
                           "   max-value = 2M\n"
                           "\n"
                           "[workers]\n"
                           "workers = 3\n"
                           "sched = priority\n"
                           "nice = yes\n"
                           "[log]\n"
                           "verbose = off",
                           NULL, NULL),
                     OPTIONS_RUN);
    ck_assert_str_eq(options.dir, "/srv/a dir");
    ck_assert_uint_eq(options.sync_interval_ms, 250);
    ck_assert_uint_eq(options.max_value_bytes, 2u << 20);
    ck_assert_uint_eq(options.workers, 3);
    ck_assert_int_eq(options.sched, ORDER_PRIORITY);
    ck_assert(options.nice && !options.verbose);
}
END_TEST

START_TEST(the_command_line_counts_more)
{
    char option[] = "-w", value[] = "7";
    ck_assert_int_eq(parse("[workers]\nworkers = 3\nsched = priority\n", option, value),
                     OPTIONS_RUN);
    ck_assert_uint_eq(options.workers, 7);
    ck_assert_int_eq(options.sched, ORDER_PRIORITY);
}
END_TEST

static const struct {
    const char *text, *line, *said;
} wrong[] = {
    {"[stor]\ndir = x\n", ":1:", "unknown section [stor]; did you mean [store]?"},
    {"[store]\n\n  [stor]\n# x\n\ndir = x\n", ":3:", "unknown section [stor]"},
    {"[user nosuchuser]\nread = a\n", ":1:", "there is no user 'nosuchuser'"},
    {"\n[others]\nread = a\n[group nosuchgroup]\n\nread = a\n", ":4:", "there is no group"},
    {"[quota \\q]\n\nmax-keys = 1\n", ":1:", "escapes"},
    {"[quota q]\n\nmax-keys = many\n", ":3:", "is not a number above 0"},
    {"[store]\n\nworkers = 2\n", ":3:", "belongs to section [workers]"},
    {"[store]\ndir = x\ndir = y\n", ":3:", "the first is in line 2"},
    {"dir = x\n", ":1:", "before the first section; it belongs below [store]"},
    {"frobnicate = x\n", ":1:", "before the first section"},
    {"[store]\nbogus\n", ":2:", "neither [section]"},
    {"[store]\nio = mmapp\n", ":2:", "io: 'mmapp' is not mmap, pread or direct"},
    {"[store]\ndatafile = 2\n", ":2:", "did you mean 'datafiles'?"},
    {"[workers]\nnice = perhaps\n", ":2:", "neither on nor off"},
    {"[process]\ncheck = on\n", ":2:", "on the command line only"},
    {"[store]\ndir =\n", ":2:", "dir: '' is not a directory"},
};

START_TEST(mistakes_are_told_with_their_line)
{
    char place[sizeof file + 16];
    ck_assert_int_eq(parse(wrong[_i].text, NULL, NULL), OPTIONS_BAD);
    snprintf(place, sizeof place, "%s%s", file, wrong[_i].line);
    ck_assert_msg(strstr(error.text, place) && strstr(error.text, wrong[_i].said), "%s",
                  error.text);
}
END_TEST

START_TEST(what_is_no_line_is_refused)
{
    char text[600] = "[store]\ndir = ";
    memset(text + strlen(text), 'x', 300);
    ck_assert_int_eq(parse(text, NULL, NULL), OPTIONS_BAD);
    ck_assert_ptr_nonnull(strstr(error.text, "longer than"));
    char option[] = "--config=/dev/zero";
    ck_assert_int_eq(parse("", option, NULL), OPTIONS_BAD);
    ck_assert_ptr_nonnull(strstr(error.text, "not a regular file"));
}
END_TEST

START_TEST(a_second_reading_tells_what_changed)
{
    struct server_options again;
    struct changed_setting change;
    unsigned next = 0;
    ck_assert_int_eq(parse("[workers]\nworkers = 3\n[log]\nverbose = on\n", NULL, NULL),
                     OPTIONS_RUN);
    write_file("[workers]\nworkers = 4\n[log]\nverbose = on\n[store]\nio = pread\n");
    ck_assert_int_eq(command_line_parse_again(&options, &again, &error), OPTIONS_RUN);
    ck_assert(settings_next_change(options.origins, again.origins, &next, &change));
    ck_assert_str_eq(change.name, "workers");
    ck_assert_str_eq(change.before, "3");
    ck_assert_str_eq(change.now, "4");
    ck_assert(settings_next_change(options.origins, again.origins, &next, &change));
    ck_assert_str_eq(change.name, "io");
    ck_assert_ptr_null(change.before);
    ck_assert(!settings_next_change(options.origins, again.origins, &next, &change));
    options_free(&again);
}
END_TEST

/* What --check prints can be read again and says the same. */
START_TEST(the_settings_print_as_a_file)
{
    char *text = NULL;
    size_t size;
    ck_assert_int_eq(parse("[workers]\nworkers = 3\n[store]\nsync = always\n", NULL, NULL),
                     OPTIONS_RUN);
    FILE *stream = open_memstream(&text, &size);
    settings_print(&options, stream);
    fclose(stream);
    char origin[sizeof file + 32];
    snprintf(origin, sizeof origin, "workers = 3 ; %s:2\n", file);
    ck_assert_ptr_nonnull(strstr(text, origin));
    ck_assert_ptr_nonnull(strstr(text, "; io = mmap ; default\n"));
    struct server_options first = options;
    options = (struct server_options){.words = NULL}; /* parse must not free the first */
    ck_assert_int_eq(parse(text, NULL, NULL), OPTIONS_RUN);
    unsigned next = 0;
    struct changed_setting change;
    ck_assert(!settings_next_change(first.origins, options.origins, &next, &change));
    options_free(&first);
    free(text);
}
END_TEST

TEST_SUITE(serverk_option_file)
{
    TCase *test_case = tcase_create("option_file");
    tcase_add_checked_fixture(test_case, make_file, remove_file);
    tcase_add_test(test_case, values_of_each_kind);
    tcase_add_test(test_case, the_command_line_counts_more);
    tcase_add_loop_test(test_case, mistakes_are_told_with_their_line, 0,
                        sizeof wrong / sizeof wrong[0]);
    tcase_add_test(test_case, what_is_no_line_is_refused);
    tcase_add_test(test_case, a_second_reading_tells_what_changed);
    tcase_add_test(test_case, the_settings_print_as_a_file);
    suite_add_tcase(suite, test_case);
}
