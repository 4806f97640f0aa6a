/* example: the worked examples of docs/PROTOCOL.md are what wire/ writes, and the page shows
 * them. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_suite.h"
#include "wire/change.h"
#include "wire/message.h"
#include "wire/operation.h"
#include "wire/range_value.h"
#include "wire/transact_value.h"

#define COOKIE      0x0123456789abcdef
#define NONCE       0xfedcba9876543210
#define SESSION     5
#define EXPIRY_MS   1800000000000
#define DEADLINE_MS 86400000

/* clang-format off */
/* Taken from the tables of the page, not from what wire/ writes: a row of the header or a field a
 * line. */
#define NO_WINDOW "0000000000000000" "00000000" "00000000"
#define GOLDEN_HELLO                                                                               \
    "4d514b56" "01" "01" "0000" "00000000" "0000" "0000"                                           \
    "0900000000000000" "0000000000000000" NO_WINDOW                                                \
    "1032547698badcfe" "92100000" "0400" "0100" "00200000"                                         \
    "1000" "2f7365727665726b2e63343234322e37"
#define GOLDEN_WELCOME                                                                             \
    "4d514b56" "01" "02" "0000" "05000000" "0000" "0000"                                           \
    "0900000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "efcdab8967452301" "8877665544332211" "0000100000000000" "a00f0000"                            \
    "0400" "0200" "0100" "0000"                                                                    \
    "00040000" "00200000"
#define GOLDEN_PUT_REQUEST                                                                         \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0100000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "03" "00" "0100" "0400" "0000" "03000000"                                                      \
    "00505c18a3010000"                                                                             \
    "6e616d65"                                                                                     \
    "416461"
#define GOLDEN_PUT_REPLY                                                                           \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0100000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0100" "00000000"                                                                       \
    "2a00000000000000"
#define GOLDEN_GET_REQUEST                                                                         \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0200000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "01" "00" "0000" "0400" "0000" "00000000"                                                      \
    "6e616d65"
#define GOLDEN_GET_REPLY                                                                           \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0200000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0300" "03000000"                                                                       \
    "2a00000000000000" "00505c18a3010000"                                                          \
    "416461"
#define GOLDEN_ADD_REQUEST                                                                         \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0300000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "05" "00" "3102" "0100" "0000" "00000000"                                                      \
    "00505c18a3010000"                                                                             \
    "fdffffffffffffff"                                                                             \
    "0000000000000000" "6400000000000000"                                                          \
    "0a00000000000000"                                                                             \
    "6e"
#define GOLDEN_ADD_REPLY                                                                           \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0300000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0500" "00000000"                                                                       \
    "2b00000000000000" "0700000000000000"
#define GOLDEN_SCAN_REQUEST                                                                        \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0400000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "09" "00" "0000" "0200" "0000" "00000000"                                                      \
    "0000000000000000" "02000000"                                                                  \
    "6e61"
#define GOLDEN_SCAN_REPLY                                                                          \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0400000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0400" "1f000000"                                                                       \
    "0700000000001000"                                                                             \
    "0400" "0200" "03000000" "2a00000000000000" "00505c18a3010000" "6e616d65" "416461"
#define GOLDEN_TRANSACT_REQUEST                                                                    \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0500000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "10" "00" "0000" "0000" "0000" "2e000000"                                                      \
    "0100" "0100" "0100" "0000"                                                                    \
    "03" "00" "0100" "00000000" "6f"                                                               \
    "03" "00" "0000" "0100" "0000" "03000000" "6f" "416461"                                        \
    "01" "00" "0000" "0100" "0000" "00000000" "6f"
#define GOLDEN_TRANSACT_REPLY                                                                      \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0500000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0000" "18000000"                                                                       \
    "00" "00" "0000" "0000" "0100"                                                                 \
    "0000" "0100" "00000000" "2c00000000000000"
#define GOLDEN_WATCH_REQUEST                                                                       \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0600000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "0f" "00" "0040" "0000" "0000" "14000000"                                                      \
    "0000000000000000" "e8030000"                                                                  \
    "8877665544332211" "2c00000000000000" "00020000"
#define GOLDEN_WATCH_REPLY                                                                         \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0600000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0400" "58000000"                                                                       \
    "0100000000000000"                                                                             \
    "8877665544332211" "2e00000000000000" "07020000"                                               \
    "0100" "0003" "01000000" "2d00000000000000" "04020000" "0700000000000000" "02000000" "61" "31" \
    "0100" "0002" "01000000" "2e00000000000000" "07020000" "0700000000000000" "02000000" "62" "32"
#define GOLDEN_RANGE_REQUEST                                                                       \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0700000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "11" "00" "0000" "0200" "0000" "0d000000"                                                      \
    "6e61"                                                                                         \
    "02000000" "0000" "0000" "0100" "0000"                                                         \
    "6e"
#define GOLDEN_RANGE_REPLY                                                                         \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0700000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0400" "1f000000"                                                                       \
    "0000000000000000"                                                                             \
    "0400" "0200" "03000000" "2a00000000000000" "00505c18a3010000"                                 \
    "6e616d65" "416461"
#define GOLDEN_DELETE_REQUEST                                                                      \
    "4d514b56" "01" "04" "0000" "05000000" "0100" "0000"                                           \
    "0800000000000000" "efcdab8967452301" "005c260500000000" "00000000" "00000000"                 \
    "13" "00" "0002" "0000" "0000" "0d000000"                                                      \
    "01000000" "0000" "0000" "0100" "0000"                                                         \
    "6e"
#define GOLDEN_DELETE_REPLY                                                                        \
    "4d514b56" "01" "05" "0000" "05000000" "0100" "0000"                                           \
    "0800000000000000" "1032547698badcfe" NO_WINDOW                                                \
    "0000" "0400" "04000000"                                                                       \
    "0100000000000000"                                                                             \
    "6e616d65"
#define GOLDEN_PART                                                                                \
    "4d514b56" "01" "08" "0000" "05000000" "0000" "0000"                                           \
    "0200000000000000" "efcdab8967452301" NO_WINDOW                                                \
    "40000000" "3c000000"                                                                          \
    "6e616d65"
#define GOLDEN_MORE                                                                                \
    "4d514b56" "01" "0a" "0000" "05000000" "0000" "0000"                                           \
    "0200000000000000" "efcdab8967452301" NO_WINDOW                                                \
    "00000000" "c81f0000"
/* clang-format on */

/* A message that is being written. */
struct example_message {
    uint8_t bytes[256];
    struct write_cursor cursor;
};

static void begin(struct example_message *message, const struct wire_header *header)
{
    message->cursor = write_cursor(message->bytes, sizeof message->bytes);
    wire_put_header(&message->cursor, header);
}

static void assert_golden(const struct example_message *message, const char *golden)
{
    char text[2 * sizeof message->bytes + 1] = "";
    ck_assert(!message->cursor.failed);
    for (size_t i = 0; i < write_cursor_used(&message->cursor); i++)
        snprintf(text + 2 * i, 3, "%02x", message->bytes[i]);
    ck_assert_str_eq(text, golden);
}

static struct wire_header to_server(enum wire_kind kind, uint64_t request_id)
{
    return (struct wire_header){
        .kind = kind, .session = SESSION, .request_id = request_id, .secret = COOKIE};
}

static struct wire_header to_client(enum wire_kind kind, uint64_t request_id)
{
    return (struct wire_header){
        .kind = kind, .session = SESSION, .request_id = request_id, .secret = NONCE};
}

static void assert_request(uint64_t request_id, const struct wire_operation *operation,
                           const char *golden)
{
    struct example_message message;
    struct wire_header header = to_server(WIRE_REQUEST, request_id);
    header.count = 1;
    header.deadline_ms = DEADLINE_MS;
    begin(&message, &header);
    ck_assert(wire_put_operation(&message.cursor, operation));
    assert_golden(&message, golden);
}

static void assert_reply(uint64_t request_id, const struct wire_result *result, const char *golden)
{
    struct example_message message;
    struct wire_header header = to_client(WIRE_REPLY, request_id);
    header.count = 1;
    begin(&message, &header);
    ck_assert(wire_put_result(&message.cursor, result));
    assert_golden(&message, golden);
}

START_TEST(handshake)
{
    struct example_message message;
    struct wire_hello hello = {.nonce = NONCE,
                               .pid = 4242,
                               .reply_depth = 4,
                               .threads = 1,
                               .reply_bytes = 8192,
                               .reply_queue = kv_slice_from_string("/serverk.c4242.7")};
    begin(&message, &(struct wire_header){.kind = WIRE_HELLO, .request_id = 9});
    ck_assert(wire_put_hello(&message.cursor, &hello));
    assert_golden(&message, GOLDEN_HELLO);

    struct wire_header header = to_client(WIRE_WELCOME, 9);
    struct wire_welcome welcome = {.cookie = COOKIE,
                                   .instance = 0x1122334455667788,
                                   .max_value_bytes = 1048576,
                                   .server_pid = 4000,
                                   .credits = 4,
                                   .lane = 2,
                                   .bulk_lane = 1,
                                   .lane_bytes = 1024,
                                   .bulk_bytes = 8192};
    begin(&message, &header);
    ck_assert(wire_put_welcome(&message.cursor, &welcome));
    assert_golden(&message, GOLDEN_WELCOME);
}
END_TEST

START_TEST(put_and_get)
{
    struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                 .flags = WIRE_HAS_EXPIRY,
                                 .key = kv_slice_from_string("name"),
                                 .value = kv_slice_from_string("Ada"),
                                 .expiry_ms = EXPIRY_MS};
    assert_request(1, &put, GOLDEN_PUT_REQUEST);
    struct wire_result written = {.flags = WIRE_RESULT_HAS_VERSION, .version = 42};
    assert_reply(1, &written, GOLDEN_PUT_REPLY);

    struct wire_operation get = {.opcode = WIRE_OP_GET, .key = kv_slice_from_string("name")};
    assert_request(2, &get, GOLDEN_GET_REQUEST);
    struct wire_result found = {.flags = WIRE_RESULT_HAS_VERSION | WIRE_RESULT_HAS_EXPIRY,
                                .version = 42,
                                .expiry_ms = EXPIRY_MS,
                                .value = kv_slice_from_string("Ada")};
    assert_reply(2, &found, GOLDEN_GET_REPLY);
}
END_TEST

START_TEST(add_with_all_fields)
{
    struct wire_operation add = {.opcode = WIRE_OP_ADD,
                                 .flags = WIRE_HAS_EXPIRY | WIRE_HAS_BOUNDS | WIRE_CREATE |
                                          WIRE_SYNC_ALWAYS,
                                 .key = kv_slice_from_string("n"),
                                 .expiry_ms = EXPIRY_MS,
                                 .delta = -3,
                                 .min = 0,
                                 .max = 100,
                                 .initial = 10};
    assert_request(3, &add, GOLDEN_ADD_REQUEST);
    struct wire_result sum = {
        .flags = WIRE_RESULT_HAS_VERSION | WIRE_RESULT_HAS_NUMBER, .version = 43, .number = 7};
    assert_reply(3, &sum, GOLDEN_ADD_REPLY);
}
END_TEST

START_TEST(scan_of_a_prefix)
{
    struct wire_operation scan = {
        .opcode = WIRE_OP_SCAN, .key = kv_slice_from_string("na"), .limit = 2};
    assert_request(4, &scan, GOLDEN_SCAN_REQUEST);
    uint8_t entries[64];
    struct write_cursor cursor = write_cursor(entries, sizeof entries);
    struct wire_scan_entry entry = {.key = kv_slice_from_string("name"),
                                    .value = kv_slice_from_string("Ada"),
                                    .version = 42,
                                    .expiry_ms = EXPIRY_MS};
    ck_assert(wire_put_scan_entry(&cursor, &entry));
    struct wire_result page = {.flags = WIRE_RESULT_HAS_NUMBER,
                               .number = 0x0010000000000007,
                               .value = kv_slice(entries, write_cursor_used(&cursor))};
    assert_reply(4, &page, GOLDEN_SCAN_REPLY);
}
END_TEST

START_TEST(transaction_of_a_guard_and_two_lists)
{
    uint8_t value[64];
    struct write_cursor cursor = write_cursor(value, sizeof value);
    struct wire_transaction transaction = {.guards = 1, .then = 1, .otherwise = 1};
    struct wire_guard guard = {.kind = WIRE_GUARD_ABSENT, .key = kv_slice_from_string("o")};
    struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                 .key = kv_slice_from_string("o"),
                                 .value = kv_slice_from_string("Ada")};
    struct wire_operation get = {.opcode = WIRE_OP_GET, .key = kv_slice_from_string("o")};
    ck_assert(wire_put_transaction(&cursor, &transaction) && wire_put_guard(&cursor, &guard) &&
              wire_put_operation(&cursor, &put) && wire_put_operation(&cursor, &get));
    struct wire_operation transact = {.opcode = WIRE_OP_TRANSACT,
                                      .value = kv_slice(value, write_cursor_used(&cursor))};
    assert_request(5, &transact, GOLDEN_TRANSACT_REQUEST);

    cursor = write_cursor(value, sizeof value);
    struct wire_outcome outcome = {.results = 1};
    struct wire_result written = {.flags = WIRE_RESULT_HAS_VERSION, .version = 44};
    ck_assert(wire_put_outcome(&cursor, &outcome) && wire_put_result(&cursor, &written));
    struct wire_result done = {.value = kv_slice(value, write_cursor_used(&cursor))};
    assert_reply(5, &done, GOLDEN_TRANSACT_REPLY);
}
END_TEST

START_TEST(watch_that_tells_transactions)
{
    uint8_t positions[WIRE_POSITION_BYTES], page[128];
    struct wire_position position = {0x1122334455667788, 44, 4096};
    wire_put_position(positions, &position);
    struct wire_operation watch = {.opcode = WIRE_OP_WATCH,
                                   .flags = WIRE_TELL_TRANSACTIONS,
                                   .value = kv_slice(positions, sizeof positions),
                                   .limit = 1000};
    assert_request(6, &watch, GOLDEN_WATCH_REQUEST);

    struct write_cursor cursor = write_cursor(page, sizeof page);
    struct wire_change changes[] = {{.key = kv_slice_from_string("a"),
                                     .value = kv_slice_from_string("1"),
                                     .version = 45,
                                     .place = 4128,
                                     .transaction = 7,
                                     .parts = 2},
                                    {.key = kv_slice_from_string("b"),
                                     .value = kv_slice_from_string("2"),
                                     .version = 46,
                                     .place = 4152,
                                     .transaction = 7,
                                     .parts = 2}};
    position = (struct wire_position){0x1122334455667788, 46, 4152};
    wire_put_position(write_room(&cursor, WIRE_POSITION_BYTES), &position);
    uint8_t *first = cursor.at;
    ck_assert(wire_put_change(&cursor, &changes[0]) && wire_put_change(&cursor, &changes[1]));
    wire_change_goes_on(first);
    struct wire_result told = {.flags = WIRE_RESULT_HAS_NUMBER,
                               .number = 1,
                               .value = kv_slice(page, write_cursor_used(&cursor))};
    assert_reply(6, &told, GOLDEN_WATCH_REPLY);
}
END_TEST

START_TEST(ranges_of_a_prefix)
{
    uint8_t value[64];
    struct write_cursor cursor = write_cursor(value, sizeof value);
    struct wire_range_bounds bounds = {.limit = 2, .prefix = kv_slice_from_string("n")};
    ck_assert(wire_put_range_bounds(&cursor, &bounds));
    struct wire_operation range = {.opcode = WIRE_OP_RANGE,
                                   .key = kv_slice_from_string("na"),
                                   .value = kv_slice(value, write_cursor_used(&cursor))};
    assert_request(7, &range, GOLDEN_RANGE_REQUEST);
    cursor = write_cursor(value, sizeof value);
    struct wire_scan_entry entry = {.key = kv_slice_from_string("name"),
                                    .value = kv_slice_from_string("Ada"),
                                    .version = 42,
                                    .expiry_ms = EXPIRY_MS};
    ck_assert(wire_put_scan_entry(&cursor, &entry));
    struct wire_result page = {.flags = WIRE_RESULT_HAS_NUMBER,
                               .value = kv_slice(value, write_cursor_used(&cursor))};
    assert_reply(7, &page, GOLDEN_RANGE_REPLY);

    cursor = write_cursor(value, sizeof value);
    bounds.limit = 1;
    ck_assert(wire_put_range_bounds(&cursor, &bounds));
    struct wire_operation doomed = {.opcode = WIRE_OP_RANGE_DELETE,
                                    .flags = WIRE_SYNC_ALWAYS,
                                    .value = kv_slice(value, write_cursor_used(&cursor))};
    assert_request(8, &doomed, GOLDEN_DELETE_REQUEST);
    struct wire_result deleted = {
        .flags = WIRE_RESULT_HAS_NUMBER, .number = 1, .value = kv_slice_from_string("name")};
    assert_reply(8, &deleted, GOLDEN_DELETE_REPLY);
}
END_TEST

START_TEST(part_and_more)
{
    struct example_message message;
    struct wire_header header = to_server(WIRE_PART, 2);
    struct wire_part part = {
        .total_bytes = 64, .offset = 60, .bytes = kv_slice_from_string("name")};
    begin(&message, &header);
    ck_assert(wire_put_part(&message.cursor, &part));
    assert_golden(&message, GOLDEN_PART);

    header.kind = WIRE_MORE;
    part = (struct wire_part){.offset = 8136};
    begin(&message, &header);
    ck_assert(wire_put_part(&message.cursor, &part));
    assert_golden(&message, GOLDEN_MORE);
}
END_TEST

/* Appends the hex digits of an indented line of PROTOCOL.md; what is behind three spaces is
 * remarks. */
static void take_hex(const char *line, char *hex, size_t capacity)
{
    const char *end = strstr(line, "   ");
    for (const char *at = line; *at && *at != '\n' && at != end; at++) {
        size_t used = strlen(hex);
        ck_assert_uint_lt(used + 1, capacity);
        if (*at != ' ') {
            hex[used] = *at;
            hex[used + 1] = '\0';
        }
    }
}

/* The page is read where the sources are: tests are run in the root of the repository. */
START_TEST(the_page_shows_the_golden_bytes)
{
    static const char *const golden[] = {GOLDEN_HELLO,
                                         GOLDEN_WELCOME,
                                         GOLDEN_PUT_REQUEST,
                                         GOLDEN_PUT_REPLY,
                                         GOLDEN_GET_REQUEST,
                                         GOLDEN_GET_REPLY,
                                         GOLDEN_ADD_REQUEST,
                                         GOLDEN_ADD_REPLY,
                                         GOLDEN_SCAN_REQUEST,
                                         GOLDEN_SCAN_REPLY,
                                         GOLDEN_TRANSACT_REQUEST,
                                         GOLDEN_TRANSACT_REPLY,
                                         GOLDEN_WATCH_REQUEST,
                                         GOLDEN_WATCH_REPLY,
                                         GOLDEN_RANGE_REQUEST,
                                         GOLDEN_RANGE_REPLY,
                                         GOLDEN_DELETE_REQUEST,
                                         GOLDEN_DELETE_REPLY,
                                         GOLDEN_PART,
                                         GOLDEN_MORE};
    FILE *page = fopen("docs/PROTOCOL.md", "re");
    ck_assert_msg(page != NULL, "docs/PROTOCOL.md is not here");
    char line[512], hex[512] = "";
    bool examples = false;
    size_t shown = 0;
    while (fgets(line, sizeof line, page)) {
        if (strncmp(line, "## ", 3) == 0)
            examples = strstr(line, "Worked examples") != NULL;
        if (!examples)
            continue;
        if (strncmp(line, "    ", 4) == 0) {
            take_hex(line + 4, hex, sizeof hex);
        } else if (hex[0]) {
            ck_assert_uint_lt(shown, sizeof golden / sizeof golden[0]);
            ck_assert_str_eq(hex, golden[shown++]);
            hex[0] = '\0';
        }
    }
    fclose(page);
    ck_assert_uint_eq(shown, sizeof golden / sizeof golden[0]);
}
END_TEST

TEST_SUITE(wire_example)
{
    TCase *golden = tcase_create("golden bytes");
    tcase_add_test(golden, handshake);
    tcase_add_test(golden, put_and_get);
    tcase_add_test(golden, add_with_all_fields);
    tcase_add_test(golden, scan_of_a_prefix);
    tcase_add_test(golden, transaction_of_a_guard_and_two_lists);
    tcase_add_test(golden, watch_that_tells_transactions);
    tcase_add_test(golden, ranges_of_a_prefix);
    tcase_add_test(golden, part_and_more);
    tcase_add_test(golden, the_page_shows_the_golden_bytes);
    suite_add_tcase(suite, golden);
}
