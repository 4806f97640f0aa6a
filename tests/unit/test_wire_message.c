/* message: headers, bodies of session messages, and whole messages cut short or damaged. */
#include <check.h>
#include <stdlib.h>

#include "tests/support/wire_samples.h"
#include "tests/support/test_suite.h"
#include "wire/message.h"

#define SEED   20261120
#define ROUNDS 200

/* Memory of exactly that size, so that AddressSanitizer sees a byte read behind it. */
static uint8_t *exact_copy(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, size);
    return copy;
}

START_TEST(header_round_trips)
{
    struct random_state random;
    random_seed(&random, SEED);
    for (unsigned kind = WIRE_HELLO; kind <= WIRE_MORE; kind++) {
        uint8_t bytes[WIRE_HEADER_BYTES];
        struct wire_header in = wire_sample_header(&random, (enum wire_kind)kind);
        struct wire_header out;
        struct write_cursor writer = write_cursor(bytes, sizeof bytes);
        wire_put_header(&writer, &in);
        ck_assert(!writer.failed);
        struct read_cursor reader = read_cursor(bytes, sizeof bytes);
        ck_assert_int_eq(wire_get_header(&reader, &out), KV_OK);
        ck_assert_uint_eq(out.kind, in.kind);
        ck_assert_uint_eq(out.status, in.status);
        ck_assert_uint_eq(out.session, in.session);
        ck_assert_uint_eq(out.count, in.count);
        ck_assert_uint_eq(out.request_id, in.request_id);
        ck_assert_uint_eq(out.secret, in.secret);
        ck_assert_uint_eq(out.deadline_ms, in.deadline_ms);
        ck_assert_uint_eq(out.window_offset, in.window_offset);
        ck_assert_uint_eq(out.window_bytes, in.window_bytes);
    }
}
END_TEST

START_TEST(header_without_room_fails_the_cursor)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header = {.kind = WIRE_BYE};
    struct write_cursor writer = write_cursor(bytes, sizeof bytes - 1);
    wire_put_header(&writer, &header);
    ck_assert(writer.failed);
}
END_TEST

/* Writes a good header, sets one byte, reads it back. */
static enum kv_status read_header_with(size_t at, uint8_t value, struct wire_header *out)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header = {
        .kind = WIRE_REQUEST, .session = 7, .request_id = 11, .secret = 13, .count = 1};
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    wire_put_header(&writer, &header);
    bytes[at] = value;
    struct read_cursor reader = read_cursor(bytes, sizeof bytes);
    return wire_get_header(&reader, out);
}

START_TEST(foreign_headers_are_named)
{
    struct wire_header out;
    ck_assert_int_eq(read_header_with(0, 'X', &out), KV_BAD_REQUEST);
    ck_assert_int_eq(read_header_with(4, WIRE_VERSION + 1, &out), KV_UNSUPPORTED);
    /* Enough was read to answer the sender. */
    ck_assert_uint_eq(out.session, 7);
    ck_assert_uint_eq(out.request_id, 11);
    ck_assert_uint_eq(out.secret, 13);
    ck_assert_int_eq(read_header_with(5, 0, &out), KV_UNSUPPORTED);
    ck_assert_int_eq(read_header_with(5, WIRE_MORE + 1, &out), KV_UNSUPPORTED);
    ck_assert_int_eq(read_header_with(14, 2, &out), KV_UNSUPPORTED);
    ck_assert_int_eq(read_header_with(13, 0xff, &out), KV_BAD_REQUEST); /* count */
}
END_TEST

START_TEST(patches_change_one_field)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header = {
        .kind = WIRE_REPLY, .status = KV_OVERLOADED, .session = 5, .request_id = 6};
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    wire_put_header(&writer, &header);
    wire_patch_count(bytes, 300);
    struct read_cursor reader = read_cursor(bytes, sizeof bytes);
    ck_assert_int_eq(wire_get_header(&reader, &header), KV_OK);
    ck_assert_uint_eq(header.count, 300);
    ck_assert_uint_eq(header.status, KV_OVERLOADED);
    ck_assert_uint_eq(header.session, 5);
    ck_assert_uint_eq(header.request_id, 6);
}
END_TEST

START_TEST(hello_round_trips)
{
    uint8_t bytes[256];
    struct wire_hello in = {.nonce = 0x1122334455667788,
                            .pid = 4711,
                            .reply_depth = 4,
                            .threads = 9,
                            .reply_bytes = 8192,
                            .reply_queue = kv_slice_from_string("/serverk.c4711.0")};
    struct wire_hello out;
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    ck_assert(wire_put_hello(&writer, &in));
    struct read_cursor reader = read_cursor(bytes, write_cursor_used(&writer));
    ck_assert_int_eq(wire_get_hello(&reader, &out), KV_OK);
    ck_assert_uint_eq(out.nonce, in.nonce);
    ck_assert_uint_eq(out.pid, in.pid);
    ck_assert_uint_eq(out.reply_depth, in.reply_depth);
    ck_assert_uint_eq(out.threads, in.threads);
    ck_assert_uint_eq(out.reply_bytes, in.reply_bytes);
    ck_assert(kv_slice_equal(out.reply_queue, in.reply_queue));
    ck_assert_uint_eq(out.abilities, 0); /* left out, as older clients do */

    in.abilities = WIRE_HELLO_GUEST_LANES;
    size_t without = write_cursor_used(&writer);
    writer = write_cursor(bytes, sizeof bytes);
    ck_assert(wire_put_hello(&writer, &in));
    ck_assert_uint_eq(write_cursor_used(&writer), without + 2);
    reader = read_cursor(bytes, without + 2);
    ck_assert_int_eq(wire_get_hello(&reader, &out), KV_OK);
    ck_assert_uint_eq(out.abilities, WIRE_HELLO_GUEST_LANES);
    ck_assert(kv_slice_equal(out.reply_queue, in.reply_queue));
}
END_TEST

static enum kv_status hello_status(const struct wire_hello *hello)
{
    uint8_t bytes[512];
    struct wire_hello out;
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    ck_assert(wire_put_hello(&writer, hello));
    struct read_cursor reader = read_cursor(bytes, write_cursor_used(&writer));
    return wire_get_hello(&reader, &out);
}

START_TEST(impossible_hellos_are_refused)
{
    struct wire_hello good = {.pid = 1,
                              .reply_depth = 1,
                              .reply_bytes = WIRE_MIN_REPLY_BYTES,
                              .reply_queue = kv_slice_from_string("/q.c1.0")};
    ck_assert_int_eq(hello_status(&good), KV_OK);
    struct wire_hello bad = good;
    bad.pid = 0;
    ck_assert_int_eq(hello_status(&bad), KV_BAD_REQUEST);
    bad.pid = 0x80000000u; /* would be negative as a pid_t: a process group to kill(2) */
    ck_assert_int_eq(hello_status(&bad), KV_BAD_REQUEST);
    bad = good; /* the server answers that it cannot be had: it must know whom */
    bad.reply_depth = 0;
    bad.reply_bytes = WIRE_MIN_REPLY_BYTES - 1;
    ck_assert_int_eq(hello_status(&bad), KV_OK);
    bad = good;
    bad.reply_queue = kv_slice("/q.c1\0.0", 8);
    ck_assert_int_eq(hello_status(&bad), KV_BAD_REQUEST);

    uint8_t bytes[512];
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    bad.reply_queue = kv_slice(bytes, WIRE_NAME_MAX_BYTES + 1);
    ck_assert(!wire_put_hello(&writer, &bad));
}
END_TEST

START_TEST(welcome_round_trips)
{
    uint8_t bytes[64];
    struct wire_welcome in = {.cookie = 1ull << 63,
                              .instance = 77,
                              .max_value_bytes = 1 << 20,
                              .server_pid = 99,
                              .credits = 4,
                              .lane = 3,
                              .bulk_lane = 1,
                              .flags = WIRE_WELCOME_PRIORITY,
                              .lane_bytes = 1024,
                              .bulk_bytes = 8192};
    struct wire_welcome out;
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    ck_assert(wire_put_welcome(&writer, &in));
    ck_assert_uint_eq(write_cursor_used(&writer), 44);
    struct read_cursor reader = read_cursor(bytes, write_cursor_used(&writer));
    ck_assert_int_eq(wire_get_welcome(&reader, &out), KV_OK);
    ck_assert_uint_eq(out.cookie, in.cookie);
    ck_assert_uint_eq(out.instance, in.instance);
    ck_assert_uint_eq(out.max_value_bytes, in.max_value_bytes);
    ck_assert_uint_eq(out.server_pid, in.server_pid);
    ck_assert_uint_eq(out.credits, in.credits);
    ck_assert_uint_eq(out.lane, in.lane);
    ck_assert_uint_eq(out.bulk_lane, in.bulk_lane);
    ck_assert_uint_eq(out.flags, in.flags);
    ck_assert_uint_eq(out.lane_bytes, in.lane_bytes);
    ck_assert_uint_eq(out.bulk_bytes, in.bulk_bytes);
    ck_assert_uint_eq(out.direct, WIRE_DIRECT_OFF);
}
END_TEST

static struct wire_welcome welcome_again(const struct wire_welcome *in, size_t bytes_less)
{
    uint8_t bytes[WIRE_MIN_REPLY_BYTES - WIRE_HEADER_BYTES];
    struct wire_welcome out;
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    ck_assert(wire_put_welcome(&writer, in));
    struct read_cursor reader = read_cursor(bytes, write_cursor_used(&writer) - bytes_less);
    ck_assert_int_eq(wire_get_welcome(&reader, &out), KV_OK);
    return out;
}

START_TEST(welcome_says_who_may_read_directly)
{
    struct wire_welcome in = {.credits = 1,
                              .lane_bytes = 1024,
                              .direct = WIRE_DIRECT_OFFERED,
                              .store_device = 0x10302,
                              .store_inode = UINT64_MAX};
    struct wire_welcome out = welcome_again(&in, 0);
    ck_assert_uint_eq(out.lane_family, 0);
    ck_assert_uint_eq(out.direct, WIRE_DIRECT_OFFERED);
    ck_assert_uint_eq(out.store_device, 0x10302);
    ck_assert_uint_eq(out.store_inode, UINT64_MAX);

    ck_assert_uint_eq(out.store_number, 0);
    in.store_number = 0x1234567890;
    out = welcome_again(&in, 0);
    ck_assert_uint_eq(out.store_inode, UINT64_MAX);
    ck_assert_uint_eq(out.store_number, 0x1234567890);
    ck_assert_uint_eq(welcome_again(&in, 8).store_number, 0); /* as an older server says it */
    in.store_number = 0;

    out = welcome_again(&in, 1);
    ck_assert_uint_eq(out.direct, WIRE_DIRECT_OFF);
    ck_assert_uint_eq(out.store_inode, 0);
    in.direct = WIRE_DIRECT_OFFERED + 1;
    ck_assert_uint_eq(welcome_again(&in, 0).direct, WIRE_DIRECT_OFF);
    in.direct = WIRE_DIRECT_OTHERS;
    in.lane_family = WIRE_FAMILY_GUESTS;
    out = welcome_again(&in, 0);
    ck_assert_uint_eq(out.lane_family, WIRE_FAMILY_GUESTS);
    ck_assert_uint_eq(out.direct, WIRE_DIRECT_OTHERS);
    ck_assert_uint_eq(out.store_inode, 0);
}
END_TEST

static enum kv_status part_status(const struct wire_part *part, struct wire_part *out)
{
    static uint8_t bytes[64]; /* out borrows from it */
    struct write_cursor writer = write_cursor(bytes, sizeof bytes);
    ck_assert(wire_put_part(&writer, part));
    struct read_cursor reader = read_cursor(bytes, write_cursor_used(&writer));
    return wire_get_part(&reader, out);
}

START_TEST(parts_stay_within_their_whole)
{
    struct wire_part out;
    struct wire_part part = {.total_bytes = 100, .offset = 97, .bytes = kv_slice("abc", 3)};
    ck_assert_int_eq(part_status(&part, &out), KV_OK);
    ck_assert_uint_eq(out.total_bytes, 100);
    ck_assert_uint_eq(out.offset, 97);
    ck_assert(kv_slice_equal(out.bytes, part.bytes));

    part.offset = 98;
    ck_assert_int_eq(part_status(&part, &out), KV_BAD_REQUEST);
    part.offset = UINT32_MAX; /* offset + size overflows 32 bits */
    ck_assert_int_eq(part_status(&part, &out), KV_BAD_REQUEST);
    struct wire_part empty = {.total_bytes = 100, .offset = 0};
    ck_assert_int_eq(part_status(&empty, &out), KV_BAD_REQUEST);

    struct wire_part more = {.offset = 4096};
    ck_assert_int_eq(part_status(&more, &out), KV_OK);
    ck_assert_uint_eq(out.offset, 4096);
    more.bytes = kv_slice("abc", 3);
    ck_assert_int_eq(part_status(&more, &out), KV_BAD_REQUEST);
}
END_TEST

static void assert_named(enum kv_status status)
{
    ck_assert(status == KV_OK || status == KV_BAD_REQUEST || status == KV_UNSUPPORTED);
}

/* Every message of every kind, whole and at every shorter length. */
START_TEST(every_truncation_is_named)
{
    struct random_state random;
    random_seed(&random, SEED + (unsigned)_i);
    uint8_t message[1024];
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = wire_sample_message(&random, (enum wire_kind)_i, message, sizeof message);
        ck_assert_int_eq(wire_read_whole(message, size), KV_OK);
        for (size_t left = 0; left < size; left++) {
            uint8_t *copy = exact_copy(message, left);
            enum kv_status status = wire_read_whole(copy, left);
            free(copy);
            assert_named(status);
            if (left < WIRE_HEADER_BYTES)
                ck_assert_int_eq(status, KV_BAD_REQUEST);
            else if (_i == WIRE_REQUEST || _i == WIRE_HELLO || _i == WIRE_WELCOME)
                ck_assert_int_eq(status, KV_BAD_REQUEST);
        }
    }
}
END_TEST

/* Every byte of every message replaced: by its complement, 0, 0xff, and with one bit flipped. */
START_TEST(every_corruption_is_named)
{
    struct random_state random;
    random_seed(&random, SEED + (unsigned)_i);
    uint8_t message[1024];
    for (unsigned round = 0; round < ROUNDS / 4; round++) {
        size_t size = wire_sample_message(&random, (enum wire_kind)_i, message, sizeof message);
        uint8_t *copy = exact_copy(message, size);
        for (size_t at = 0; at < size; at++) {
            const uint8_t damaged[] = {(uint8_t)~message[at], 0, 0xff,
                                       (uint8_t)(message[at] ^ (1u << random_below(&random, 8)))};
            for (size_t i = 0; i < sizeof damaged; i++) {
                copy[at] = damaged[i];
                assert_named(wire_read_whole(copy, size));
            }
            copy[at] = message[at];
        }
        free(copy);
    }
}
END_TEST

TEST_SUITE(wire_message)
{
    TCase *header = tcase_create("header");
    tcase_add_test(header, header_round_trips);
    tcase_add_test(header, header_without_room_fails_the_cursor);
    tcase_add_test(header, foreign_headers_are_named);
    tcase_add_test(header, patches_change_one_field);
    suite_add_tcase(suite, header);
    TCase *session = tcase_create("session messages");
    tcase_add_test(session, hello_round_trips);
    tcase_add_test(session, impossible_hellos_are_refused);
    tcase_add_test(session, welcome_round_trips);
    tcase_add_test(session, welcome_says_who_may_read_directly);
    tcase_add_test(session, parts_stay_within_their_whole);
    suite_add_tcase(suite, session);
    TCase *hostile = tcase_create("hostile bytes");
    tcase_set_timeout(hostile, 60);
    tcase_add_loop_test(hostile, every_truncation_is_named, WIRE_HELLO, WIRE_MORE + 1);
    tcase_add_loop_test(hostile, every_corruption_is_named, WIRE_HELLO, WIRE_MORE + 1);
    suite_add_tcase(suite, hostile);
}
