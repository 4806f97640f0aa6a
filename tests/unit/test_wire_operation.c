/* operation: round trips, what is refused and why. */
#include <check.h>
#include <stdlib.h>

#include "tests/support/wire_samples.h"
#include "tests/support/test_suite.h"
#include "wire/operation.h"

#define SEED   20261120
#define ROUNDS 500

static void assert_same_operation(const struct wire_operation *in, const struct wire_operation *out)
{
    ck_assert_uint_eq(out->opcode, in->opcode);
    ck_assert_uint_eq(out->flags, in->flags);
    ck_assert(kv_slice_equal(out->key, in->key));
    if (in->flags & WIRE_VALUE_IN_SEGMENT) {
        ck_assert_ptr_null(out->value.data);
        ck_assert_uint_eq(out->value.size, in->value.size);
    } else {
        ck_assert(kv_slice_equal(out->value, in->value));
    }
    ck_assert_uint_eq(out->value_offset, in->value_offset);
    ck_assert_uint_eq(out->expiry_ms, in->expiry_ms);
    ck_assert_uint_eq(out->version, in->version);
    ck_assert_int_eq(out->delta, in->delta);
    ck_assert_int_eq(out->min, in->min);
    ck_assert_int_eq(out->max, in->max);
    ck_assert_int_eq(out->initial, in->initial);
    ck_assert_uint_eq(out->cursor, in->cursor);
    ck_assert_uint_eq(out->limit, in->limit);
}

START_TEST(operations_round_trip)
{
    struct random_state random;
    random_seed(&random, SEED + (unsigned)_i);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct wire_sample_bytes bytes;
        struct wire_operation in = wire_sample_operation(&random, (enum wire_opcode)_i, &bytes);
        struct wire_operation out;
        uint8_t message[256];
        struct write_cursor writer = write_cursor(message, sizeof message);
        ck_assert(wire_put_operation(&writer, &in));
        ck_assert_uint_eq(write_cursor_used(&writer), wire_operation_size(&in));
        struct read_cursor reader = read_cursor(message, write_cursor_used(&writer));
        ck_assert_int_eq(wire_get_operation(&reader, &out), KV_OK);
        ck_assert_uint_eq(read_cursor_left(&reader), 0);
        assert_same_operation(&in, &out);
    }
}
END_TEST

START_TEST(operation_that_does_not_fit_writes_nothing)
{
    struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                 .key = kv_slice_from_string("key"),
                                 .value = kv_slice_from_string("value")};
    uint8_t message[64] = {0};
    for (size_t room = 0; room < wire_operation_size(&put); room++) {
        struct write_cursor writer = write_cursor(message, room);
        ck_assert(!wire_put_operation(&writer, &put));
        ck_assert_uint_eq(write_cursor_used(&writer), 0);
        ck_assert(!writer.failed); /* a smaller one may still fit */
    }
}
END_TEST

START_TEST(sizes_beyond_the_protocol_are_not_encoded)
{
    uint8_t message[64];
    struct write_cursor writer = write_cursor(message, sizeof message);
    struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                 .flags = WIRE_VALUE_IN_SEGMENT,
                                 .key = kv_slice_from_string("key"),
                                 .value = kv_slice(NULL, WIRE_MAX_VALUE_BYTES + 1u)};
    ck_assert(!wire_put_operation(&writer, &put));
    put.value.size = WIRE_MAX_VALUE_BYTES;
    put.key = kv_slice(message, WIRE_MAX_KEY_BYTES + 1u);
    ck_assert(!wire_put_operation(&writer, &put));
    put.key.size = 1;
    ck_assert(wire_put_operation(&writer, &put));
    struct wire_operation transact = {
        .opcode = WIRE_OP_TRANSACT,
        .flags = WIRE_VALUE_IN_SEGMENT,
        .value = kv_slice(NULL, WIRE_MAX_VALUE_BYTES + WIRE_TRANSACT_EXTRA_BYTES + 1u)};
    ck_assert(!wire_put_operation(&writer, &transact));
    transact.value.size--;
    ck_assert(wire_put_operation(&writer, &transact));
}
END_TEST

/* Encodes what wire_put_operation lets pass and gives the decoder's verdict. */
static enum kv_status verdict(struct wire_operation operation)
{
    uint8_t message[128];
    struct write_cursor writer = write_cursor(message, sizeof message);
    ck_assert(wire_put_operation(&writer, &operation));
    struct read_cursor reader = read_cursor(message, write_cursor_used(&writer));
    struct wire_operation out;
    return wire_get_operation(&reader, &out);
}

#define KEY   kv_slice_from_string("k")
#define VALUE kv_slice_from_string("v")

START_TEST(key_is_there_exactly_where_it_belongs)
{
    for (unsigned opcode = WIRE_OP_GET; opcode < WIRE_OPCODES; opcode++) {
        bool optional = opcode == WIRE_OP_SCAN || opcode == WIRE_OP_STATS ||
                        opcode == WIRE_OP_WATCH || wire_is_range((enum wire_opcode)opcode);
        bool none = wire_sample_has_no_key((enum wire_opcode)opcode);
        struct wire_operation operation = {.opcode = (enum wire_opcode)opcode};
        ck_assert_int_eq(verdict(operation), optional || none ? KV_OK : KV_BAD_REQUEST);
        operation.key = KEY;
        ck_assert_int_eq(verdict(operation), none ? KV_BAD_REQUEST : KV_OK);
    }
}
END_TEST

START_TEST(value_is_there_only_where_it_belongs)
{
    for (unsigned opcode = WIRE_OP_GET; opcode < WIRE_OPCODES; opcode++) {
        bool takes_value = opcode == WIRE_OP_PUT || opcode == WIRE_OP_APPEND ||
                           opcode == WIRE_OP_EXCHANGE || opcode == WIRE_OP_PING ||
                           opcode == WIRE_OP_ADMIN || opcode == WIRE_OP_WATCH ||
                           opcode == WIRE_OP_TRANSACT || wire_is_range((enum wire_opcode)opcode);
        struct wire_operation operation = {.opcode = (enum wire_opcode)opcode, .value = VALUE};
        if (!wire_sample_has_no_key(operation.opcode))
            operation.key = KEY;
        ck_assert_int_eq(verdict(operation), takes_value ? KV_OK : KV_BAD_REQUEST);
    }
}
END_TEST

START_TEST(each_operation_takes_its_own_flags_only)
{
    struct {
        enum wire_opcode opcode;
        unsigned flags;
    } allowed[] = {
        {WIRE_OP_GET, 0},
        {WIRE_OP_EXISTS, 0},
        {WIRE_OP_PUT, WIRE_HAS_EXPIRY | WIRE_HAS_VERSION | WIRE_IF_ABSENT | WIRE_IF_PRESENT |
                          WIRE_KEEP_EXPIRY | WIRE_VALUE_IN_SEGMENT | WIRE_SYNC_INTERVAL |
                          WIRE_SYNC_ALWAYS | WIRE_GIVE_VERSION},
        {WIRE_OP_DELETE, WIRE_HAS_VERSION | WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS},
        {WIRE_OP_ADD, WIRE_HAS_EXPIRY | WIRE_HAS_BOUNDS | WIRE_CREATE | WIRE_CANONICAL |
                          WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS},
        {WIRE_OP_APPEND, WIRE_VALUE_IN_SEGMENT | WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS},
        {WIRE_OP_EXCHANGE, WIRE_HAS_EXPIRY | WIRE_HAS_VERSION | WIRE_IF_ABSENT | WIRE_IF_PRESENT |
                               WIRE_KEEP_EXPIRY | WIRE_VALUE_IN_SEGMENT | WIRE_SYNC_INTERVAL |
                               WIRE_SYNC_ALWAYS},
        {WIRE_OP_TOUCH, WIRE_HAS_EXPIRY | WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS},
        {WIRE_OP_SCAN, WIRE_KEYS_ONLY | WIRE_ATOMIC},
        {WIRE_OP_STATS, 0},
        {WIRE_OP_PING, WIRE_VALUE_IN_SEGMENT},
        {WIRE_OP_SYNC, 0},
        {WIRE_OP_BACKUP, 0},
        {WIRE_OP_ADMIN, WIRE_VALUE_IN_SEGMENT},
        {WIRE_OP_WATCH, WIRE_KEYS_ONLY | WIRE_VALUE_IN_SEGMENT | WIRE_TELL_TRANSACTIONS},
        {WIRE_OP_TRANSACT, WIRE_VALUE_IN_SEGMENT | WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS},
        {WIRE_OP_RANGE, WIRE_KEYS_ONLY | WIRE_ATOMIC | WIRE_VALUE_IN_SEGMENT},
        {WIRE_OP_RANGE_COUNT, WIRE_VALUE_IN_SEGMENT},
        {WIRE_OP_RANGE_DELETE, WIRE_VALUE_IN_SEGMENT | WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS},
    };
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        for (unsigned bit = 0; bit < 16; bit++) {
            struct wire_operation operation = {.opcode = allowed[i].opcode,
                                               .flags = (uint16_t)(1u << bit),
                                               .version = 1,
                                               .max = 1};
            if (!wire_sample_has_no_key(operation.opcode))
                operation.key = KEY;
            bool good = allowed[i].flags & (1u << bit);
            ck_assert_msg(verdict(operation) == (good ? KV_OK : KV_UNSUPPORTED),
                          "opcode %u flag %u", allowed[i].opcode, bit);
        }
    }
}
END_TEST

START_TEST(contradictions_are_refused)
{
    static const unsigned pairs[] = {
        WIRE_IF_ABSENT | WIRE_IF_PRESENT,      WIRE_IF_ABSENT | WIRE_HAS_VERSION,
        WIRE_IF_PRESENT | WIRE_HAS_VERSION,    WIRE_HAS_EXPIRY | WIRE_KEEP_EXPIRY,
        WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS, WIRE_HAS_VERSION | WIRE_GIVE_VERSION,
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                     .flags = (uint16_t)pairs[i],
                                     .key = KEY,
                                     .value = VALUE,
                                     .version = 1};
        ck_assert_msg(verdict(put) == KV_BAD_REQUEST, "flags 0x%x", pairs[i]);
    }
    /* if-version 0 would mean "whatever the version": the opposite of a condition. */
    struct wire_operation delete = {
        .opcode = WIRE_OP_DELETE, .flags = WIRE_HAS_VERSION, .key = KEY};
    ck_assert_int_eq(verdict(delete), KV_BAD_REQUEST);
    struct wire_operation add = {
        .opcode = WIRE_OP_ADD, .flags = WIRE_HAS_BOUNDS, .key = KEY, .min = 2, .max = 1};
    ck_assert_int_eq(verdict(add), KV_BAD_REQUEST);
    add.max = 2;
    ck_assert_int_eq(verdict(add), KV_OK);
}
END_TEST

START_TEST(reserved_bytes_and_unknown_opcodes_are_unsupported)
{
    uint8_t message[16];
    struct wire_operation ping = {.opcode = WIRE_OP_PING}, out;
    const size_t reserved[] = {1, 6, 7};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        struct write_cursor writer = write_cursor(message, sizeof message);
        ck_assert(wire_put_operation(&writer, &ping));
        message[reserved[i]] = 1;
        struct read_cursor reader = read_cursor(message, write_cursor_used(&writer));
        ck_assert_int_eq(wire_get_operation(&reader, &out), KV_UNSUPPORTED);
    }
    for (unsigned opcode = WIRE_OPCODES; opcode <= 256; opcode++) {
        struct write_cursor writer = write_cursor(message, sizeof message);
        ck_assert(wire_put_operation(&writer, &ping));
        message[0] = (uint8_t)opcode; /* 256: 0 */
        struct read_cursor reader = read_cursor(message, write_cursor_used(&writer));
        ck_assert_int_eq(wire_get_operation(&reader, &out), KV_UNSUPPORTED);
    }
}
END_TEST

START_TEST(results_round_trip)
{
    struct random_state random;
    random_seed(&random, SEED);
    for (unsigned round = 0; round < ROUNDS * 4; round++) {
        struct wire_sample_bytes bytes;
        struct wire_result in = wire_sample_result(&random, &bytes), out;
        uint8_t message[128];
        struct write_cursor writer = write_cursor(message, sizeof message);
        ck_assert(wire_put_result(&writer, &in));
        ck_assert_uint_eq(write_cursor_used(&writer), wire_result_size(&in));
        struct read_cursor reader = read_cursor(message, write_cursor_used(&writer));
        ck_assert_int_eq(wire_get_result(&reader, &out), KV_OK);
        ck_assert_uint_eq(read_cursor_left(&reader), 0);
        ck_assert_uint_eq(out.status, in.status);
        ck_assert_uint_eq(out.flags, in.flags);
        ck_assert_uint_eq(out.version, in.version);
        ck_assert_uint_eq(out.expiry_ms, in.expiry_ms);
        ck_assert_int_eq(out.number, in.number);
        ck_assert_uint_eq(out.value_offset, in.value_offset);
        ck_assert_uint_eq(out.value.size, in.value.size);
        if (in.value.data)
            ck_assert(kv_slice_equal(out.value, in.value));
    }
}
END_TEST

START_TEST(result_fields_leave_room_for_the_value)
{
    uint8_t whole[64], fragments[64];
    struct wire_result result = {.status = KV_OK,
                                 .flags = WIRE_RESULT_HAS_VERSION | WIRE_RESULT_HAS_EXPIRY |
                                          WIRE_RESULT_HAS_NUMBER,
                                 .version = 3,
                                 .expiry_ms = 4,
                                 .number = -5,
                                 .value = VALUE};
    struct write_cursor writer = write_cursor(whole, sizeof whole);
    ck_assert(wire_put_result(&writer, &result));
    size_t size = write_cursor_used(&writer);
    writer = write_cursor(fragments, sizeof fragments);
    ck_assert(wire_put_result_fields(&writer, &result));
    ck_assert_uint_eq(write_cursor_used(&writer), WIRE_RESULT_MAX_FIELD_BYTES);
    memcpy(write_room(&writer, result.value.size), result.value.data, result.value.size);
    ck_assert_uint_eq(write_cursor_used(&writer), size);
    ck_assert_mem_eq(whole, fragments, size);

    writer = write_cursor(fragments, WIRE_RESULT_MAX_FIELD_BYTES - 1);
    ck_assert(!wire_put_result_fields(&writer, &result));
    ck_assert_uint_eq(write_cursor_used(&writer), 0);
}
END_TEST

START_TEST(impossible_results_are_refused)
{
    uint8_t message[16] = {0};
    struct wire_result out;
    store_u16(message + 2, WIRE_RESULT_IN_SEGMENT | WIRE_RESULT_NO_VALUE);
    struct read_cursor reader = read_cursor(message, sizeof message);
    ck_assert_int_eq(wire_get_result(&reader, &out), KV_BAD_REQUEST);
    store_u16(message + 2, 0x8000);
    reader = read_cursor(message, sizeof message);
    ck_assert_int_eq(wire_get_result(&reader, &out), KV_UNSUPPORTED);
    store_u16(message + 2, 0);
    store_u32(message + 4, UINT32_MAX);
    reader = read_cursor(message, sizeof message);
    ck_assert_int_eq(wire_get_result(&reader, &out), KV_BAD_REQUEST);
}
END_TEST

START_TEST(scan_entries_round_trip)
{
    struct random_state random;
    random_seed(&random, SEED);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct wire_sample_bytes bytes;
        struct wire_scan_entry in = wire_sample_entry(&random, &bytes), out;
        uint8_t message[128];
        struct write_cursor writer = write_cursor(message, sizeof message);
        ck_assert(wire_put_scan_entry(&writer, &in));
        ck_assert_uint_eq(write_cursor_used(&writer), wire_scan_entry_size(&in));
        struct write_cursor tight = write_cursor(message + 64, wire_scan_entry_size(&in) - 1);
        if (wire_scan_entry_size(&in) <= 64)
            ck_assert(!wire_put_scan_entry(&tight, &in));
        struct read_cursor reader = read_cursor(message, write_cursor_used(&writer));
        ck_assert_int_eq(wire_get_scan_entry(&reader, &out), KV_OK);
        ck_assert_uint_eq(read_cursor_left(&reader), 0);
        ck_assert(kv_slice_equal(out.key, in.key));
        ck_assert(kv_slice_equal(out.value, in.value));
        ck_assert_uint_eq(out.version, in.version);
        ck_assert_uint_eq(out.expiry_ms, in.expiry_ms);
    }
}
END_TEST

TEST_SUITE(wire_operation)
{
    TCase *operations = tcase_create("operations");
    tcase_add_loop_test(operations, operations_round_trip, WIRE_OP_GET, WIRE_OPCODES);
    tcase_add_test(operations, operation_that_does_not_fit_writes_nothing);
    tcase_add_test(operations, sizes_beyond_the_protocol_are_not_encoded);
    tcase_add_test(operations, key_is_there_exactly_where_it_belongs);
    tcase_add_test(operations, value_is_there_only_where_it_belongs);
    tcase_add_test(operations, each_operation_takes_its_own_flags_only);
    tcase_add_test(operations, contradictions_are_refused);
    tcase_add_test(operations, reserved_bytes_and_unknown_opcodes_are_unsupported);
    suite_add_tcase(suite, operations);
    TCase *results = tcase_create("results");
    tcase_add_test(results, results_round_trip);
    tcase_add_test(results, result_fields_leave_room_for_the_value);
    tcase_add_test(results, impossible_results_are_refused);
    tcase_add_test(results, scan_entries_round_trip);
    suite_add_tcase(suite, results);
}
