#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "tests/support/test_suite.h"

START_TEST(bytes_come_out_as_they_went_in)
{
    struct byte_buffer buffer = {0};
    for (unsigned i = 0; i < 1000; i++)
        byte_buffer_append(&buffer, "0123456789", 10);
    byte_buffer_consume(&buffer, 9995);
    ck_assert_uint_eq(byte_buffer_size(&buffer), 5);
    ck_assert_mem_eq(byte_buffer_slice(&buffer).data, "56789", 5);
    byte_buffer_compact(&buffer, 1024);
    ck_assert_uint_eq(buffer.start, 0);
    ck_assert_uint_eq(buffer.capacity, 1024);
    ck_assert_mem_eq(buffer.data, "56789", 5);
    byte_buffer_consume(&buffer, 5);
    ck_assert_uint_eq(buffer.end, 0);
    byte_buffer_free(&buffer);
    ck_assert_uint_eq(byte_buffer_total(), 0);
}
END_TEST

START_TEST(the_budget_holds_for_all_together)
{
    struct byte_buffer first = {0}, second = {0};
    byte_buffer_set_budget(100000, false);
    ck_assert(byte_buffer_grow(&first, 60000));
    ck_assert(!byte_buffer_grow(&second, 60000));
    ck_assert(second.failed);
    byte_buffer_append(&second, "x", 1);
    ck_assert_uint_eq(byte_buffer_size(&second), 0);
    byte_buffer_free(&first);
    byte_buffer_free(&second);
    ck_assert(byte_buffer_grow(&second, 60000));
    ck_assert_uint_le(byte_buffer_total(), 100000);
    byte_buffer_free(&second);
    ck_assert_uint_eq(byte_buffer_total(), 0);
}
END_TEST

START_TEST(an_owner_leaves_something_to_others)
{
    struct buffer_owner greedy = {0}, other = {0};
    struct byte_buffer first = {.owner = &greedy}, second = {.owner = &other};
    byte_buffer_set_budget(100000, true);
    ck_assert(!byte_buffer_is_short(&second));
    ck_assert(byte_buffer_grow(&first, 75000));
    ck_assert(byte_buffer_is_short(&first));
    ck_assert(!byte_buffer_grow(&first, 76000));
    ck_assert_uint_eq(greedy.bytes, 75000);
    ck_assert(!byte_buffer_grow(&second, 20000));
    second.failed = false;
    ck_assert(byte_buffer_grow(&second, 15000));
    byte_buffer_free(&first);
    ck_assert_uint_eq(greedy.bytes, 0);
    ck_assert_ptr_eq(first.owner, &greedy);
    ck_assert_msg(byte_buffer_grow(&second, 60000), "what is free again may be had");
    byte_buffer_free(&second);
    byte_buffer_set_budget(100000, false);
    ck_assert_msg(byte_buffer_grow(&first, 100000), "an owner who is alone has all");
    byte_buffer_free(&first);
    ck_assert_uint_eq(byte_buffer_total(), 0);
}
END_TEST

TEST_SUITE(kresp_buffer)
{
    TCase *bytes = tcase_create("bytes");
    tcase_add_test(bytes, bytes_come_out_as_they_went_in);
    tcase_add_test(bytes, the_budget_holds_for_all_together);
    tcase_add_test(bytes, an_owner_leaves_something_to_others);
    suite_add_tcase(suite, bytes);
}
