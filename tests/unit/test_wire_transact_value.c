/* transact_value: round trips, and what is refused and why. */
#include "wire/transact_value.h"

#include <check.h>
#include <string.h>

#include "tests/support/test_suite.h"

#define KEY   kv_slice_from_string("key")
#define VALUE kv_slice_from_string("value")

static uint8_t room[256];

START_TEST(transactions_round_trip)
{
    const struct wire_transaction in = {.guards = 1, .then = 120, .otherwise = 7};
    struct wire_transaction out;
    for (size_t bytes = 0; bytes < WIRE_TRANSACTION_FIXED_BYTES; bytes++) {
        struct write_cursor writer = write_cursor(room, bytes);
        ck_assert(!wire_put_transaction(&writer, &in));
        ck_assert(!writer.failed && write_cursor_used(&writer) == 0);
        memset(room, 0, sizeof room);
        struct read_cursor reader = read_cursor(room, bytes);
        ck_assert_int_eq(wire_get_transaction(&reader, &out), KV_BAD_REQUEST);
    }
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_transaction(&writer, &in));
    struct read_cursor reader = read_cursor(room, write_cursor_used(&writer));
    ck_assert_int_eq(wire_get_transaction(&reader, &out), KV_OK);
    ck_assert_uint_eq(read_cursor_left(&reader), 0);
    ck_assert_uint_eq(out.guards, in.guards);
    ck_assert_uint_eq(out.then, in.then);
    ck_assert_uint_eq(out.otherwise, in.otherwise);
}
END_TEST

static enum kv_status transaction_verdict(uint16_t guards, uint16_t then, uint16_t otherwise)
{
    const struct wire_transaction in = {guards, then, otherwise};
    struct wire_transaction out;
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_transaction(&writer, &in));
    struct read_cursor reader = read_cursor(room, write_cursor_used(&writer));
    return wire_get_transaction(&reader, &out);
}

START_TEST(a_transaction_has_a_bounded_number_of_steps)
{
    ck_assert_int_eq(transaction_verdict(0, 0, 0), KV_OK);
    ck_assert_int_eq(transaction_verdict(0, WIRE_MAX_TRANSACTION_STEPS, 0), KV_OK);
    ck_assert_int_eq(transaction_verdict(1, WIRE_MAX_TRANSACTION_STEPS, 0), KV_BAD_REQUEST);
    ck_assert_int_eq(transaction_verdict(0, 64, 65), KV_BAD_REQUEST);
    ck_assert_int_eq(transaction_verdict(UINT16_MAX, UINT16_MAX, UINT16_MAX), KV_BAD_REQUEST);
    for (unsigned i = 6; i < 8; i++) {
        transaction_verdict(0, 0, 0);
        room[i] = 1;
        struct read_cursor reader = read_cursor(room, WIRE_TRANSACTION_FIXED_BYTES);
        struct wire_transaction out;
        ck_assert_int_eq(wire_get_transaction(&reader, &out), KV_UNSUPPORTED);
    }
}
END_TEST

START_TEST(guards_round_trip)
{
    const struct wire_guard in[] = {
        {.kind = WIRE_GUARD_VERSION, .key = KEY, .version = UINT64_MAX},
        {.kind = WIRE_GUARD_VERSION, .key = KEY},
        {.kind = WIRE_GUARD_PRESENT, .key = KEY},
        {.kind = WIRE_GUARD_ABSENT, .key = KEY},
        {.kind = WIRE_GUARD_VALUE, .key = KEY, .value = VALUE},
        {.kind = WIRE_GUARD_VALUE, .key = KEY},
    };
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        struct wire_guard out;
        struct write_cursor writer = write_cursor(room, wire_guard_size(&in[i]) - 1);
        ck_assert(!wire_put_guard(&writer, &in[i]));
        ck_assert(!writer.failed && write_cursor_used(&writer) == 0);
        writer = write_cursor(room, sizeof room);
        ck_assert(wire_put_guard(&writer, &in[i]));
        size_t size = write_cursor_used(&writer);
        ck_assert_uint_eq(size, wire_guard_size(&in[i]));
        struct read_cursor reader = read_cursor(room, size);
        ck_assert_int_eq(wire_get_guard(&reader, &out), KV_OK);
        ck_assert_uint_eq(read_cursor_left(&reader), 0);
        ck_assert_int_eq(out.kind, in[i].kind);
        ck_assert_uint_eq(out.version, in[i].version);
        ck_assert(kv_slice_equal(out.key, in[i].key));
        ck_assert(kv_slice_equal(out.value, in[i].value));
        for (size_t cut = 0; cut < size; cut++) {
            reader = read_cursor(room, cut);
            ck_assert_int_eq(wire_get_guard(&reader, &out), KV_BAD_REQUEST);
        }
    }
}
END_TEST

/* The verdict on a guard by value, with byte `at` of it replaced. */
static enum kv_status verdict_with_byte(unsigned at, uint8_t byte)
{
    const struct wire_guard in = {.kind = WIRE_GUARD_VALUE, .key = KEY, .value = VALUE};
    struct wire_guard out;
    memset(room, 0, sizeof room);
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_guard(&writer, &in));
    room[at] = byte;
    struct read_cursor reader = read_cursor(room, sizeof room);
    return wire_get_guard(&reader, &out);
}

START_TEST(impossible_guards_are_refused)
{
    ck_assert_int_eq(verdict_with_byte(0, WIRE_GUARD_VALUE), KV_OK);
    ck_assert_int_eq(verdict_with_byte(0, 0), KV_UNSUPPORTED);
    ck_assert_int_eq(verdict_with_byte(0, WIRE_GUARD_VALUE + 1), KV_UNSUPPORTED);
    ck_assert_int_eq(verdict_with_byte(0, 255), KV_UNSUPPORTED);
    ck_assert_int_eq(verdict_with_byte(1, 1), KV_UNSUPPORTED);
    ck_assert_int_eq(verdict_with_byte(2, 0), KV_BAD_REQUEST);                  /* no key */
    ck_assert_int_eq(verdict_with_byte(0, WIRE_GUARD_PRESENT), KV_BAD_REQUEST); /* a value */
    ck_assert_int_eq(verdict_with_byte(0, WIRE_GUARD_ABSENT), KV_BAD_REQUEST);
    ck_assert_int_eq(verdict_with_byte(0, WIRE_GUARD_VERSION), KV_BAD_REQUEST);
    ck_assert_int_eq(verdict_with_byte(7, 255), KV_BAD_REQUEST); /* too large a value */
    struct write_cursor writer = write_cursor(room, sizeof room);
    struct wire_guard large = {
        .kind = WIRE_GUARD_VALUE, .key = KEY, .value = kv_slice(room, WIRE_MAX_VALUE_BYTES + 1u)};
    ck_assert(!wire_put_guard(&writer, &large));
    large = (struct wire_guard){.kind = WIRE_GUARD_PRESENT,
                                .key = kv_slice(room, WIRE_MAX_KEY_BYTES + 1u)};
    ck_assert(!wire_put_guard(&writer, &large));
}
END_TEST

START_TEST(steps_are_some_operations_without_conditions)
{
    const struct {
        enum wire_opcode opcode;
        unsigned flags;
    } steps[] = {
        {WIRE_OP_GET, 0},
        {WIRE_OP_EXISTS, 0},
        {WIRE_OP_PUT, WIRE_HAS_EXPIRY | WIRE_KEEP_EXPIRY},
        {WIRE_OP_DELETE, 0},
        {WIRE_OP_ADD, WIRE_HAS_EXPIRY | WIRE_HAS_BOUNDS | WIRE_CREATE | WIRE_CANONICAL},
        {WIRE_OP_APPEND, 0},
        {WIRE_OP_TOUCH, WIRE_HAS_EXPIRY},
    };
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        unsigned known = 0;
        bool is_step = false;
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            if (steps[i].opcode != opcode)
                continue;
            is_step = true;
            known = steps[i].flags;
        }
        for (unsigned bit = 0; bit <= 16; bit++) { /* 16: no flag */
            unsigned flags = bit < 16 ? 1u << bit : 0;
            struct wire_operation in = {.opcode = (enum wire_opcode)opcode,
                                        .flags = (uint16_t)flags,
                                        .key = KEY,
                                        .version = 1,
                                        .max = 1},
                                  out;
            struct write_cursor writer = write_cursor(room, sizeof room);
            ck_assert(wire_put_operation(&writer, &in));
            struct read_cursor reader = read_cursor(room, write_cursor_used(&writer));
            enum kv_status status = wire_get_step(&reader, &out);
            bool good = is_step && !(flags & ~known);
            ck_assert_msg(good ? status == KV_OK : status != KV_OK, "opcode %u, flags 0x%x: %s",
                          opcode, flags, kv_status_name(status));
        }
    }
    struct wire_operation out;
    struct read_cursor reader = read_cursor(room, 3);
    ck_assert_int_eq(wire_get_step(&reader, &out), KV_BAD_REQUEST);
    ck_assert(!wire_step_writes(WIRE_OP_GET) && !wire_step_writes(WIRE_OP_EXISTS));
    ck_assert(wire_step_writes(WIRE_OP_PUT) && wire_step_writes(WIRE_OP_TOUCH));
}
END_TEST

START_TEST(keys_are_found_as_far_as_there_are_any)
{
    const struct wire_transaction counts = {.guards = 1, .then = 1, .otherwise = 1};
    const struct wire_guard guard = {.kind = WIRE_GUARD_PRESENT, .key = KEY};
    const struct wire_operation get = {.opcode = WIRE_OP_GET, .key = kv_slice_from_string("get")};
    const struct wire_operation put = {.opcode = WIRE_OP_PUT, .key = kv_slice_from_string("put")};
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_transaction(&writer, &counts) && wire_put_guard(&writer, &guard) &&
              wire_put_operation(&writer, &get));
    size_t before_put = write_cursor_used(&writer);
    ck_assert(wire_put_operation(&writer, &put));
    struct kv_slice value = kv_slice(room, write_cursor_used(&writer)), key;
    struct wire_transaction_keys keys = wire_keys_of_transaction(value);
    const char *const expected[] = {"key", "get", "put"};
    for (size_t i = 0; i < 3; i++) {
        ck_assert(wire_next_transaction_key(&keys, &key));
        ck_assert(kv_slice_equal(key, kv_slice_from_string(expected[i])));
    }
    ck_assert(!wire_next_transaction_key(&keys, &key));
    ck_assert(wire_transaction_writes(value));

    value.size = before_put; /* cut off */
    keys = wire_keys_of_transaction(value);
    ck_assert(wire_next_transaction_key(&keys, &key) && wire_next_transaction_key(&keys, &key));
    ck_assert(!wire_next_transaction_key(&keys, &key));
    ck_assert(wire_transaction_writes(value)); /* for all that is known */
    store_u16(room + 4, 0);                    /* nothing is missing */
    ck_assert(!wire_transaction_writes(value));

    const struct kv_slice in_segment = kv_slice(NULL, 100);
    keys = wire_keys_of_transaction(in_segment);
    ck_assert(!wire_next_transaction_key(&keys, &key));
    ck_assert(wire_transaction_writes(in_segment));
}
END_TEST

START_TEST(outcomes_round_trip)
{
    const struct wire_outcome in = {
        .otherwise = true, .about = WIRE_ABOUT_STEP, .at = 127, .guard = 3, .results = 128};
    struct wire_outcome out;
    for (size_t bytes = 0; bytes < WIRE_OUTCOME_FIXED_BYTES; bytes++) {
        struct write_cursor writer = write_cursor(room, bytes);
        ck_assert(!wire_put_outcome(&writer, &in));
        ck_assert(!writer.failed && write_cursor_used(&writer) == 0);
        struct read_cursor reader = read_cursor(room, bytes);
        ck_assert_int_eq(wire_get_outcome(&reader, &out), KV_BAD_REQUEST);
    }
    struct write_cursor writer = write_cursor(room, sizeof room);
    ck_assert(wire_put_outcome(&writer, &in));
    struct read_cursor reader = read_cursor(room, write_cursor_used(&writer));
    ck_assert_int_eq(wire_get_outcome(&reader, &out), KV_OK);
    ck_assert(out.otherwise);
    ck_assert_int_eq(out.about, in.about);
    ck_assert_uint_eq(out.at, in.at);
    ck_assert_uint_eq(out.guard, in.guard);
    ck_assert_uint_eq(out.results, in.results);

    const struct {
        unsigned at;
        uint8_t byte;
        enum kv_status status;
    } wrong[] = {{0, 2, KV_UNSUPPORTED}, {1, 3, KV_UNSUPPORTED}, {6, 129, KV_BAD_REQUEST}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        writer = write_cursor(room, sizeof room);
        ck_assert(wire_put_outcome(&writer, &in));
        room[wrong[i].at] = wrong[i].byte;
        reader = read_cursor(room, write_cursor_used(&writer));
        ck_assert_int_eq(wire_get_outcome(&reader, &out), wrong[i].status);
    }
}
END_TEST

TEST_SUITE(wire_transact_value)
{
    TCase *tests = tcase_create("transaction");
    tcase_add_test(tests, transactions_round_trip);
    tcase_add_test(tests, a_transaction_has_a_bounded_number_of_steps);
    tcase_add_test(tests, guards_round_trip);
    tcase_add_test(tests, impossible_guards_are_refused);
    tcase_add_test(tests, steps_are_some_operations_without_conditions);
    tcase_add_test(tests, keys_are_found_as_far_as_there_are_any);
    tcase_add_test(tests, outcomes_round_trip);
    suite_add_tcase(suite, tests);
}
