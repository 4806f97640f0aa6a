/* options: what the command line of serverk takes, refuses, and says about it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serverk/config/command_line.h"
#include "serverk/config/dispatch_model.h"
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

START_TEST(the_environment_names_the_queue)
{
    setenv("MQKV_QUEUE", "/two", 1);
    ck_assert_int_eq(parse(""), OPTIONS_RUN);
    ck_assert_str_eq(options.queue, "/two");
    ck_assert_int_eq(parse("-m /kv"), OPTIONS_RUN);
    ck_assert_str_eq(options.queue, "/kv");
    setenv("MQKV_QUEUE", "two", 1);
    ck_assert_int_eq(parse(""), OPTIONS_BAD);
    ck_assert_ptr_nonnull(strstr(error.text, "MQKV_QUEUE: 'two'"));
    ck_assert_int_eq(parse("-m /kv"), OPTIONS_RUN);
    setenv("MQKV_QUEUE", "", 1);
    ck_assert_int_eq(parse(""), OPTIONS_RUN);
    ck_assert_str_eq(options.queue, "/serverk");
}
END_TEST

START_TEST(defaults)
{
    ck_assert_int_eq(parse(""), OPTIONS_RUN);
    ck_assert_str_eq(options.dir, "./datafiles");
    ck_assert_str_eq(options.queue, "/serverk");
    ck_assert_uint_eq(options.datafiles, 0);
    ck_assert_uint_ge(options.workers, 1);
    ck_assert_int_eq(options.durability, KVSTORE_SYNC_INTERVAL);
    ck_assert_uint_eq(options.sync_interval_ms, 1000);
    ck_assert_int_eq(options.lanes, LANES_AUTO);
    ck_assert_int_eq(options.sched, ORDER_FIFO);
    ck_assert(!options.nice);
    ck_assert_uint_eq(options.max_value_bytes, 1u << 20);
    ck_assert_uint_eq(options.mode, 0600);
    ck_assert(!options.daemon && !options.check && !options.verbose && !options.pidfile);
}
END_TEST

START_TEST(everything_given)
{
    ck_assert_int_eq(parse("-d 7 -w 3 -f /data -m /kv --sync interval:250 "
                           "--lanes worker --spin 20 --max-value 64k --mode 0622 "
                           "--group 42 --daemon --pidfile /run/kv.pid --check -v"),
                     OPTIONS_RUN);
    ck_assert_uint_eq(options.datafiles, 7);
    ck_assert_uint_eq(options.workers, 3);
    ck_assert_str_eq(options.dir, "/data");
    ck_assert_str_eq(options.queue, "/kv");
    ck_assert_int_eq(options.durability, KVSTORE_SYNC_INTERVAL);
    ck_assert_uint_eq(options.sync_interval_ms, 250);
    ck_assert_int_eq(options.lanes, LANES_WORKER);
    ck_assert_int_eq(options.spin.mode, WIRE_SPIN_FIXED);
    ck_assert_uint_eq(options.spin.fixed_us, 20);
    ck_assert_uint_eq(options.max_value_bytes, 65536);
    ck_assert_uint_eq(options.mode, 0622);
    ck_assert_uint_eq(options.group, 42);
    ck_assert_str_eq(options.pidfile, "/run/kv.pid");
    ck_assert(options.daemon && options.check && options.verbose);
}
END_TEST

START_TEST(workers_of_a_pool)
{
    ck_assert_uint_ge(dispatch_model_default_workers(&dispatch_pool), 1);
    ck_assert_int_eq(parse(""), OPTIONS_RUN);
    ck_assert_ptr_eq(options.dispatch, &dispatch_pool);
    ck_assert_uint_eq(options.workers, dispatch_model_default_workers(&dispatch_pool));
    ck_assert_uint_eq(dispatch_model_receivers(&dispatch_pool, 7), 7);
    ck_assert_uint_eq(dispatch_model_writers(&dispatch_pool, 7), 8);
}
END_TEST

START_TEST(scheduling)
{
    ck_assert_int_eq(parse("--sched priority --lanes shared --nice"), OPTIONS_RUN);
    ck_assert_int_eq(options.sched, ORDER_PRIORITY);
    ck_assert(options.nice);
}
END_TEST

START_TEST(long_forms_with_equals_sign)
{
    ck_assert_int_eq(parse("--workers=2 --mq=/a.b-c --sync=always"), OPTIONS_RUN);
    ck_assert_uint_eq(options.workers, 2);
    ck_assert_int_eq(options.durability, KVSTORE_SYNC_ALWAYS);
    ck_assert_int_eq(options.io, KVSTORE_IO_MMAP);
    ck_assert_int_eq(parse("--pidfile=--check"), OPTIONS_RUN);
    ck_assert_str_eq(options.pidfile, "--check");
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OWNER);
    ck_assert_int_eq(parse("--io direct"), OPTIONS_RUN);
    ck_assert_int_eq(options.io, KVSTORE_IO_DIRECT);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OFF);
    ck_assert_int_eq(parse("--io direct --direct owner"), OPTIONS_RUN);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OWNER);
    ck_assert_int_eq(parse("--io pread"), OPTIONS_RUN);
    ck_assert_int_eq(options.io, KVSTORE_IO_PREAD);
    ck_assert_uint_eq(options.cache_bytes, 0);
    ck_assert_int_eq(parse("--cache 16M"), OPTIONS_RUN);
    ck_assert_uint_eq(options.cache_bytes, 16u << 20);
    ck_assert_int_eq(parse("--cache 0"), OPTIONS_RUN);
    ck_assert(!options.verify_every_read);
    ck_assert_int_eq(parse("--verify=every"), OPTIONS_RUN);
    ck_assert(options.verify_every_read);
    ck_assert_int_eq(parse("--verify every --verify first"), OPTIONS_RUN);
    ck_assert(!options.verify_every_read);
}
END_TEST

START_TEST(a_cache)
{
    ck_assert_int_eq(parse("--as-cache 512M"), OPTIONS_RUN);
    ck_assert_uint_eq(options.max_bytes, 512u << 20);
    ck_assert_int_eq(options.evict, KVSTORE_EVICT_S3FIFO);
    ck_assert_int_eq(options.durability, KVSTORE_SYNC_NONE);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OFF);
    ck_assert_str_eq(options_text_of(&options, "max-bytes"), "512M");
    /* What does not contradict it stays as it was given, on either side of it. */
    ck_assert_int_eq(parse("--evict ttl --as-cache 1G --sync always --max-bytes 1024M"),
                     OPTIONS_RUN);
    ck_assert_uint_eq(options.max_bytes, 1u << 30);
    ck_assert_int_eq(options.evict, KVSTORE_EVICT_TTL);
    ck_assert_int_eq(options.durability, KVSTORE_SYNC_ALWAYS);
    ck_assert_int_eq(options.direct, KVSTORE_DIRECT_OWNER);
    ck_assert_int_eq(parse("--as-cache 0 --max-bytes 1M"), OPTIONS_RUN);
    ck_assert_int_eq(options.evict, KVSTORE_EVICT_NONE);
    ck_assert_int_eq(options.durability, KVSTORE_SYNC_INTERVAL);
}
END_TEST

/* The command line, and what the error must name: the option and the value. */
static const char *const refused[][3] = {
    {"-d 0", "--datafiles", "'0'"},
    {"--pidfile --check", "--pidfile", "'--check'"},
    {"-f --daemon", "--dir", "'--daemon'"},
    {"-d 4097", "--datafiles", "'4097'"},
    {"-w 257", "--workers", "'257'"},
    {"-w 2x", "--workers", "'2x'"},
    {"-w -1", "--workers", "'-1'"},
    {"-m serverk", "--mq", "'serverk'"},
    {"-m /a/b", "--mq", "'/a/b'"},
    {"--sync sometimes", "--sync", "'sometimes'"},
    {"--sync interval:", "--sync", "'interval:'"},
    {"--sync interval:0", "--sync", "'interval:0'"},
    {"--sync always:5", "--sync", "'always:5'"},
    {"--sync inter", "--sync", "'inter'"},
    {"--cache 63k", "--cache", "64k"},
    {"--cache lots", "--cache", "64k"},
    {"--io disk", "--io", "mmap, pread or direct"},
    {"--lanes many", "--lanes", "'many'"},
    {"--sched lottery", "--sched", "'lottery'"},
    {"--nice", "--nice", "--sched priority"},
    {"--nice=5", "--nice", "no value"},
    {"--spin 0", "--spin", "'0'"},
    {"--max-value 65M", "--max-value", "'65M'"},
    {"--max-value 0", "--max-value", "'0'"},
    {"--mode 0666", "--mode", "steal"},
    {"--mode 622x", "--mode", "'622x'"},
    {"--mode -1", "--mode", "'-1'"},
    {"--group nosuchgroup", "--group", "'nosuchgroup'"},
    {"--copies 2", "--copies", "serverk -h"},
    {"--verify never", "--verify", "'never'"},
    {"-x", "'-x'", "serverk -h"},
    {"-d", "--datafiles", "needs a value"},
    {"--daemon=yes", "--daemon", "no value"},
    {"surplus", "'surplus'", "serverk takes options only"},
    {"--as-cache 1k", "--as-cache", "64k or more"},
    {"--as-cache 1G --max-bytes 2G", "--max-bytes 2G", "--as-cache 1G"},
    {"--max-bytes 0 --as-cache 1G", "--max-bytes 0", "--as-cache 1G"},
    {"--as-cache 1G --evict none", "--evict none", "--as-cache 1G"},
    {"--as-cache 1G --engine nats", "--as-cache", "--engine nats"},
    {"--help tunin", "'tunin'", "tuning and studies"},
    {"--worker 2 -- --check", "'--check'", "serverk takes options only"},
    {"--s auto", "'--s'", "ambiguous"},
    {"--wrokers 2", "'--wrokers'", "did you mean --workers?"},
};

START_TEST(refused_with_option_and_value)
{
    ck_assert_int_eq(parse(refused[_i][0]), OPTIONS_BAD);
    ck_assert_int_eq(error.status, KV_USAGE);
    ck_assert_ptr_nonnull(strstr(error.text, refused[_i][1]));
    ck_assert_ptr_nonnull(strstr(error.text, refused[_i][2]));
}
END_TEST

START_TEST(help_and_version_end_it)
{
    ck_assert_int_eq(parse("-h"), OPTIONS_DONE);
    ck_assert_int_eq(parse("-h tuning"), OPTIONS_DONE);
    ck_assert_int_eq(parse("studies --help"), OPTIONS_DONE);
    ck_assert_int_eq(parse("--version"), OPTIONS_DONE);
}
END_TEST

TEST_SUITE(serverk_options)
{
    TCase *cases = tcase_create("options");
    tcase_add_test(cases, the_environment_names_the_queue);
    tcase_add_test(cases, defaults);
    tcase_add_test(cases, everything_given);
    tcase_add_test(cases, workers_of_a_pool);
    tcase_add_test(cases, scheduling);
    tcase_add_test(cases, long_forms_with_equals_sign);
    tcase_add_test(cases, a_cache);
    tcase_add_loop_test(cases, refused_with_option_and_value, 0,
                        (int)(sizeof refused / sizeof refused[0]));
    tcase_add_test(cases, help_and_version_end_it);
    suite_add_tcase(suite, cases);
}
