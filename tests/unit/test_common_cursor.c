#include <check.h>

#include "common/memory/cursor.h"
#include "tests/support/test_suite.h"

START_TEST(fields_are_little_endian)
{
    uint8_t memory[14];
    struct write_cursor out = write_cursor(memory, sizeof memory);
    write_u16(&out, 0x0201);
    write_u32(&out, 0x06050403);
    write_u64(&out, 0x0e0d0c0b0a090807);
    ck_assert(!out.failed);
    ck_assert_uint_eq(write_cursor_used(&out), sizeof memory);
    ck_assert_uint_eq(write_cursor_left(&out), 0);
    for (size_t i = 0; i < sizeof memory; i++)
        ck_assert_uint_eq(memory[i], i + 1);

    struct read_cursor in = read_cursor(memory, sizeof memory);
    ck_assert_uint_eq(read_u16(&in), 0x0201);
    ck_assert_uint_eq(read_u32(&in), 0x06050403);
    ck_assert_uint_eq(read_u64(&in), 0x0e0d0c0b0a090807);
    ck_assert(!in.failed);
    ck_assert_uint_eq(read_cursor_left(&in), 0);
}
END_TEST

START_TEST(a_failed_reader_stays_failed_and_gives_zeros)
{
    const uint8_t memory[] = {1, 2, 3, 4, 5};
    struct read_cursor in = read_cursor(memory, sizeof memory);
    ck_assert_uint_eq(read_u32(&in), 0x04030201);
    ck_assert_uint_eq(read_u16(&in), 0);
    ck_assert(in.failed);
    ck_assert_uint_eq(read_u16(&in), 0);
    ck_assert_ptr_null(read_bytes(&in, 1));
    ck_assert_uint_eq(read_slice(&in, 1).size, 0);
    ck_assert(in.failed);
}
END_TEST

START_TEST(sizes_that_would_wrap_fail)
{
    uint8_t memory[8] = {0};
    struct read_cursor in = read_cursor(memory, sizeof memory);
    ck_assert_ptr_null(read_bytes(&in, SIZE_MAX));
    ck_assert(in.failed);
    struct write_cursor out = write_cursor(memory, sizeof memory);
    ck_assert_ptr_null(write_room(&out, SIZE_MAX - 3));
    ck_assert(out.failed);
}
END_TEST

START_TEST(slices_borrow_in_place)
{
    const char text[] = "keyvalue";
    struct read_cursor in = read_cursor(text, 8);
    struct kv_slice key = read_slice(&in, 3);
    struct kv_slice value = read_slice(&in, 5);
    struct kv_slice nothing = read_slice(&in, 0);
    ck_assert(!in.failed);
    ck_assert_ptr_eq(key.data, text);
    ck_assert(kv_slice_equal(value, kv_slice_from_string("value")));
    ck_assert_uint_eq(nothing.size, 0);
}
END_TEST

START_TEST(a_failed_writer_writes_nothing_more)
{
    uint8_t memory[8] = {0};
    struct write_cursor out = write_cursor(memory, 5);
    write_u32(&out, 0xffffffff);
    write_u16(&out, 0xffff);
    ck_assert(out.failed);
    write_u16(&out, 0xffff);
    write_bytes(&out, "x", 1);
    ck_assert_uint_eq(write_cursor_used(&out), 4);
    for (size_t i = 4; i < sizeof memory; i++)
        ck_assert_uint_eq(memory[i], 0);
}
END_TEST

START_TEST(load_and_store_need_no_alignment)
{
    uint8_t memory[9] = {0};
    store_u64(memory + 1, 0x1122334455667788);
    ck_assert_uint_eq(memory[1], 0x88);
    ck_assert_uint_eq(load_u64(memory + 1), 0x1122334455667788);
    ck_assert_uint_eq(load_u32(memory + 3), 0x33445566);
    store_u16(memory + 7, 0xabcd);
    ck_assert_uint_eq(load_u16(memory + 7), 0xabcd);
}
END_TEST

TEST_SUITE(common_cursor)
{
    TCase *tests = tcase_create("cursor");
    tcase_add_test(tests, fields_are_little_endian);
    tcase_add_test(tests, a_failed_reader_stays_failed_and_gives_zeros);
    tcase_add_test(tests, sizes_that_would_wrap_fail);
    tcase_add_test(tests, slices_borrow_in_place);
    tcase_add_test(tests, a_failed_writer_writes_nothing_more);
    tcase_add_test(tests, load_and_store_need_no_alignment);
    suite_add_tcase(suite, tests);
}
