#include "wire/change.h"

#include <check.h>
#include <string.h>

#include "tests/support/test_suite.h"

static uint8_t room[256];

START_TEST(positions_round_trip)
{
    const uint64_t places[] = {4096, 8 * UINT64_C(0xffffffff), UINT64_C(1) << 35};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct wire_position in = {UINT64_MAX - i, UINT64_C(1) << 63, places[i]}, out;
        wire_put_position(room, &in);
        wire_get_position(room, &out);
        ck_assert_uint_eq(out.log, in.log);
        ck_assert_uint_eq(out.version, in.version);
        ck_assert_uint_eq(out.place, in.place);
    }
}
END_TEST

static size_t put(const struct wire_change *change, size_t bytes)
{
    struct write_cursor cursor = write_cursor(room, bytes);
    return wire_put_change(&cursor, change) ? write_cursor_used(&cursor) : 0;
}

START_TEST(changes_round_trip)
{
    const struct wire_change in[] = {
        {.key = kv_slice_from_string("k"),
         .value = kv_slice_from_string("v"),
         .version = 7,
         .place = 4096},
        {.flags = WIRE_CHANGE_DELETED,
         .key = kv_slice_from_string("key"),
         .version = 8,
         .place = 8192},
        {.flags = WIRE_CHANGE_EXPIRED,
         .key = kv_slice_from_string("key"),
         .version = 9,
         .place = 8200,
         .expiry_ms = 12345},
        {.flags = WIRE_CHANGE_GOES_ON,
         .key = kv_slice_from_string("k"),
         .version = 10,
         .place = 8208,
         .transaction = UINT64_MAX,
         .parts = 4096},
        {.key = kv_slice_from_string("k"),
         .value = kv_slice_from_string("v"),
         .version = 11,
         .place = 8216,
         .expiry_ms = 12345,
         .transaction = 1},
    };
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        struct wire_change out;
        size_t size = put(&in[i], sizeof room);
        ck_assert_uint_eq(size, wire_change_size(&in[i]));
        ck_assert_uint_eq(put(&in[i], size - 1), 0);
        struct read_cursor cursor = read_cursor(room, size);
        ck_assert_int_eq(wire_get_change(&cursor, &out), KV_OK);
        ck_assert_uint_eq(out.flags, in[i].flags);
        ck_assert(kv_slice_equal(out.key, in[i].key));
        ck_assert(kv_slice_equal(out.value, in[i].value));
        ck_assert_uint_eq(out.version, in[i].version);
        ck_assert_uint_eq(out.place, in[i].place);
        ck_assert_uint_eq(out.expiry_ms, in[i].expiry_ms);
        ck_assert_uint_eq(out.transaction, in[i].transaction);
        ck_assert_uint_eq(out.parts, in[i].parts);
        for (size_t cut = 0; cut < size; cut++) {
            cursor = read_cursor(room, cut);
            ck_assert_int_ne(wire_get_change(&cursor, &out), KV_OK);
        }
    }
}
END_TEST

START_TEST(unknown_flags_and_empty_keys_are_refused)
{
    struct wire_change change = {.key = kv_slice_from_string("k"), .version = 1, .place = 4096};
    struct wire_change out;
    for (unsigned bit = 0; bit < 16; bit++) {
        size_t size = put(&change, sizeof room);
        memset(room + size, 1, sizeof room - size);
        store_u16(room + 2, (uint16_t)(1u << bit));
        struct read_cursor cursor = read_cursor(room, sizeof room);
        bool known = bit == 1 || (bit >= 6 && bit <= 9);
        ck_assert_int_eq(wire_get_change(&cursor, &out), known ? KV_OK : KV_UNSUPPORTED);
    }
    change.key = kv_slice(NULL, 0);
    size_t size = put(&change, sizeof room);
    struct read_cursor cursor = read_cursor(room, size);
    ck_assert_int_eq(wire_get_change(&cursor, &out), KV_BAD_REQUEST);
}
END_TEST

TEST_SUITE(wire_change)
{
    TCase *tests = tcase_create("change");
    tcase_add_test(tests, positions_round_trip);
    tcase_add_test(tests, changes_round_trip);
    tcase_add_test(tests, unknown_flags_and_empty_keys_are_refused);
    suite_add_tcase(suite, tests);
}
