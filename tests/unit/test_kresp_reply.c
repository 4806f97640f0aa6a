#include <check.h>
#include <string.h>

#include "bridges/kresp/protocol/resp_reply.h"
#include "tests/support/test_suite.h"

static struct resp_reply reply;

static void free_reply(void)
{
    byte_buffer_free(&reply.bytes);
    reply = (struct resp_reply){0};
}

static void check_written(const char *expected)
{
    struct kv_slice written = byte_buffer_slice(&reply.bytes);
    ck_assert_uint_eq(written.size, strlen(expected));
    ck_assert_mem_eq(written.data, expected, written.size);
    byte_buffer_consume(&reply.bytes, written.size);
}

START_TEST(both_protocols_have_these)
{
    for (int protocol = 2; protocol <= 3; protocol++) {
        reply.protocol = protocol;
        reply_simple(&reply, "OK");
        check_written("+OK\r\n");
        reply_ok(&reply);
        check_written("+OK\r\n");
        reply_error(&reply, "ERR no '%s'\r\nhere", "x\ny");
        check_written("-ERR no 'x y'  here\r\n");
        reply_integer(&reply, INT64_MIN);
        check_written(":-9223372036854775808\r\n");
        reply_bulk(&reply, kv_slice("a\0b", 3));
        ck_assert_mem_eq(reply.bytes.data, "$3\r\na\0b\r\n", 9);
        byte_buffer_consume(&reply.bytes, 9);
        reply_bulk(&reply, kv_slice(NULL, 0));
        check_written("$0\r\n\r\n");
        reply_array(&reply, 12);
        check_written("*12\r\n");
    }
}
END_TEST

START_TEST(the_second_protocol_has_no_other_types)
{
    reply.protocol = 2;
    reply_null(&reply);
    reply_null_array(&reply);
    reply_map(&reply, 3);
    reply_set(&reply, 3);
    reply_verbatim(&reply, kv_slice_from_string("text"));
    check_written("$-1\r\n*-1\r\n*6\r\n*3\r\n$4\r\ntext\r\n");
}
END_TEST

START_TEST(the_third_protocol_has_types_of_its_own)
{
    reply.protocol = 3;
    reply_null(&reply);
    reply_null_array(&reply);
    reply_map(&reply, 3);
    reply_set(&reply, 3);
    reply_verbatim(&reply, kv_slice_from_string("text"));
    check_written("_\r\n_\r\n%3\r\n~3\r\n=8\r\ntxt:text\r\n");
}
END_TEST

TEST_SUITE(kresp_reply)
{
    TCase *writing = tcase_create("writing");
    tcase_add_checked_fixture(writing, NULL, free_reply);
    tcase_add_test(writing, both_protocols_have_these);
    tcase_add_test(writing, the_second_protocol_has_no_other_types);
    tcase_add_test(writing, the_third_protocol_has_types_of_its_own);
    suite_add_tcase(suite, writing);
}
