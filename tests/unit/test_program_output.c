#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/output.h"
#include "tests/support/printed_output.h"
#include "tests/support/test_suite.h"

#define VALUE(bytes) kv_slice(bytes, sizeof(bytes) - 1)

static struct answer value_answer(struct kv_slice value)
{
    return (struct answer){.command = "get",
                           .key = VALUE("key"),
                           .has_value = true,
                           .value = value,
                           .has_entry = true,
                           .version = 7,
                           .expiry_ms = 0};
}

/* What was printed since the last look. */
static void check_printed(const char *expected, size_t size)
{
    fflush(output.stream);
    ck_assert_msg(printed_bytes == size && memcmp(printed, expected, size) == 0,
                  "expected: %s\ngot:      %.*s", expected, (int)printed_bytes, printed);
    rewind(output.stream);
}
#define PRINTED(text) check_printed(text, sizeof(text) - 1)

static int answer_value(struct kv_slice value)
{
    struct answer answer = value_answer(value);
    return output_answer(&output, &answer);
}

START_TEST(a_line_shows_any_value_in_one_line)
{
    ck_assert_int_eq(answer_value(VALUE("Ada Lovelace")), EXIT_DONE);
    PRINTED("Ada Lovelace\n");
    answer_value(VALUE("caf\xc3\xa9"));
    PRINTED("caf\xc3\xa9\n");
    answer_value(VALUE("two\nlines"));
    PRINTED("\"two\\nlines\"\n");
    answer_value(VALUE("\x1b[31m"));
    PRINTED("\"\\x1b[31m\"\n");
    answer_value(VALUE("\xc2\x9b"));
    PRINTED("\"\\xc2\\x9b\"\n");
    answer_value(VALUE("\xff\0"));
    PRINTED("\"\\xff\\0\"\n");
}
END_TEST

START_TEST(no_value_looks_like_another)
{
    answer_value(VALUE("\"quoted\""));
    PRINTED("\"\\\"quoted\\\"\"\n");
    answer_value(VALUE(""));
    PRINTED("\"\"\n");
    answer_value(VALUE("NOT FOUND"));
    PRINTED("\"NOT FOUND\"\n");
    answer_value(VALUE("ERROR io: none"));
    PRINTED("\"ERROR io: none\"\n");
    answer_value(VALUE("NOT FOUND either"));
    PRINTED("NOT FOUND either\n");
}
END_TEST

START_TEST(one_shot_to_a_pipe_prints_the_bytes_alone)
{
    output.one_shot = true;
    answer_value(VALUE("\xff\0 \n"));
    PRINTED("\xff\0 \n");
    output.terminal = true;
    answer_value(VALUE("two\nlines"));
    PRINTED("two\nlines\n");
    answer_value(VALUE("\xff"));
    PRINTED("\"\\xff\"\n");
}
END_TEST

START_TEST(answers_have_their_words)
{
    struct answer answer = {.command = "put", .key = VALUE("k")};
    ck_assert_int_eq(output_answer(&output, &answer), EXIT_DONE);
    PRINTED("OK\n");
    answer.status = KV_NOT_FOUND;
    ck_assert_int_eq(output_answer(&output, &answer), EXIT_NOT_FOUND);
    PRINTED("NOT FOUND\n");
    answer.status = KV_VALUE_TOO_BIG;
    answer.sentence = "too big";
    ck_assert_int_eq(output_answer(&output, &answer), EXIT_USAGE);
    PRINTED("ERROR value_too_big: too big\n");
    answer = (struct answer){.command = "add", .has_number = true, .number = -3};
    output_answer(&output, &answer);
    PRINTED("-3\n");
}
END_TEST

START_TEST(raw_prints_the_bytes)
{
    output.format = OUTPUT_RAW;
    answer_value(VALUE("\"\xff"));
    PRINTED("\"\xff\n");
    output.one_shot = true;
    answer_value(VALUE("\"\xff"));
    PRINTED("\"\xff");
    struct answer ok = {.command = "put"};
    output_answer(&output, &ok);
    PRINTED("");
}
END_TEST

START_TEST(json_is_one_object_a_line)
{
    output.format = OUTPUT_JSON;
    answer_value(VALUE("a\"b\\\n\xc3\xa9"));
    PRINTED("{\"command\":\"get\",\"key\":\"key\",\"status\":\"ok\","
            "\"value\":\"a\\\"b\\\\\\u000a\xc3\xa9\","
            "\"version\":7,\"expiry_ms\":0}\n");
}
END_TEST

START_TEST(a_list_on_a_terminal_cuts_values)
{
    static char large[100000], seen[1000];
    memset(large, 'x', sizeof large);
    output.terminal = true;
    output_entry(&output, VALUE("k"), kv_slice(large, sizeof large), 3, 0);
    snprintf(seen, sizeof seen, "k %.200s... (100000 bytes)\n", large);
    check_printed(seen, strlen(seen));
    output_entry(&output, VALUE("k"), kv_slice(large, 400), 3, 0);
    snprintf(seen, sizeof seen, "k %.400s\n", large);
    check_printed(seen, strlen(seen));
}
END_TEST

START_TEST(nothing_commands_a_terminal)
{
    output.terminal = true;
    answer_value(VALUE("a\x7f"));
    PRINTED("\"a\\x7f\"\n");
    answer_value(VALUE("\xc2\x85"));
    PRINTED("\"\\xc2\\x85\"\n");
    output_failure(&output, "get", KV_IO,
                   "from \xc2\x9b"
                   "0m");
    PRINTED("ERROR io: from \\xc2\\x9b0m\n");
    output.format = OUTPUT_JSON;
    output_entry(&output, VALUE("k\x7f"), VALUE("\xc2\x9bm"), 3, 0);
    PRINTED("{\"key\":\"k\\u007f\",\"value\":\"\\u009bm\",\"version\":3,\"expiry_ms\":0}\n");
}
END_TEST

START_TEST(json_has_base64_where_there_is_no_text)
{
    output.format = OUTPUT_JSON;
    static const struct {
        const char *bytes;
        size_t size;
        const char *base64; /* by coreutils base64 */
    } samples[] = {{"\xff", 1, "/w=="},
                   {"\xff\xfe", 2, "//4="},
                   {"\xff\xfe\xfd", 3, "//79"},
                   {"\x80\0\x01\x02", 4, "gAABAg=="}};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        char expected[64];
        output_json_bytes(output.stream, "v", kv_slice(samples[i].bytes, samples[i].size));
        int size = snprintf(expected, sizeof expected, "\"v_base64\":\"%s\"", samples[i].base64);
        check_printed(expected, (size_t)size);
    }
}
END_TEST

START_TEST(json_tells_failures)
{
    output.format = OUTPUT_JSON;
    output_failure(&output, "get", KV_TIMEOUT, "say \"when\"");
    PRINTED("{\"command\":\"get\",\"status\":\"timeout\",\"error\":\"say \\\"when\\\"\"}\n");
}
END_TEST

START_TEST(csv_has_one_header_and_quotes_what_needs_it)
{
    output.format = OUTPUT_CSV;
    answer_value(VALUE("a,b\"c\n"));
    PRINTED("command,key,status,value,number,version,expiry_ms,error\n"
            "get,key,ok,\"a,b\"\"c\n\",,7,0,\n");
    answer_value(VALUE("a\tb\\"));
    PRINTED("get,key,ok,\"a\tb\\\",,7,0,\n");
    answer_value(VALUE("\xff\t\r"));
    PRINTED("get,key,ok,\"\\xff\\t\\r\",,7,0,\n");
    answer_value(VALUE("x"));
    PRINTED("get,key,ok,x,,7,0,\n");
    output_failure(&output, "get", KV_NOT_FOUND, NULL);
    PRINTED("get,,not_found,,,,,key not found\n");
}
END_TEST

START_TEST(entries_are_lines_that_could_be_typed)
{
    output_entry(&output, VALUE("k 1"), VALUE("v\0"), 3, 0);
    PRINTED("\"k 1\" \"v\\0\"\n");
    output_entry(&output, VALUE("k1"), kv_slice(NULL, 0), 3, 0);
    PRINTED("k1\n");
    output.format = OUTPUT_JSON;
    output_entry(&output, VALUE("k"), VALUE(""), 3, 9);
    PRINTED("{\"key\":\"k\",\"value\":\"\",\"version\":3,\"expiry_ms\":9}\n");
    output.format = OUTPUT_CSV;
    output_entry(&output, VALUE("k"), VALUE("v"), 3, 9);
    PRINTED("key,value,version,expiry_ms\nk,v,3,9\n");
    struct answer answer = {.command = "put", .key = VALUE("k")};
    output_answer(&output, &answer);
    PRINTED("command,key,status,value,number,version,expiry_ms,error\nput,k,ok,,,,,\n");
}
END_TEST

START_TEST(batches_report_failures_with_their_place)
{
    char *reports = NULL;
    size_t reports_bytes = 0;
    output.reports = open_memstream(&reports, &reports_bytes);
    output.place = "file:3";
    struct answer answer = {.command = "incr", .key = VALUE("k k"), .status = KV_NOT_A_NUMBER};
    ck_assert_int_eq(output_answer(&output, &answer), EXIT_NOT_FOUND);
    PRINTED("ERROR not_a_number: the value is not a decimal integer\n");
    output_failure(&output, NULL, KV_USAGE, "what?");
    PRINTED("ERROR usage: what?\n");
    output_failure(&output, "get", KV_NOT_FOUND, NULL); /* an answer, no failure */
    PRINTED("NOT FOUND\n");
    output.terminal = true; /* both would stand on one screen */
    output_failure(&output, NULL, KV_USAGE, "again");
    PRINTED("");
    fclose(output.reports);
    ck_assert_str_eq(reports, "clientk: file:3: incr \"k k\": the value is not a decimal integer\n"
                              "clientk: file:3: what?\n"
                              "clientk: file:3: again\n");
    free(reports);
}
END_TEST

START_TEST(entries_have_their_header_once)
{
    output.format = OUTPUT_CSV;
    output_begin_entries(&output);
    output_entry(&output, VALUE("k"), VALUE("v"), 1, 0);
    output_begin_entries(&output);
    PRINTED("key,value,version,expiry_ms\nk,v,1,0\n");
}
END_TEST

START_TEST(a_transfer_ends_where_nothing_more_is_taken)
{
    static const enum kv_status ends[] = {KV_NO_SERVER, KV_TIMEOUT,     KV_NO_SPACE,  KV_READ_ONLY,
                                          KV_NO_MEMORY, KV_NOT_DURABLE, KV_OVERLOADED};
    static const enum kv_status goes_on[] = {KV_OK,      KV_EXISTS, KV_VALUE_TOO_BIG, KV_BAD_KEY,
                                             KV_CROWDED, KV_FULL,   KV_QUOTA};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        ck_assert_msg(status_ends_transfer(ends[i]), "goes on after %d", (int)ends[i]);
    for (size_t i = 0; i < sizeof goes_on / sizeof goes_on[0]; i++)
        ck_assert_msg(!status_ends_transfer(goes_on[i]), "ends after %d", (int)goes_on[i]);
}
END_TEST

START_TEST(a_store_without_room_for_one_entry_may_have_it_for_others)
{
    for (int status = 0; status < KV_STATUS_COUNT; status++)
        ck_assert(status_lacks_room((enum kv_status)status) ==
                  (status == KV_FULL || status == KV_QUOTA));
}
END_TEST

START_TEST(every_status_has_an_exit_code)
{
    for (int status = 0; status < KV_STATUS_COUNT; status++) {
        int code = exit_code_of((enum kv_status)status);
        ck_assert_int_ge(code, EXIT_DONE);
        ck_assert_int_le(code, EXIT_REFUSED);
        ck_assert((code == EXIT_DONE) == (status == KV_OK));
    }
    ck_assert_int_eq(exit_code_of(KV_NOT_FOUND), EXIT_NOT_FOUND);
    ck_assert_int_eq(exit_code_of(KV_OUT_OF_BOUNDS), EXIT_NOT_FOUND);
    ck_assert_int_eq(exit_code_of(KV_USAGE), EXIT_USAGE);
    ck_assert_int_eq(exit_code_of(KV_VALUE_TOO_BIG), EXIT_USAGE);
    ck_assert_int_eq(transfer_exit_code(KV_VALUE_TOO_BIG), EXIT_REFUSED);
    ck_assert_int_eq(transfer_exit_code(KV_NO_SERVER), EXIT_NO_SERVER);
    ck_assert_int_eq(exit_code_of(KV_NO_SERVER), EXIT_NO_SERVER);
    ck_assert_int_eq(exit_code_of(KV_TIMEOUT), EXIT_NO_SERVER);
    ck_assert_int_eq(exit_code_of(KV_DENIED), EXIT_REFUSED);
}
END_TEST

TEST_SUITE(program_output)
{
    TCase *answers = tcase_create("answers");
    printed_output_case_add(answers);
    tcase_add_test(answers, a_line_shows_any_value_in_one_line);
    tcase_add_test(answers, no_value_looks_like_another);
    tcase_add_test(answers, one_shot_to_a_pipe_prints_the_bytes_alone);
    tcase_add_test(answers, answers_have_their_words);
    tcase_add_test(answers, raw_prints_the_bytes);
    tcase_add_test(answers, json_is_one_object_a_line);
    tcase_add_test(answers, a_list_on_a_terminal_cuts_values);
    tcase_add_test(answers, nothing_commands_a_terminal);
    tcase_add_test(answers, json_has_base64_where_there_is_no_text);
    tcase_add_test(answers, json_tells_failures);
    tcase_add_test(answers, csv_has_one_header_and_quotes_what_needs_it);
    tcase_add_test(answers, entries_are_lines_that_could_be_typed);
    tcase_add_test(answers, batches_report_failures_with_their_place);
    tcase_add_test(answers, entries_have_their_header_once);
    tcase_add_test(answers, a_transfer_ends_where_nothing_more_is_taken);
    tcase_add_test(answers, a_store_without_room_for_one_entry_may_have_it_for_others);
    tcase_add_test(answers, every_status_has_an_exit_code);
    suite_add_tcase(suite, answers);
}
