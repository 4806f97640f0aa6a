/* lab_options: what the switches of studies take, refuse, and change. */
#include "lab/lab_options.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "lab/dispatch/models.h"
#include "serverk/config/command_line.h"
#include "serverk/daemon/store_opening.h"
#include "tests/support/test_suite.h"

static struct server_options options;
static struct kv_error error;

/* Parses a command line of words separated by blanks. */
static enum options_outcome parse(const char *line)
{
    static char words[512];
    char *argv[32] = {(char[]){"serverk"}};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    error = (struct kv_error){0};
    options_free(&options);
    return command_line_parse(argc, argv, &options, &error);
}

START_TEST(workers_depend_on_dispatch)
{
    const struct dispatch_model *model;
    for (int i = 0; (model = dispatch_models_get(i)); i++) {
        char line[64];
        snprintf(line, sizeof line, "--dispatch %s", model->name);
        ck_assert_int_eq(parse(line), OPTIONS_RUN);
        ck_assert_ptr_eq(options.dispatch, model);
        ck_assert_uint_eq(options.workers, dispatch_model_default_workers(model));
        ck_assert_uint_ge(options.workers, 1);
    }
    ck_assert_int_eq(parse("-w 1 --dispatch event"), OPTIONS_RUN);
    ck_assert_uint_eq(dispatch_model_writers(options.dispatch, 1), 1);
    ck_assert_int_eq(parse("-w 7 --dispatch thread"), OPTIONS_RUN);
    ck_assert_uint_eq(options.workers, 7);
    ck_assert_uint_eq(dispatch_model_writers(options.dispatch, 7), 8);
    ck_assert_int_eq(parse("-w 7 --dispatch process"), OPTIONS_RUN);
    ck_assert_uint_eq(dispatch_model_receivers(options.dispatch, 7), 1);
    ck_assert_uint_eq(dispatch_model_writers(options.dispatch, 7), 9);
}
END_TEST

START_TEST(scheduling)
{
    ck_assert_int_eq(parse(""), OPTIONS_RUN);
    ck_assert_uint_eq(lab_options_of(&options)->sched_queue, 4096);
    ck_assert_int_eq(parse("--sched cost --sched-queue 16 --nice"), OPTIONS_RUN);
    ck_assert_int_eq(options.sched, ORDER_LAB);
    ck_assert_uint_eq(lab_options_of(&options)->sched_queue, 16);
    ck_assert(options.nice);
}
END_TEST

START_TEST(names_are_those_of_the_options)
{
    ck_assert_str_eq(kvstore_locking_name(KVSTORE_FILE_MUTEX), "file-mutex");
    ck_assert_str_eq(kvstore_locking_name(KVSTORE_GLOBAL_RWLOCK), "global-rwlock");
    ck_assert_str_eq(kvstore_locking_name(KVSTORE_GLOBAL_MUTEX), "global-mutex");
    ck_assert_str_eq(kvstore_locking_name(KVSTORE_OPTIMISTIC), "optimistic");
    ck_assert_str_eq(kvstore_rwlock_name(KVSTORE_PREFER_READER), "prefer-reader");
    ck_assert_str_eq(kvstore_allocator_name(KVSTORE_ALLOCATOR_LOCKED), "locked");
    ck_assert_str_eq(kvstore_allocator_name(KVSTORE_ALLOCATOR_THREAD_LOCAL), "thread-local");
}
END_TEST

START_TEST(the_store_is_opened_so)
{
    ck_assert_int_eq(parse(""), OPTIONS_RUN);
    ck_assert_int_eq(store_opening(&options).locking, KVSTORE_FILE_RWLOCK);
    ck_assert_int_eq(store_opening(&options).rwlock, KVSTORE_PREFER_WRITER);
    ck_assert(!store_opening(&options).before_unlock);
    ck_assert_int_eq(parse("--locking=file-mutex --allocator locked"), OPTIONS_RUN);
    ck_assert_int_eq(store_opening(&options).locking, KVSTORE_FILE_MUTEX);
    ck_assert_int_eq(store_opening(&options).allocator, KVSTORE_ALLOCATOR_LOCKED);
    ck_assert_int_eq(parse("--rwlock=prefer-reader --locking=global-rwlock"), OPTIONS_RUN);
    ck_assert_int_eq(store_opening(&options).rwlock, KVSTORE_PREFER_READER);
    ck_assert_int_eq(parse("--rwlock prefer-writer --locking optimistic"), OPTIONS_RUN);
    ck_assert_int_eq(store_opening(&options).locking, KVSTORE_OPTIMISTIC);
    ck_assert_int_eq(store_opening(&options).rwlock, KVSTORE_PREFER_WRITER);
    ck_assert_int_eq(parse("--service-time fixed:1ms:locked --sync none"), OPTIONS_RUN);
    ck_assert(store_opening(&options).before_unlock);
}
END_TEST

START_TEST(who_may_read_directly)
{
    ck_assert_int_eq(parse("--service-time fixed:1ms --sync none"), OPTIONS_RUN);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OFF);
    ck_assert_int_eq(parse("--service-time off"), OPTIONS_RUN);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OWNER);
    ck_assert_int_eq(parse("--dispatch process"), OPTIONS_RUN);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OFF);
    ck_assert_int_eq(parse("--dispatch thread"), OPTIONS_RUN);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OWNER);
}
END_TEST

/* The command line, and what the error must name: the option and the value. */
static const char *const refused[][3] = {
    {"--locking pessimistic", "--locking", "'pessimistic'"},
    {"--dispatch fork", "--dispatch", "'fork'"},
    {"--dispatch event -w 2", "--workers", "one thread"},
    {"-w 256 --dispatch event", "--workers", "'256'"},
    {"--sched-queue 0", "--sched-queue", "'0'"},
    {"--sched-queue 65537", "--sched-queue", "'65537'"},
    {"--sched cost --lanes shared", "--sched cost", "--lanes shared"},
    {"--nice --sched cost --dispatch process", "--nice", "--dispatch process"},
    {"--rwlock fair", "--rwlock", "'fair'"},
    {"--rwlock prefer-reader --locking file-mutex", "--rwlock", "file-mutex"},
    {"--locking global-mutex --rwlock prefer-writer", "--rwlock", "global-mutex"},
    {"--dispatch process --direct owner", "--direct owner", "--dispatch process"},
    {"--service-time fixed:1ms", "--service-time", "--sync interval"},
};

START_TEST(refused_with_option_and_value)
{
    ck_assert_int_eq(parse(refused[_i][0]), OPTIONS_BAD);
    ck_assert_int_eq(error.status, KV_USAGE);
    ck_assert_ptr_nonnull(strstr(error.text, refused[_i][1]));
    ck_assert_ptr_nonnull(strstr(error.text, refused[_i][2]));
}
END_TEST

TEST_SUITE(lab_options)
{
    TCase *cases = tcase_create("options");
    tcase_add_test(cases, workers_depend_on_dispatch);
    tcase_add_test(cases, scheduling);
    tcase_add_test(cases, names_are_those_of_the_options);
    tcase_add_test(cases, the_store_is_opened_so);
    tcase_add_test(cases, who_may_read_directly);
    tcase_add_loop_test(cases, refused_with_option_and_value, 0,
                        (int)(sizeof refused / sizeof refused[0]));
    suite_add_tcase(suite, cases);
}
