#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/protocol/resp_request.h"
#include "tests/support/test_suite.h"

static const struct resp_limits usual = {
    .max_argument_bytes = 1024, .max_request_bytes = 4096, .max_arguments = 64};

static struct resp_request request;
static struct byte_buffer input;
static char problem[RESP_PROBLEM_BYTES];

static void begin_reading(void)
{
    request = (struct resp_request){0};
    input = (struct byte_buffer){0};
}

static void end_reading(void)
{
    resp_request_free(&request);
    byte_buffer_free(&input);
}

static void receive(const void *bytes, size_t size)
{
    byte_buffer_append(&input, bytes, size);
}

static void receive_text(const char *text)
{
    receive(text, strlen(text));
}

/* What all requests in the buffer are, as "(word)(word)." each; "!" oversized, "?problem" at the
 * end. Those that were read stay in the buffer. */
static void read_all(char *out)
{
    for (;;) {
        switch (resp_request_next(&request, &input, &usual, problem)) {
        case RESP_REQUEST:
            for (size_t i = 0; i < request.count; i++) {
                struct kv_slice argument = resp_request_argument(&request, &input, i);
                out += sprintf(out, "(%.*s)", (int)argument.size, (const char *)argument.data);
            }
            out += sprintf(out, ".");
            break;
        case RESP_OVERSIZED:
            out += sprintf(out, "!");
            break;
        case RESP_BAD:
            sprintf(out, "?%s", problem);
            return;
        case RESP_INCOMPLETE:
            return;
        }
    }
}

static void check_reads_as(const char *bytes, const char *expected)
{
    char found[1024] = "";
    begin_reading();
    receive_text(bytes);
    read_all(found);
    ck_assert_str_eq(found, expected);
    end_reading();
}

START_TEST(arrays_of_bulks_are_requests)
{
    check_reads_as("*1\r\n$4\r\nPING\r\n", "(PING).");
    check_reads_as("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n", "(GET)(a).(PING).");
    check_reads_as("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n", "(SET)(a)().");
    check_reads_as("*1\r\n$6\r\na\r\nb\r\n\r\n", "(a\r\nb\r\n).");
    check_reads_as("*0\r\n*-1\r\n*-7\r\n*1\r\n$1\r\nx\r\n", "(x).");
}
END_TEST

START_TEST(sizes_of_all_lengths_are_read)
{
    static const size_t sizes[] = {0, 9, 10, 99, 100, 999, 1000, 1024, 1025, 9999, 10000, 12345};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char header[32], *bytes = calloc(1, sizes[i] + 1);
        memset(bytes, 'x', sizes[i]);
        snprintf(header, sizeof header, "*1\r\n$%zu\r\n", sizes[i]);
        begin_reading();
        receive_text(header);
        receive(bytes, sizes[i]);
        receive_text("\r\n*1\r\n$4\r\nPING\r\n");
        bool fits = sizes[i] <= usual.max_argument_bytes;
        ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem),
                         fits ? RESP_REQUEST : RESP_OVERSIZED);
        if (fits)
            ck_assert(kv_slice_equal(resp_request_argument(&request, &input, 0),
                                     kv_slice(bytes, sizes[i])));
        ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem), RESP_REQUEST);
        ck_assert(kv_slice_equal(resp_request_argument(&request, &input, 0),
                                 kv_slice_from_string("PING")));
        free(bytes);
        end_reading();
    }
    check_reads_as("*1\r\n$007\r\n1234567\r\n", "?invalid bulk length");
}
END_TEST

START_TEST(lines_are_inline_commands)
{
    check_reads_as("PING\r\n", "(PING).");
    check_reads_as("PING\n  \r\n\r\n\tset  a\tb \r\n", "(PING).(set)(a)(b).");
    check_reads_as("set \"a b\" 'c d'\r\n", "(set)(a b)(c d).");
    check_reads_as("echo \"\\x41\\n\\\"\\\\\"\n", "(echo)(A\n\"\\).");
    check_reads_as("echo 'it\\'s \\n'\n", "(echo)(it's \\n).");
    check_reads_as("echo \"\"\n", "(echo)().");
    check_reads_as("echo a\"b c\"\n", "(echo)(ab c).");
}
END_TEST

START_TEST(mistakes_end_with_the_words_of_redis)
{
    check_reads_as("*x\r\n", "?invalid multibulk length");
    check_reads_as("*\r\n", "?invalid multibulk length");
    check_reads_as("*65\r\n", "?invalid multibulk length");
    check_reads_as("*1\r\nPING\r\n", "?expected '$', got 'P'");
    check_reads_as("*1\r\n\r\n", "?expected '$', got ' '");
    check_reads_as("*1\r\n$x\r\n", "?invalid bulk length");
    check_reads_as("*1\r\n$-1\r\n", "?invalid bulk length");
    check_reads_as("*1\r\n$536870913\r\n", "?invalid bulk length");
    check_reads_as("set \"a\r\n", "?unbalanced quotes in request");
    check_reads_as("set \"a\"b\r\n", "?unbalanced quotes in request");
    check_reads_as("PING\r\n*x\r\n", "(PING).?invalid multibulk length");
}
END_TEST

static void check_endless(char first, const char *before, const char *expected)
{
    char found[128] = "";
    char *bytes = malloc(RESP_MAX_LINE_BYTES + 2);
    memset(bytes, first, RESP_MAX_LINE_BYTES + 2);
    begin_reading();
    receive_text(before);
    receive(bytes, RESP_MAX_LINE_BYTES + 2);
    free(bytes);
    read_all(found);
    ck_assert_str_eq(found, expected);
    end_reading();
}

START_TEST(lines_without_an_end_are_too_big)
{
    check_endless('x', "", "?too big inline request");
    check_endless('*', "", "?too big mbulk count string");
    check_endless('$', "*1\r\n", "?too big bulk count string");
}
END_TEST

/* Reads `bytes` in two pieces, forgetting what was read between them if `release`. */
static void check_split(const char *bytes, size_t size, size_t at, bool release,
                        const char *expected)
{
    char found[1024] = "";
    begin_reading();
    receive(bytes, at);
    read_all(found);
    if (release)
        resp_request_release(&request, &input);
    receive(bytes + at, size - at);
    read_all(found + strlen(found));
    ck_assert_msg(strcmp(found, expected) == 0, "split at %zu, %s release: %s", at,
                  release ? "with" : "without", found);
    resp_request_release(&request, &input);
    ck_assert_uint_eq(byte_buffer_size(&input), 0);
    end_reading();
}

START_TEST(pipelines_may_be_split_at_every_byte)
{
    static const char bytes[] =
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n1\r\n23\r\nget \"a b\"\r\n*0\r\n\r\n"
        "*2\r\n$3\r\nGET\r\n"
        "$0\r\n\r\n*2\r\n$4\r\nECHO\r\n$1100\r\n";
    static const char end[] = "\r\nPING\r\n";
    static const char expected[] = "(SET)(a)(1\r\n23).(get)(a b).(GET)().!(PING).";
    char all[sizeof bytes + 1100 + sizeof end];
    size_t size = sizeof bytes - 1;
    memcpy(all, bytes, size);
    memset(all + size, '*', 1100);
    size += 1100;
    memcpy(all + size, end, sizeof end - 1);
    size += sizeof end - 1;
    for (size_t at = 0; at <= size; at++) {
        check_split(all, size, at, false, expected);
        check_split(all, size, at, true, expected);
    }
}
END_TEST

START_TEST(pipelines_may_come_byte_by_byte)
{
    static const char bytes[] =
        "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nset a 'b c'\r\n*1\r\n$4\r\nPING\r\n";
    char found[256] = "";
    begin_reading();
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        receive(bytes + i, 1);
        read_all(found + strlen(found));
        resp_request_release(&request, &input);
    }
    ck_assert_str_eq(found, "(GET)(key).(set)(a)(b c).(PING).");
    end_reading();
}
END_TEST

START_TEST(what_is_too_large_is_never_kept)
{
    char piece[512];
    memset(piece, 'x', sizeof piece);
    begin_reading();
    receive_text("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000000\r\n");
    for (size_t sent = 0; sent < 3000000; sent += sizeof piece) {
        receive(piece, sizeof piece);
        ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem), RESP_INCOMPLETE);
        ck_assert_uint_eq(resp_request_missing(&request, &input), 0);
        resp_request_release(&request, &input);
        byte_buffer_compact(&input, 0);
        ck_assert_uint_le(input.capacity, 8192);
    }
    end_reading();
}
END_TEST

START_TEST(many_arguments_are_too_large_together)
{
    char found[64] = "";
    begin_reading();
    receive_text("*8\r\n");
    for (unsigned i = 0; i < 8; i++) {
        char argument[1032];
        int size = snprintf(argument, sizeof argument, "$900\r\n%0900u\r\n", i);
        receive(argument, (size_t)size);
    }
    receive_text("PING\r\n");
    read_all(found);
    ck_assert_str_eq(found, "!(PING).");
    end_reading();
}
END_TEST

START_TEST(strangers_may_ask_for_less)
{
    struct resp_limits limits = {.max_argument_bytes = 1 << 20,
                                 .max_request_bytes = 1 << 21,
                                 .max_arguments = 64,
                                 .unauthenticated = true};
    begin_reading();
    receive_text("*11\r\n");
    ck_assert_int_eq(resp_request_next(&request, &input, &limits, problem), RESP_BAD);
    ck_assert_str_eq(problem, "unauthenticated multibulk length");
    end_reading();
    begin_reading();
    receive_text("*2\r\n$16385\r\n");
    ck_assert_int_eq(resp_request_next(&request, &input, &limits, problem), RESP_BAD);
    ck_assert_str_eq(problem, "unauthenticated bulk length");
    end_reading();
}
END_TEST

START_TEST(a_request_that_is_held_comes_again)
{
    static const char *const pipelines[] = {
        "PING\r\nset 'a b' c\r\nget x\r\n",
        "PING\r\n*3\r\n$3\r\nset\r\n$3\r\na b\r\n$1\r\nc\r\nget x\r\n"};
    for (unsigned i = 0; i < 2; i++) {
        char found[64] = "";
        begin_reading();
        receive_text(pipelines[i]);
        ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem), RESP_REQUEST);
        ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem), RESP_REQUEST);
        resp_request_repeat(&request);
        resp_request_release(&request, &input);
        read_all(found);
        ck_assert_str_eq(found, "(set)(a b)(c).(get)(x).");
        end_reading();
    }
}
END_TEST

START_TEST(so_does_one_that_is_too_large)
{
    char found[64] = "", argument[1101];
    memset(argument, 'x', sizeof argument - 1);
    argument[sizeof argument - 1] = '\0';
    begin_reading();
    receive_text("*2\r\n$3\r\nset\r\n$1100\r\n");
    receive_text(argument);
    receive_text("\r\nPING\r\n");
    ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem), RESP_OVERSIZED);
    resp_request_repeat(&request);
    resp_request_release(&request, &input);
    read_all(found);
    ck_assert_str_eq(found, "!(PING).");
    end_reading();
}
END_TEST

START_TEST(the_missing_bytes_of_a_bulk_are_known)
{
    begin_reading();
    receive_text("*1\r\n$100\r\nabc");
    ck_assert_int_eq(resp_request_next(&request, &input, &usual, problem), RESP_INCOMPLETE);
    ck_assert_uint_eq(resp_request_missing(&request, &input), 99);
    end_reading();
}
END_TEST

TEST_SUITE(kresp_request)
{
    TCase *reading = tcase_create("reading");
    tcase_add_test(reading, arrays_of_bulks_are_requests);
    tcase_add_test(reading, sizes_of_all_lengths_are_read);
    tcase_add_test(reading, lines_are_inline_commands);
    tcase_add_test(reading, mistakes_end_with_the_words_of_redis);
    tcase_add_test(reading, lines_without_an_end_are_too_big);
    suite_add_tcase(suite, reading);
    TCase *pieces = tcase_create("pieces");
    tcase_add_test(pieces, pipelines_may_be_split_at_every_byte);
    tcase_add_test(pieces, pipelines_may_come_byte_by_byte);
    tcase_add_test(pieces, a_request_that_is_held_comes_again);
    tcase_add_test(pieces, so_does_one_that_is_too_large);
    tcase_add_test(pieces, the_missing_bytes_of_a_bulk_are_known);
    suite_add_tcase(suite, pieces);
    TCase *limits = tcase_create("limits");
    tcase_add_test(limits, what_is_too_large_is_never_kept);
    tcase_add_test(limits, many_arguments_are_too_large_together);
    tcase_add_test(limits, strangers_may_ask_for_less);
    suite_add_tcase(suite, limits);
}
