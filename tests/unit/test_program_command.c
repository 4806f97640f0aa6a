#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/command.h"
#include "tools/prompt/completion.h"
#include "clientk/program/commands/invocation.h"
#include "clientk/program/cli/help.h"
#include "tests/support/test_suite.h"

static struct line line;
static struct invocation prepared;
static struct kv_error error;

static void release(void)
{
    invocation_free(&prepared);
    line_free(&line);
}

static enum kv_status prepare_in(const char *text, unsigned place)
{
    struct line_error wrong;
    invocation_free(&prepared);
    error = (struct kv_error){0};
    ck_assert(line_parse(&line, text, strlen(text), &wrong));
    return invocation_prepare(&prepared, line.words, line.count, place, NULL, &error);
}

static enum kv_status prepare_text(const char *text)
{
    return prepare_in(text, COMMAND_BATCH);
}

static const struct clientk_operation *operation_of(const char *text)
{
    ck_assert_msg(prepare_text(text) == KV_OK, "%s: %s", text, error.text);
    return &prepared.key_command.operation;
}

static bool is_bytes(struct kv_slice slice, const char *text)
{
    return kv_slice_equal(slice, kv_slice_from_string(text));
}

START_TEST(commands_become_operations)
{
    const struct clientk_operation *operation = operation_of("put k  some  words --if-absent");
    ck_assert_int_eq(operation->opcode, CLIENTK_PUT);
    ck_assert(is_bytes(operation->key, "k"));
    ck_assert(is_bytes(operation->value, "some words"));
    ck_assert(operation->write.if_absent);
    operation = operation_of("DELETE k --if-version 7 --sync always");
    ck_assert_int_eq(operation->opcode, CLIENTK_DELETE);
    ck_assert_uint_eq(operation->write.if_version, 7);
    ck_assert_int_eq(operation->write.durability, CLIENTK_SYNC_ALWAYS);
    operation = operation_of("decr k 5 --min 0 --no-create");
    ck_assert_int_eq(operation->opcode, CLIENTK_ADD);
    ck_assert_int_eq(operation->delta, -5);
    ck_assert_int_eq(operation->add.min, 0);
    ck_assert_int_eq(operation->add.max, INT64_MAX);
    ck_assert(operation->add.if_present);
    operation = operation_of("incr k");
    ck_assert_int_eq(operation->delta, 1);
    ck_assert(!operation->add.if_present);
    operation = operation_of("expire k 1h");
    ck_assert_int_eq(operation->opcode, CLIENTK_TOUCH);
    ck_assert_uint_gt(operation->write.expiry_ms, 3600000);
    operation = operation_of("persist k");
    ck_assert_uint_eq(operation->write.expiry_ms, 0);
    operation = operation_of("put k v --expires-at 123");
    ck_assert_uint_eq(operation->write.expiry_ms, 123);
}
END_TEST

static bool refusal_says(const char *text, const char *part)
{
    ck_assert_int_eq(prepare_text(text), KV_USAGE);
    return strstr(error.text, part) != NULL;
}

START_TEST(words_of_other_stores_get_a_pointer)
{
    ck_assert(
        refusal_says("keys *", "mqkv has no keys: scan --keys lists keys, scan --keys --match"));
    ck_assert(refusal_says("MGET a b", "mqkv has no MGET: get KEY... reads several keys"));
    ck_assert(refusal_says("info", "stats"));
    ck_assert(refusal_says("FlushAll", "clear --yes"));
    ck_assert(refusal_says("dbsize", "count prints"));
    ck_assert(refusal_says("monitor", "watch shows"));
    ck_assert(refusal_says("mset a 1", "PUT"));
    ck_assert(refusal_says("setex k 10 v", "--ttl"));
    ck_assert(refusal_says("type k", "exists -v"));
    ck_assert(refusal_says("select 1", "-m NAME"));
    ck_assert(refusal_says("gett k", "did you mean get?"));
    ck_assert(refusal_says("mge", "unknown command"));
}
END_TEST

START_TEST(times_that_are_none_are_explained)
{
    ck_assert(refusal_says("touch k never", "persist KEY"));
    ck_assert(refusal_says("touch k 0", "persist KEY"));
    ck_assert(refusal_says("put k v --ttl never", "without a time an entry never expires"));
    ck_assert(refusal_says("touch k 90min", "units are ms, s, m (minutes), h, d and w"));
    ck_assert(refusal_says("put k v --ttl 1,5h", "1.5h"));
    ck_assert(refusal_says("touch k -5s", "del KEY"));
    ck_assert_int_eq(prepare_text("touch k 1.5h"), KV_OK);
}
END_TEST

/* Whether the line is refused in each place but a batch, with a sentence that has `part`. */
static bool people_are_told(const char *text, const char *part)
{
    return prepare_in(text, COMMAND_SHELL) == KV_USAGE && strstr(error.text, part) &&
           prepare_in(text, COMMAND_PROMPT) == KV_USAGE && strstr(error.text, part);
}

START_TEST(people_write_units)
{
    static const char *const lines[] = {"touch k 60", "expire k 1.5", "put k v --ttl 60",
                                        "add k 1 --ttl 60"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        ck_assert_msg(people_are_told(lines[i], " what? "), "%s: %s", lines[i], error.text);
        if (!strchr(lines[i], '.'))
            ck_assert_int_eq(prepare_text(lines[i]), KV_OK); /* milliseconds, as it always was */
    }
    ck_assert(people_are_told("queue put q x --delay 5", "5 what? 5s or 5ms"));
    ck_assert_int_eq(prepare_in("queue put q x --delay 0", COMMAND_SHELL), KV_OK);
    ck_assert_int_eq(prepare_in("touch k 60s", COMMAND_SHELL), KV_OK);
}
END_TEST

START_TEST(what_decides_about_data_is_not_guessed)
{
    ck_assert(people_are_told("put k v --ex 60000", "did you mean --ttl=60s?"));
    ck_assert(people_are_told("put k v --nx", "did you mean --if-absent?"));
    ck_assert(people_are_told("put k v --expires 60000", "--ttl"));
    ck_assert(people_are_told("put k v --if-pres", "did you mean --if-present?"));
    ck_assert(refusal_says("del k --if-v 7", "did you mean --if-version?"));
    ck_assert(people_are_told("put k v --expires-at 60000", "60000 is over"));
    ck_assert_int_eq(prepare_text("put k v --expires-at 60000"), KV_OK); /* as in a dump */
    ck_assert_int_eq(prepare_in("put k v --expires-at 9000000000000", COMMAND_SHELL), KV_OK);
}
END_TEST

START_TEST(a_dash_is_a_dash_in_a_line)
{
    ck_assert(is_bytes(operation_of("put k -")->value, "-"));
}
END_TEST

START_TEST(empty_lines_are_no_commands)
{
    ck_assert_int_eq(prepare_text("  # nothing"), KV_OK);
    ck_assert_ptr_null(prepared.command);
}
END_TEST

START_TEST(bad_commands_are_refused_with_a_sentence)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"gte k", "did you mean get?"},
        {"get", "usage: get KEY"},
        {"ttl a b", "too many"},
        {"put k", "usage: put KEY VALUE..."},
        {"put k v --if-absent --if-present", "exclude each other"},
        {"put k v --ttl 5s --keep-ttl", "exclude each other"},
        {"add k x", "'x'"},
        {"decr k -9223372036854775808", "cannot be subtracted"},
        {"add k 1 --min 5 --max 2", "above"},
        {"touch k 0", "'0'"},
        {"bench", "from the shell only"},
        {"quit", "works"},
        {"get --ttl 5s k", "unknown option '--ttl'"},
        {"\"\\xff\" k", "binary"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(prepare_text(bad[i].text), KV_USAGE);
        ck_assert_msg(strstr(error.text, bad[i].said), "%s: %s", bad[i].text, error.text);
    }
    ck_assert_int_eq(prepare_text("get \"\""), KV_BAD_KEY);
}
END_TEST

START_TEST(every_command_is_complete_in_the_table)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        ck_assert_ptr_nonnull(command->summary);
        ck_assert_ptr_nonnull(command->arguments);
        ck_assert_uint_ne(command->places, 0);
        ck_assert_msg(command->key_kind || command->run, "%s: one of both", command->name);
        ck_assert(!command->option_defaults == (command->option_bytes == 0));
        ck_assert(command->min_operands <= command->max_operands);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(commands[j].name, command->name);
    }
}
END_TEST

START_TEST(help_names_every_command_and_option)
{
    char *text = NULL;
    size_t size = 0;
    struct cli_context context = {.output.stream = open_memstream(&text, &size)};
    const struct word none = {(char[]){""}, 0, false};
    ck_assert_int_eq(help_run(&context, NULL, &none, 0), EXIT_DONE);
    fclose(context.output.stream);
    for (size_t i = 0; i < command_count; i++) {
        if (!(commands[i].places & COMMAND_SHELL))
            continue;
        ck_assert_ptr_nonnull(strstr(text, commands[i].summary));
        for (const struct option_row *row = commands[i].options; row && row->name; row++)
            ck_assert_ptr_nonnull(strstr(text, row->help));
    }
    free(text);
}
END_TEST

static void check_completion(const char *text, size_t expected_count, const char *first)
{
    struct completion completion;
    struct cli_context context = {.client = NULL};
    completion_find(&completion, &context, text, strlen(text));
    ck_assert_msg(completion.count == expected_count, "%s: %zu candidates", text, completion.count);
    if (first)
        ck_assert_str_eq(completion.candidates[0], first);
    completion_free(&completion);
}

START_TEST(words_are_completed_by_their_place)
{
    check_completion("pu", 1, "put");
    check_completion("GETS", 1, "getset");
    check_completion("get", 2, "get");
    check_completion("put k v --keep", 1, "--keep-ttl");
    check_completion("help pers", 1, "persist");
    check_completion("nope --x", 0, NULL);
    check_completion("get k", 0, NULL); /* no connection, no keys */
    check_completion("get \"unclosed", 0, NULL);
    check_completion("queue ta", 1, "take");
    check_completion("queue ", 10, "put");
    check_completion("queue list mail l", 2, "leased");
    check_completion("queue take mail l", 0, NULL);
    check_completion("first --k", 1, "--keys");
    check_completion("batc", 0, NULL); /* not at the prompt */
}
END_TEST

START_TEST(candidates_share_their_beginning)
{
    struct completion completion;
    struct cli_context context = {.client = NULL};
    completion_find(&completion, &context, "put k v --i", 11);
    ck_assert_uint_eq(completion.count, 3);
    ck_assert_uint_eq(completion.typed, 3);
    ck_assert_uint_eq(completion_common_bytes(&completion), strlen("--if-"));
    completion_free(&completion);
}
END_TEST

TEST_SUITE(program_command)
{
    TCase *words = tcase_create("words");
    tcase_add_checked_fixture(words, NULL, release);
    tcase_add_test(words, commands_become_operations);
    tcase_add_test(words, words_of_other_stores_get_a_pointer);
    tcase_add_test(words, times_that_are_none_are_explained);
    tcase_add_test(words, people_write_units);
    tcase_add_test(words, what_decides_about_data_is_not_guessed);
    tcase_add_test(words, a_dash_is_a_dash_in_a_line);
    tcase_add_test(words, empty_lines_are_no_commands);
    tcase_add_test(words, bad_commands_are_refused_with_a_sentence);
    suite_add_tcase(suite, words);
    TCase *table = tcase_create("table");
    tcase_add_test(table, every_command_is_complete_in_the_table);
    tcase_add_test(table, help_names_every_command_and_option);
    suite_add_tcase(suite, table);
    TCase *completion = tcase_create("completion");
    tcase_add_test(completion, words_are_completed_by_their_place);
    tcase_add_test(completion, candidates_share_their_beginning);
    suite_add_tcase(suite, completion);
}
