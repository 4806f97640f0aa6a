/* range_value: round trips, and what is refused and why. */
#include "wire/range_value.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_suite.h"

static uint8_t room[256];

START_TEST(bounds_round_trip)
{
    const struct wire_range_bounds in = {.limit = 7,
                                         .way = WIRE_RANGE_REVERSE | WIRE_RANGE_BEHIND,
                                         .to = kv_slice("to\0\xff", 4),
                                         .prefix = kv_slice_from_string("t")};
    struct wire_range_bounds out;
    size_t size = wire_range_bounds_size(&in);
    for (size_t bytes = 0; bytes < size; bytes++) {
        struct write_cursor writer = write_cursor(room, bytes);
        ck_assert(!wire_put_range_bounds(&writer, &in));
        ck_assert(!writer.failed && write_cursor_used(&writer) == 0);
    }
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_range_bounds(&writer, &in));
    ck_assert_uint_eq(write_cursor_used(&writer), size);
    ck_assert_int_eq(wire_get_range_bounds(kv_slice(room, size), &out), KV_OK);
    ck_assert_uint_eq(out.limit, in.limit);
    ck_assert_uint_eq(out.way, in.way);
    ck_assert(kv_slice_equal(out.to, in.to) && kv_slice_equal(out.prefix, in.prefix));
    for (size_t bytes = 0; bytes < size; bytes++)
        ck_assert_int_eq(wire_get_range_bounds(kv_slice(room, bytes), &out), KV_BAD_REQUEST);
    ck_assert_int_eq(wire_get_range_bounds(kv_slice(room, size + 1), &out), KV_BAD_REQUEST);
}
END_TEST

START_TEST(unknown_ways_and_reserved_bytes_are_unsupported)
{
    const struct wire_range_bounds in = {.limit = 1};
    struct wire_range_bounds out;
    for (unsigned bit = 0; bit < 16; bit++) {
        struct write_cursor writer = write_cursor(room, sizeof room);
        ck_assert(wire_put_range_bounds(&writer, &in));
        room[4 + bit / 8] = (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(wire_get_range_bounds(kv_slice(room, WIRE_RANGE_FIXED_BYTES), &out),
                         bit < 2 ? KV_OK : KV_UNSUPPORTED);
        room[4 + bit / 8] = 0;
        room[10 + bit / 8] = (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(wire_get_range_bounds(kv_slice(room, WIRE_RANGE_FIXED_BYTES), &out),
                         KV_UNSUPPORTED);
    }
}
END_TEST

START_TEST(bounds_are_keys_of_any_length)
{
    uint8_t *bytes = malloc(WIRE_RANGE_MAX_BYTES), *key = malloc(WIRE_MAX_KEY_BYTES + 1);
    ck_assert(bytes && key);
    memset(key, 'k', WIRE_MAX_KEY_BYTES + 1);
    struct wire_range_bounds in = {.to = kv_slice(key, WIRE_MAX_KEY_BYTES),
                                   .prefix = kv_slice(key, WIRE_MAX_KEY_BYTES)},
                             out;
    struct write_cursor writer = write_cursor(bytes, WIRE_RANGE_MAX_BYTES);
    ck_assert(wire_put_range_bounds(&writer, &in));
    ck_assert_uint_eq(write_cursor_left(&writer), 0);
    ck_assert_int_eq(wire_get_range_bounds(kv_slice(bytes, WIRE_RANGE_MAX_BYTES), &out), KV_OK);
    ck_assert(kv_slice_equal(out.prefix, in.prefix));
    in.to = kv_slice(NULL, 0);
    in.prefix.size++;
    writer = write_cursor(bytes, WIRE_RANGE_MAX_BYTES);
    ck_assert(!wire_put_range_bounds(&writer, &in));
    free(bytes);
    free(key);
}
END_TEST

START_TEST(an_entry_may_be_a_place_only)
{
    struct wire_scan_entry in = {.key = kv_slice_from_string("here"), .passed = true}, out;
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_scan_entry(&writer, &in));
    struct read_cursor reader = read_cursor(room, write_cursor_used(&writer));
    ck_assert_int_eq(wire_get_scan_entry(&reader, &out), KV_OK);
    ck_assert(out.passed && kv_slice_equal(out.key, in.key));
    room[2] |= 4; /* unknown */
    reader = read_cursor(room, write_cursor_used(&writer));
    ck_assert_int_eq(wire_get_scan_entry(&reader, &out), KV_UNSUPPORTED);
}
END_TEST

START_TEST(numbers_have_a_count_and_a_file)
{
    int64_t number = (int64_t)(UINT64_C(4095) << WIRE_RANGE_FILE_SHIFT | 17);
    ck_assert_uint_eq(wire_range_count(number), 17);
    ck_assert_uint_eq(wire_range_file(number), 4095);
}
END_TEST

TEST_SUITE(wire_range_value)
{
    TCase *values = tcase_create("values");
    tcase_add_test(values, bounds_round_trip);
    tcase_add_test(values, unknown_ways_and_reserved_bytes_are_unsupported);
    tcase_add_test(values, bounds_are_keys_of_any_length);
    tcase_add_test(values, an_entry_may_be_a_place_only);
    tcase_add_test(values, numbers_have_a_count_and_a_file);
    suite_add_tcase(suite, values);
}
