/* transact: TRANSACT against a real store, as bytes in and bytes out. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/one_client_worker.h"
#include "tests/support/test_suite.h"
#include "wire/transact_value.h"

/* A transaction that is being written, and what became of it. */
struct tried_transaction {
    uint8_t body[65536];
    struct write_cursor cursor;
    struct wire_transaction counts;
    uint16_t flags;
    struct wire_result result;
    struct wire_outcome outcome;
    struct wire_result steps[WIRE_MAX_TRANSACTION_STEPS];
};

static struct tried_transaction tried;

static void begin_transaction(void)
{
    tried.cursor = write_cursor(tried.body, sizeof tried.body);
    write_room(&tried.cursor, WIRE_TRANSACTION_FIXED_BYTES);
    tried.counts = (struct wire_transaction){0};
    tried.flags = 0;
}

static void add_guard(enum wire_guard_kind kind, const char *key, const char *value,
                      uint64_t version)
{
    struct wire_guard guard = {.kind = kind,
                               .key = kv_slice_from_string(key),
                               .value = kv_slice_from_string(value),
                               .version = version};
    ck_assert(wire_put_guard(&tried.cursor, &guard));
    tried.counts.guards++;
}

static void add_operation(struct wire_operation operation)
{
    ck_assert(wire_put_operation(&tried.cursor, &operation));
}

static void add_then(struct wire_operation operation)
{
    add_operation(operation);
    tried.counts.then++;
}

static void add_otherwise(struct wire_operation operation)
{
    add_operation(operation);
    tried.counts.otherwise++;
}

/* Has the worker execute it, and takes the outcome apart. Returns the status of the operation. */
static enum kv_status try_transaction(void)
{
    struct write_cursor head = write_cursor(tried.body, WIRE_TRANSACTION_FIXED_BYTES);
    ck_assert(wire_put_transaction(&head, &tried.counts));
    tried.result = call(
        (struct wire_operation){.opcode = WIRE_OP_TRANSACT,
                                .flags = tried.flags,
                                .value = kv_slice(tried.body, write_cursor_used(&tried.cursor))});
    tried.outcome = (struct wire_outcome){.results = 0};
    if (tried.result.flags & WIRE_RESULT_NO_VALUE || tried.result.value.size == 0)
        return tried.result.status;
    struct read_cursor cursor = read_cursor(tried.result.value.data, tried.result.value.size);
    ck_assert_int_eq(wire_get_outcome(&cursor, &tried.outcome), KV_OK);
    for (unsigned i = 0; i < tried.outcome.results; i++)
        ck_assert_int_eq(wire_get_result(&cursor, &tried.steps[i]), KV_OK);
    ck_assert_uint_eq(read_cursor_left(&cursor), 0);
    return tried.result.status;
}

static struct wire_operation put_of(const char *key, const char *value)
{
    return fixture_operation(WIRE_OP_PUT, key, value);
}

static struct wire_operation get_of(const char *key)
{
    return fixture_operation(WIRE_OP_GET, key, "");
}

static struct wire_operation add_of(const char *key, int64_t delta, int64_t min)
{
    struct wire_operation add = fixture_operation(WIRE_OP_ADD, key, "");
    add.flags = WIRE_CREATE | WIRE_HAS_BOUNDS;
    add.delta = delta;
    add.min = min;
    add.max = INT64_MAX;
    return add;
}

static void assert_value(struct wire_result result, const char *value)
{
    ck_assert_int_eq(result.status, KV_OK);
    ck_assert_uint_eq(result.value.size, strlen(value));
    ck_assert_mem_eq(result.value.data, value, strlen(value));
}

static void assert_stored(const char *key, const char *value)
{
    assert_value(call(get_of(key)), value);
}

static void assert_absent(const char *key)
{
    ck_assert_int_eq(call(get_of(key)).status, KV_NOT_FOUND);
}

START_TEST(every_step_tells_what_its_operation_tells)
{
    call(put_of("old", "value"));
    call(put_of("gone", "x"));
    call(put_of("tail", "ab"));
    begin_transaction();
    add_then(put_of("new", "1"));
    add_then(fixture_operation(WIRE_OP_DELETE, "gone", ""));
    add_then(add_of("n", 5, 0));
    add_then(fixture_operation(WIRE_OP_APPEND, "tail", "cd"));
    add_then(get_of("old"));
    add_then(fixture_operation(WIRE_OP_EXISTS, "old", ""));
    add_then(get_of("none"));
    add_then(fixture_operation(WIRE_OP_TOUCH, "absent", ""));
    add_then(get_of("new")); /* as it was before */
    ck_assert_int_eq(try_transaction(), KV_OK);
    ck_assert(!tried.outcome.otherwise);
    ck_assert_int_eq(tried.outcome.about, WIRE_ABOUT_NOTHING);
    ck_assert_uint_eq(tried.outcome.results, 9);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(tried.steps[i].status, KV_OK);
        ck_assert_uint_ge(tried.steps[i].version, 1);
    }
    ck_assert_int_eq(tried.steps[2].number, 5);
    ck_assert_int_eq(tried.steps[3].number, 4);
    assert_value(tried.steps[4], "value");
    ck_assert_int_eq(tried.steps[5].status, KV_OK);
    ck_assert(tried.steps[5].flags & WIRE_RESULT_NO_VALUE);
    ck_assert_uint_eq(tried.steps[5].value.size, 5);
    ck_assert_uint_eq(tried.steps[5].version, tried.steps[4].version);
    ck_assert_int_eq(tried.steps[6].status, KV_NOT_FOUND);
    ck_assert_int_eq(tried.steps[7].status, KV_NOT_FOUND);
    ck_assert_int_eq(tried.steps[8].status, KV_NOT_FOUND);
    assert_stored("new", "1");
    assert_stored("n", "5");
    assert_stored("tail", "abcd");
    assert_absent("gone");
}
END_TEST

START_TEST(guards_decide_which_list_is_done)
{
    uint64_t version = call(put_of("stock", "7")).version;
    const struct {
        enum wire_guard_kind kind;
        const char *key, *value;
        uint64_t version;
        bool holds;
    } guards[] = {
        {WIRE_GUARD_VERSION, "stock", "", version, true},
        {WIRE_GUARD_VERSION, "stock", "", version + 1, false},
        {WIRE_GUARD_VERSION, "none", "", 0, true},
        {WIRE_GUARD_VERSION, "stock", "", 0, false},
        {WIRE_GUARD_PRESENT, "stock", "", 0, true},
        {WIRE_GUARD_PRESENT, "none", "", 0, false},
        {WIRE_GUARD_ABSENT, "none", "", 0, true},
        {WIRE_GUARD_ABSENT, "stock", "", 0, false},
        {WIRE_GUARD_VALUE, "stock", "7", 0, true},
        {WIRE_GUARD_VALUE, "stock", "8", 0, false},
        {WIRE_GUARD_VALUE, "none", "", 0, false},
    };
    for (size_t i = 0; i < sizeof guards / sizeof guards[0]; i++) {
        begin_transaction();
        add_guard(WIRE_GUARD_PRESENT, "stock", "", 0);
        add_guard(guards[i].kind, guards[i].key, guards[i].value, guards[i].version);
        add_then(put_of("then", "1"));
        add_otherwise(put_of("otherwise", "1"));
        add_otherwise(get_of("stock"));
        ck_assert_int_eq(try_transaction(), KV_OK);
        ck_assert_int_eq(tried.outcome.otherwise, !guards[i].holds);
        ck_assert_uint_eq(tried.outcome.results, guards[i].holds ? 1 : 2);
        ck_assert_uint_eq(tried.outcome.guard, guards[i].holds ? 0 : 1);
        const char *done = guards[i].holds ? "then" : "otherwise";
        assert_stored(done, "1");
        assert_absent(guards[i].holds ? "otherwise" : "then");
        call(fixture_operation(WIRE_OP_DELETE, done, ""));
    }
}
END_TEST

START_TEST(what_fails_changes_nothing_and_is_named)
{
    call(put_of("text", "abc"));
    call(put_of("n", "3"));
    begin_transaction();
    add_then(put_of("a", "1"));
    add_then(add_of("n", -4, 0));
    ck_assert_int_eq(try_transaction(), KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(tried.outcome.about, WIRE_ABOUT_STEP);
    ck_assert_uint_eq(tried.outcome.at, 1);
    ck_assert(!tried.outcome.otherwise);
    ck_assert_uint_eq(tried.outcome.results, 1);
    ck_assert_int_eq(tried.steps[0].status, KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(tried.steps[0].number, 3);
    assert_absent("a");

    begin_transaction();
    add_guard(WIRE_GUARD_ABSENT, "n", "", 0);
    add_otherwise(put_of("a", "1"));
    add_otherwise(put_of("b", "1"));
    add_otherwise(add_of("text", 1, 0));
    ck_assert_int_eq(try_transaction(), KV_NOT_A_NUMBER);
    ck_assert(tried.outcome.otherwise);
    ck_assert_uint_eq(tried.outcome.at, 2);
    assert_absent("a");

    begin_transaction(); /* a list writes a key once */
    add_then(put_of("a", "1"));
    add_then(put_of("a", "2"));
    ck_assert_int_eq(try_transaction(), KV_USAGE);
    ck_assert_int_eq(tried.outcome.about, WIRE_ABOUT_STEP);
    ck_assert_uint_eq(tried.outcome.at, 1);
    assert_absent("a");
}
END_TEST

START_TEST(what_cannot_be_read_is_named)
{
    begin_transaction();
    add_guard(WIRE_GUARD_PRESENT, "k", "", 0);
    tried.body[WIRE_TRANSACTION_FIXED_BYTES] = 77;
    ck_assert_int_eq(try_transaction(), KV_UNSUPPORTED);
    ck_assert_int_eq(tried.outcome.about, WIRE_ABOUT_GUARD);
    ck_assert_uint_eq(tried.outcome.at, 0);

    begin_transaction();
    add_then(put_of("a", "1"));
    add_then(fixture_operation(WIRE_OP_EXCHANGE, "b", "1"));
    ck_assert_int_eq(try_transaction(), KV_UNSUPPORTED);
    ck_assert_int_eq(tried.outcome.about, WIRE_ABOUT_STEP);
    ck_assert_uint_eq(tried.outcome.at, 1);
    assert_absent("a");

    begin_transaction();
    add_otherwise(put_of("a", "1"));
    tried.counts.otherwise++; /* one is missing */
    ck_assert_int_eq(try_transaction(), KV_BAD_REQUEST);
    ck_assert(tried.outcome.otherwise);
    ck_assert_uint_eq(tried.outcome.at, 1);

    begin_transaction();
    add_then(put_of("a", "1"));
    write_u16(&tried.cursor, 0); /* bytes behind the last step */
    ck_assert_int_eq(try_transaction(), KV_BAD_REQUEST);
    ck_assert_int_eq(tried.outcome.about, WIRE_ABOUT_NOTHING);
    assert_absent("a");

    begin_transaction();
    for (unsigned i = 0; i <= WIRE_MAX_TRANSACTION_STEPS; i++)
        add_then(get_of("a"));
    ck_assert_int_eq(try_transaction(), KV_BAD_REQUEST);
    struct wire_operation empty = {.opcode = WIRE_OP_TRANSACT};
    ck_assert_int_eq(call(empty).status, KV_BAD_REQUEST);
}
END_TEST

START_TEST(as_many_steps_as_there_may_be)
{
    char key[16];
    begin_transaction();
    for (unsigned i = 0; i < WIRE_MAX_TRANSACTION_STEPS - 16; i++) {
        snprintf(key, sizeof key, "key%u", i);
        add_guard(WIRE_GUARD_VERSION, key, "", 0);
    }
    for (unsigned i = 0; i < 16; i++) { /* the reply is to fit a message */
        snprintf(key, sizeof key, "key%u", i);
        add_then(put_of(key, key));
    }
    ck_assert_int_eq(try_transaction(), KV_OK);
    ck_assert_uint_eq(tried.outcome.results, 16);
    begin_transaction();
    for (unsigned i = 0; i < 16; i++) {
        snprintf(key, sizeof key, "key%u", 15 - i);
        add_then(get_of(key));
    }
    ck_assert_int_eq(try_transaction(), KV_OK);
    for (unsigned i = 0; i < 16; i++) {
        snprintf(key, sizeof key, "key%u", 15 - i);
        assert_value(tried.steps[i], key);
    }
}
END_TEST

START_TEST(a_reply_without_room_changes_nothing)
{
    char value[600];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    call(put_of("large", value));
    begin_transaction();
    add_then(get_of("large"));
    add_then(put_of("a", "1"));
    struct write_cursor head = write_cursor(tried.body, WIRE_TRANSACTION_FIXED_BYTES);
    ck_assert(wire_put_transaction(&head, &tried.counts));
    struct wire_operation operations[] = {
        get_of("large"),
        {.opcode = WIRE_OP_TRANSACT,
         .value = kv_slice(tried.body, write_cursor_used(&tried.cursor))}};
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 2), answer;
    request.flags = WIRE_REQUEST_MAY_STOP;
    struct read_cursor body;
    fixture_request(&fixture, &request, operations);
    ck_assert(fixture_reply(&only_client, 1000, &answer, &body));
    ck_assert_uint_eq(answer.count, 1); /* the client sends the transaction again */
    assert_absent("a");
    ck_assert_int_eq(try_transaction(), KV_OK);
    assert_value(tried.steps[0], value);
    assert_stored("a", "1");
}
END_TEST

static uint64_t counted(unsigned opcode)
{
    return fixture.worker.statistics->operations[opcode];
}

START_TEST(transactions_are_counted)
{
    uint64_t before = counted(WIRE_OP_TRANSACT);
    uint64_t hits = fixture.worker.statistics->hits, misses = fixture.worker.statistics->misses;
    begin_transaction();
    add_then(put_of("a", "1"));
    ck_assert_int_eq(try_transaction(), KV_OK);
    begin_transaction();
    add_then(get_of("a"));
    add_then(get_of("b"));
    ck_assert_int_eq(try_transaction(), KV_OK);
    ck_assert_uint_eq(counted(WIRE_OP_TRANSACT), before + 2);
    ck_assert_uint_eq(fixture.worker.statistics->hits, hits + 1);
    ck_assert_uint_eq(fixture.worker.statistics->misses, misses + 1);
    ck_assert_str_eq(statistics_operation_name(WIRE_OP_TRANSACT), "transact");
}
END_TEST

START_TEST(values_that_are_too_big_are_named)
{
    static char big[MAX_VALUE_BYTES + 2];
    static uint8_t body[2 * MAX_VALUE_BYTES];
    memset(big, 'b', MAX_VALUE_BYTES + 1);
    struct wire_transaction counts = {.then = 2};
    struct write_cursor cursor = write_cursor(body, sizeof body);
    struct wire_operation small = put_of("a", "1"), large = put_of("b", big);
    ck_assert(wire_put_transaction(&cursor, &counts) && wire_put_operation(&cursor, &small) &&
              wire_put_operation(&cursor, &large));
    struct wire_operation transact = {.opcode = WIRE_OP_TRANSACT,
                                      .value = kv_slice(body, write_cursor_used(&cursor))};
    static uint8_t message[2 * MAX_VALUE_BYTES];
    struct wire_header request = fixture_header(&only_client, WIRE_REQUEST, 1), answer;
    struct write_cursor writer = write_cursor(message, sizeof message);
    wire_put_header(&writer, &request);
    ck_assert(wire_put_operation(&writer, &transact));
    for (size_t sent = 0, size = write_cursor_used(&writer); sent < size;) {
        uint8_t part_message[FIXTURE_MESSAGE_BYTES];
        size_t bytes = size - sent < 700 ? size - sent : 700;
        struct wire_part part = {.total_bytes = (uint32_t)size,
                                 .offset = (uint32_t)sent,
                                 .bytes = kv_slice(message + sent, bytes)};
        struct wire_header header = request;
        header.kind = WIRE_PART;
        header.count = 0;
        struct write_cursor part_writer = write_cursor(part_message, sizeof part_message);
        wire_put_header(&part_writer, &header);
        wire_put_part(&part_writer, &part);
        fixture_handle(&fixture, part_message, write_cursor_used(&part_writer));
        struct read_cursor rest;
        ck_assert(fixture_reply(&only_client, 1000, &answer, &rest));
        ck_assert_int_eq(answer.status, KV_OK);
        sent += bytes;
        if (sent < size)
            continue;
        struct wire_outcome outcome;
        struct wire_result result;
        ck_assert_int_eq(wire_get_result(&rest, &result), KV_OK);
        ck_assert_int_eq(result.status, KV_VALUE_TOO_BIG);
        struct read_cursor value = read_cursor(result.value.data, result.value.size);
        ck_assert_int_eq(wire_get_outcome(&value, &outcome), KV_OK);
        ck_assert_int_eq(outcome.about, WIRE_ABOUT_STEP);
        ck_assert_uint_eq(outcome.at, 1);
    }
    assert_absent("a");
}
END_TEST

TEST_SUITE(serverk_transact)
{
    TCase *tests = tcase_create("transact");
    one_client_case_add(tests);
    tcase_add_test(tests, every_step_tells_what_its_operation_tells);
    tcase_add_test(tests, guards_decide_which_list_is_done);
    tcase_add_test(tests, what_fails_changes_nothing_and_is_named);
    tcase_add_test(tests, what_cannot_be_read_is_named);
    tcase_add_test(tests, as_many_steps_as_there_may_be);
    tcase_add_test(tests, a_reply_without_room_changes_nothing);
    tcase_add_test(tests, transactions_are_counted);
    tcase_add_test(tests, values_that_are_too_big_are_named);
    suite_add_tcase(suite, tests);
    TCase *late = tcase_create("elsewhere");
    late_client_case_add(late);
    tcase_add_test(late, every_step_tells_what_its_operation_tells);
    tcase_add_test(late, guards_decide_which_list_is_done);
    tcase_add_test(late, what_fails_changes_nothing_and_is_named);
    tcase_add_test(late, what_cannot_be_read_is_named);
    tcase_add_test(late, as_many_steps_as_there_may_be);
    tcase_add_test(late, a_reply_without_room_changes_nothing);
    suite_add_tcase(suite, late);
}
