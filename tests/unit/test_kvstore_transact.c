/*
 * What a transaction answers and does (kvstore_transact), in stores of one data file and of
 * several. That it leaves nothing where it fails half-way: test_kvstore_transact_undo.c.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "tests/support/asked_transaction.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)
#define LATER_MS  100000u

static const uint32_t file_counts[] = {1, 2, 8};
#define FILE_COUNTS ((int)(sizeof file_counts / sizeof *file_counts))

static struct asked_transaction asked;

static void open_store(int variant)
{
    store = must_open(dir,
                      &(struct kvstore_options){.create = true, .datafiles = file_counts[variant]});
    asked = (struct asked_transaction){0};
}

static void put_expired(const char *key, const char *value)
{
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 1};
    ck_assert_int_eq(kvstore_put(store, KEY(key), KEY(value), &soon, NULL), KV_OK);
    while (clock_realtime_ms() <= soon.expiry_ms)
        clock_sleep_ms(1);
}

static void assert_text(const char *key, const char *value)
{
    const char *text = get_text(store, key);
    if (value)
        ck_assert_str_eq(text ? text : "(absent)", value);
    else
        ck_assert_ptr_null(text);
}

/* Does a transaction of one guard that writes "then" or "otherwise" to "out". */
static bool guard_holds(enum kvstore_guard_kind kind, const char *key, uint64_t version,
                        const char *value)
{
    asked = (struct asked_transaction){0};
    struct kvstore_guard *guard = asked_guard(&asked, kind, key);
    guard->version = version;
    guard->value = KEY(value);
    asked_then(&asked, KVSTORE_STEP_PUT, "out", "then");
    asked_otherwise(&asked, KVSTORE_STEP_PUT, "out", "otherwise");
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert_int_eq(asked.results[0].status, KV_OK);
    assert_text("out", asked.told.held ? "then" : "otherwise");
    if (!asked.told.held)
        ck_assert_uint_eq(asked.told.guard, 0);
    return asked.told.held;
}

START_TEST(each_guard_holds_or_not)
{
    open_store(_i);
    uint64_t version = must_put(store, "key", "value");
    put_expired("gone", "value");
    ck_assert(guard_holds(KVSTORE_GUARD_PRESENT, "key", 0, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_PRESENT, "none", 0, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_PRESENT, "gone", 0, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_ABSENT, "key", 0, ""));
    ck_assert(guard_holds(KVSTORE_GUARD_ABSENT, "none", 0, ""));
    ck_assert(guard_holds(KVSTORE_GUARD_ABSENT, "gone", 0, ""));
    ck_assert(guard_holds(KVSTORE_GUARD_VERSION, "key", version, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_VERSION, "key", version + 1, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_VERSION, "key", 0, ""));
    ck_assert(guard_holds(KVSTORE_GUARD_VERSION, "none", 0, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_VERSION, "none", version, ""));
    ck_assert(guard_holds(KVSTORE_GUARD_VERSION, "gone", 0, ""));
    ck_assert(guard_holds(KVSTORE_GUARD_VALUE, "key", 0, "value"));
    ck_assert(!guard_holds(KVSTORE_GUARD_VALUE, "key", 0, "valu"));
    ck_assert(!guard_holds(KVSTORE_GUARD_VALUE, "key", 0, "valuf"));
    ck_assert(!guard_holds(KVSTORE_GUARD_VALUE, "none", 0, ""));
    ck_assert(!guard_holds(KVSTORE_GUARD_VALUE, "gone", 0, "value"));
    must_put(store, "empty", "");
    ck_assert(guard_holds(KVSTORE_GUARD_VALUE, "empty", 0, ""));
}
END_TEST

START_TEST(the_first_guard_that_does_not_hold_is_told)
{
    open_store(_i);
    must_put(store, "a", "1");
    asked_guard(&asked, KVSTORE_GUARD_PRESENT, "a");
    asked_guard(&asked, KVSTORE_GUARD_ABSENT, "b");
    asked_guard(&asked, KVSTORE_GUARD_PRESENT, "c");
    asked_guard(&asked, KVSTORE_GUARD_PRESENT, "d");
    asked_then(&asked, KVSTORE_STEP_PUT, "a", "2");
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert(!asked.told.held);
    ck_assert_uint_eq(asked.told.guard, 2);
    assert_text("a", "1"); /* nothing otherwise: nothing is done */
    must_put(store, "c", "");
    must_put(store, "d", "");
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert(asked.told.held);
    assert_text("a", "2");
}
END_TEST

START_TEST(each_step_does_what_its_call_does)
{
    open_store(_i);
    uint64_t later_ms = clock_realtime_ms() + LATER_MS;
    struct kvstore_put_options expiring = {.expiry_ms = later_ms};
    struct kvstore_entry entry;
    must_put(store, "put", "old");
    must_put(store, "deleted", "old");
    must_put(store, "number", "40");
    must_put(store, "appended", "ab");
    must_put(store, "touched", "t");
    ck_assert_int_eq(kvstore_put(store, KEY("kept"), KEY("old"), &expiring, NULL), KV_OK);
    ck_assert_int_eq(kvstore_put(store, KEY("reset"), KEY("old"), &expiring, NULL), KV_OK);
    ck_assert_int_eq(kvstore_put(store, KEY("sum"), KEY("1"), &expiring, NULL), KV_OK);
    asked_then(&asked, KVSTORE_STEP_PUT, "put", "new");
    asked_then(&asked, KVSTORE_STEP_DELETE, "deleted", NULL);
    asked_then(&asked, KVSTORE_STEP_ADD, "number", NULL)->delta = 2;
    asked_then(&asked, KVSTORE_STEP_APPEND, "appended", "cde");
    asked_then(&asked, KVSTORE_STEP_TOUCH, "touched", NULL)->expiry_ms = later_ms;
    asked_then(&asked, KVSTORE_STEP_PUT, "kept", "new")->keep_expiry = true;
    asked_then(&asked, KVSTORE_STEP_PUT, "reset", "new");
    asked_then(&asked, KVSTORE_STEP_ADD, "sum", NULL)->delta = -2;
    asked_then(&asked, KVSTORE_STEP_PUT, "created", "")->expiry_ms = later_ms;
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert(asked.told.held);
    for (uint32_t i = 0; i < asked.asked.then_count; i++) {
        const struct kvstore_step *step = &asked.then[i];
        const struct kvstore_written *written = &asked.results[i].written;
        ck_assert_int_eq(asked.results[i].status, KV_OK);
        ck_assert_uint_gt(written->ticket.position, 0);
        ck_assert_uint_eq(written->ticket.file, kvstore_file_of(store, step->key));
        if (step->kind == KVSTORE_STEP_DELETE)
            continue;
        ck_assert_int_eq(kvstore_get(store, step->key, NULL, 0, &entry), KV_OK);
        ck_assert_uint_eq(written->version, entry.version);
        bool expires = i == 4 || i == 5 || i >= 7;
        ck_assert_uint_eq(entry.expiry_ms, expires ? later_ms : 0);
    }
    assert_text("put", "new");
    assert_text("deleted", NULL);
    assert_text("number", "42");
    assert_text("appended", "abcde");
    assert_text("touched", "t");
    assert_text("kept", "new");
    assert_text("reset", "new");
    assert_text("sum", "-1");
    assert_text("created", "");
    ck_assert_int_eq(asked.results[2].number, 42);
    ck_assert_int_eq(asked.results[3].number, 5);
    ck_assert_int_eq(asked.results[7].number, -1);
    ck_assert_int_eq(kvstore_wait_durable(store, asked.results[8].written.ticket), KV_OK);
    for (uint32_t i = 0; i < asked.asked.then_count; i++) /* one of them is: all of them are */
        ck_assert(kvstore_is_durable(store, asked.results[i].written.ticket));
}
END_TEST

/* All of `key`, which is not there or has expired. */
static void do_steps_on_absent(const char *key, enum kvstore_step_kind kind)
{
    asked = (struct asked_transaction){0};
    asked_then(&asked, kind, key, kind == KVSTORE_STEP_APPEND ? "tail" : NULL);
    asked_then(&asked, KVSTORE_STEP_GET, key, NULL);
    asked_then(&asked, KVSTORE_STEP_PUT, "beside", "x");
    asked.then[0].delta = 7;
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert_int_eq(asked.results[1].status, KV_NOT_FOUND);
    ck_assert_int_eq(asked.results[2].status, KV_OK);
}

START_TEST(steps_on_what_is_absent)
{
    open_store(_i);
    for (int expired = 0; expired < 2; expired++) {
        const char *key = expired ? "expired" : "absent";
        if (expired)
            put_expired(key, "1");
        const enum kvstore_step_kind not_found[] = {KVSTORE_STEP_DELETE, KVSTORE_STEP_TOUCH,
                                                    KVSTORE_STEP_GET, KVSTORE_STEP_EXISTS};
        for (size_t i = 0; i < sizeof not_found / sizeof *not_found; i++) {
            do_steps_on_absent(key, not_found[i]);
            ck_assert_int_eq(asked.results[0].status, KV_NOT_FOUND);
            ck_assert_uint_eq(asked.results[0].written.ticket.position, 0);
            assert_text(key, NULL);
        }
        do_steps_on_absent(key, KVSTORE_STEP_APPEND);
        ck_assert_int_eq(asked.results[0].number, 4);
        assert_text(key, "tail");
        must_put(store, key, "");
        ck_assert_int_eq(kvstore_delete(store, KEY(key), 0, NULL), KV_OK);
        if (expired)
            put_expired(key, "1");
        do_steps_on_absent(key, KVSTORE_STEP_ADD);
        ck_assert_int_eq(asked.results[0].number, 7);
        assert_text(key, "7");
    }
}
END_TEST

/* What a record that is not used any more says about its value does not matter. */
START_TEST(touching_what_has_expired_asks_for_no_room)
{
    char large[5000] = {0};
    open_store(_i);
    memset(large, 'x', sizeof large - 1);
    put_expired("key", large);
    ck_assert_int_eq(kvstore_set_max_value_bytes(store, 100), KV_OK);
    asked_then(&asked, KVSTORE_STEP_TOUCH, "key", NULL)->expiry_ms = clock_realtime_ms() + LATER_MS;
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert_int_eq(asked.results[0].status, KV_NOT_FOUND);
}
END_TEST

START_TEST(reads_see_what_was_there_before)
{
    open_store(_i);
    for (int first = 0; first < 2; first++) {
        must_put(store, "number", "1");
        must_put(store, "gone", "there");
        uint64_t version = must_put(store, "key", "before");
        asked = (struct asked_transaction){0};
        for (int round = 0; round < 2; round++) {
            if (round == first) {
                asked_then(&asked, KVSTORE_STEP_PUT, "key", "after");
                asked_then(&asked, KVSTORE_STEP_DELETE, "gone", NULL);
                asked_then(&asked, KVSTORE_STEP_ADD, "number", NULL)->delta = 1;
            } else {
                asked_then(&asked, KVSTORE_STEP_GET, "key", NULL);
                asked_then(&asked, KVSTORE_STEP_GET, "gone", NULL);
                asked_then(&asked, KVSTORE_STEP_GET, "number", NULL);
                asked_then(&asked, KVSTORE_STEP_EXISTS, "key", NULL);
                asked_then(&asked, KVSTORE_STEP_EXISTS, "new", NULL);
            }
        }
        asked_then(&asked, KVSTORE_STEP_PUT, "new", "x");
        uint32_t reads = first == 0 ? 3 : 0;
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
        ck_assert_str_eq(asked.values[reads], "before");
        ck_assert_uint_eq(asked.results[reads].entry.version, version);
        ck_assert_uint_eq(asked.results[reads].entry.value_bytes, 6);
        ck_assert_str_eq(asked.values[reads + 1], "there");
        ck_assert_str_eq(asked.values[reads + 2], "1");
        ck_assert_int_eq(asked.results[reads + 3].status, KV_OK);
        ck_assert_uint_eq(asked.results[reads + 3].entry.version, version);
        ck_assert_int_eq(asked.results[reads + 4].status, KV_NOT_FOUND);
        assert_text("key", "after");
        assert_text("gone", NULL);
        assert_text("number", "2");
        ck_assert_int_eq(kvstore_delete(store, KEY("new"), 0, NULL), KV_OK);
    }
}
END_TEST

static void *no_place(void *context, uint32_t step, size_t bytes)
{
    uint32_t *calls = context;
    ck_assert_uint_eq(step, 1);
    ck_assert_uint_eq(bytes, 5);
    ++*calls;
    return NULL;
}

START_TEST(a_value_without_a_place_is_no_failure)
{
    uint32_t calls = 0;
    struct kvstore_step_result results[3];
    struct kvstore_step steps[] = {{.kind = KVSTORE_STEP_PUT, .key = KEY("put"), .value = KEY("x")},
                                   {.kind = KVSTORE_STEP_GET, .key = KEY("key")},
                                   {.kind = KVSTORE_STEP_GET, .key = KEY("none")}};
    struct kvstore_transaction transaction = {.then = steps, .then_count = 3};
    open_store(_i);
    uint64_t version = must_put(store, "key", "value");
    for (int with_place = 0; with_place < 2; with_place++) {
        transaction.place = with_place ? no_place : NULL;
        transaction.context = &calls;
        ck_assert_int_eq(kvstore_transact(store, &transaction, results, NULL), KV_OK);
        ck_assert_int_eq(results[1].status, KV_BUFFER_TOO_SMALL);
        ck_assert_uint_eq(results[1].entry.version, version);
        ck_assert_uint_eq(results[1].entry.value_bytes, 5);
        ck_assert_int_eq(results[2].status, KV_NOT_FOUND);
        assert_text("put", "x");
        ck_assert_int_eq(kvstore_delete(store, KEY("put"), 0, NULL), KV_OK);
    }
    ck_assert_uint_ge(calls, 1);
}
END_TEST

START_TEST(a_transaction_of_nothing_does_nothing)
{
    open_store(_i);
    ck_assert_int_eq(kvstore_transact(store, &(struct kvstore_transaction){0}, NULL, NULL), KV_OK);
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert(asked.told.held);
}
END_TEST

/* Refusals ------------------------------------------------------------------------------------ */

static void assert_refused(enum kv_status status, bool held, bool in_guard, uint32_t at)
{
    ck_assert_int_eq(asked_do(&asked, store), status);
    ck_assert_int_eq(asked.told.in_guard, in_guard);
    ck_assert_uint_eq(asked.told.at, at);
    if (!in_guard)
        ck_assert_int_eq(asked.told.held, held);
    assert_text("witness", "w");
    ck_assert_uint_eq(total_statistics(store).keys, 1);
}

/* An empty store but for "witness", and a transaction that writes that, in each list. */
static void begin_refusal(void)
{
    must_put(store, "witness", "w");
    asked = (struct asked_transaction){0};
    asked_then(&asked, KVSTORE_STEP_PUT, "witness", "changed");
    asked_otherwise(&asked, KVSTORE_STEP_PUT, "witness", "changed");
}

START_TEST(what_cannot_be_understood_is_refused)
{
    open_store(_i);
    begin_refusal();
    asked_then(&asked, KVSTORE_STEP_DELETE, "witness", NULL); /* twice */
    assert_refused(KV_USAGE, true, false, 1);
    begin_refusal();
    asked_otherwise(&asked, KVSTORE_STEP_GET, "witness", NULL);
    asked_otherwise(&asked, KVSTORE_STEP_TOUCH, "witness", NULL);
    assert_refused(KV_USAGE, false, false, 2);
    begin_refusal();
    asked_then(&asked, KVSTORE_STEP_PUT, "", "x");
    assert_refused(KV_BAD_KEY, true, false, 1);
    begin_refusal();
    asked_otherwise(&asked, KVSTORE_STEP_GET, "", NULL);
    assert_refused(KV_BAD_KEY, false, false, 1);
    begin_refusal();
    asked_guard(&asked, KVSTORE_GUARD_ABSENT, "x");
    asked_guard(&asked, KVSTORE_GUARD_ABSENT, "");
    assert_refused(KV_BAD_KEY, false, true, 1);
    begin_refusal();
    asked_guard(&asked, KVSTORE_GUARDS, "x");
    assert_refused(KV_USAGE, false, true, 0);
    begin_refusal();
    asked_then(&asked, KVSTORE_STEPS, "x", NULL);
    assert_refused(KV_USAGE, true, false, 1);
    begin_refusal();
    asked_then(&asked, (enum kvstore_step_kind) - 1, "x", NULL);
    assert_refused(KV_USAGE, true, false, 1);
}
END_TEST

START_TEST(reserved_space_is_refused)
{
    open_store(_i);
    begin_refusal();
    asked_guard(&asked, KVSTORE_GUARD_ABSENT, "x")->reserved[0] = 1;
    assert_refused(KV_UNSUPPORTED, false, true, 0);
    begin_refusal();
    asked_then(&asked, KVSTORE_STEP_GET, "x", NULL)->reserved[0] = 1;
    assert_refused(KV_UNSUPPORTED, true, false, 1);
    begin_refusal();
    asked_otherwise(&asked, KVSTORE_STEP_ADD, "x", NULL)->add.reserved[0] = 1;
    assert_refused(KV_UNSUPPORTED, false, false, 1);
    begin_refusal();
    asked_then(&asked, KVSTORE_STEP_ADD, "x", NULL)->add.reserved_bytes[6] = 1;
    assert_refused(KV_UNSUPPORTED, true, false, 1);
    begin_refusal();
    asked.asked.reserved[1] = 1;
    assert_refused(KV_UNSUPPORTED, false, false, 0);
}
END_TEST

START_TEST(there_may_be_128_in_all)
{
    static char keys[ASKED_MOST][16];
    open_store(_i);
    for (uint32_t i = 0; i < ASKED_MOST; i++) {
        strcpy(keys[i], numbered("key", (int)i));
        if (i % 3 == 0)
            asked_guard(&asked, KVSTORE_GUARD_ABSENT, keys[i]);
        else if (i % 3 == 1)
            asked_then(&asked, KVSTORE_STEP_PUT, keys[i], keys[i]);
        else
            asked_otherwise(&asked, KVSTORE_STEP_PUT, keys[i], keys[i]);
    }
    ck_assert_int_eq(asked_do(&asked, store), KV_USAGE);
    ck_assert_uint_eq(total_statistics(store).keys, 0);
    asked.asked.guard_count = UINT32_MAX; /* and sums do not overflow */
    ck_assert_int_eq(asked_do(&asked, store), KV_USAGE);
    asked.asked.guard_count = 0;
    asked.asked.then_count = 0;
    asked.asked.otherwise_count = 0;
    for (uint32_t i = 0; i < KVSTORE_MAX_TRANSACTION_STEPS; i++)
        asked_then(&asked, KVSTORE_STEP_PUT, keys[i], keys[i]);
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    for (uint32_t i = 0; i < KVSTORE_MAX_TRANSACTION_STEPS; i++)
        assert_text(keys[i], keys[i]);
    for (uint32_t i = 0; i < KVSTORE_MAX_TRANSACTION_STEPS; i++)
        asked.then[i].kind = i % 2 ? KVSTORE_STEP_DELETE : KVSTORE_STEP_GET;
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    for (uint32_t i = 0; i < KVSTORE_MAX_TRANSACTION_STEPS; i++)
        assert_text(keys[i], i % 2 ? NULL : keys[i]);
}
END_TEST

START_TEST(a_step_that_fails_is_told_and_nothing_changes)
{
    char large[200] = {0};
    open_store(_i);
    memset(large, 'x', sizeof large - 1);
    ck_assert_int_eq(kvstore_set_max_value_bytes(store, 100), KV_OK);
    begin_refusal();
    asked_then(&asked, KVSTORE_STEP_PUT, "other", "x");
    asked_then(&asked, KVSTORE_STEP_PUT, "large", large);
    assert_refused(KV_VALUE_TOO_BIG, true, false, 2);
    begin_refusal();
    asked_guard(&asked, KVSTORE_GUARD_PRESENT, "none");
    asked_otherwise(&asked, KVSTORE_STEP_PUT, "other", "x");
    asked_otherwise(&asked, KVSTORE_STEP_ADD, "number", NULL)->add.if_present = true;
    assert_refused(KV_NOT_FOUND, false, false, 2);
    begin_refusal();
    struct kvstore_step *bounded = asked_then(&asked, KVSTORE_STEP_ADD, "number", NULL);
    bounded->delta = -1;
    bounded->add = (struct kvstore_add_options){.has_min = true, .initial = 0};
    asked_then(&asked, KVSTORE_STEP_PUT, "other", "x");
    assert_refused(KV_OUT_OF_BOUNDS, true, false, 1);
    ck_assert_int_eq(asked.results[1].number, 0);
    begin_refusal();
    bounded = asked_then(&asked, KVSTORE_STEP_ADD, "number", NULL);
    bounded->delta = INT64_MAX;
    bounded->add.initial = 17;
    assert_refused(KV_OUT_OF_BOUNDS, true, false, 1);
    ck_assert_int_eq(asked.results[1].number, 17);
    begin_refusal();
    asked.then[0].kind = KVSTORE_STEP_ADD; /* "w" */
    asked_then(&asked, KVSTORE_STEP_PUT, "other", "x");
    assert_refused(KV_NOT_A_NUMBER, true, false, 0);
    begin_refusal();
    memset(large + 100, 0, 100);
    asked.then[0].kind = KVSTORE_STEP_APPEND;
    asked.then[0].value = KEY(large); /* 1 + 100 */
    assert_refused(KV_VALUE_TOO_BIG, true, false, 0);
}
END_TEST

START_TEST(a_store_that_is_read_only_answers_reads)
{
    open_store(_i);
    must_put(store, "a", "1");
    must_put(store, "b", "2");
    must_close(store);
    store = must_open(dir, &(struct kvstore_options){.read_only = true});
    asked_guard(&asked, KVSTORE_GUARD_PRESENT, "a");
    asked_then(&asked, KVSTORE_STEP_GET, "a", NULL);
    asked_then(&asked, KVSTORE_STEP_GET, "b", NULL);
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert_str_eq(asked.values[0], "1");
    ck_assert_str_eq(asked.values[1], "2");
    asked_otherwise(&asked, KVSTORE_STEP_PUT, "a", "x"); /* though it would not be done */
    ck_assert_int_eq(asked_do(&asked, store), KV_READ_ONLY);
}
END_TEST

START_TEST(what_was_done_is_there_after_the_next_start)
{
    static char keys[60][16];
    open_store(_i);
    for (int round = 0; round < 3; round++) {
        asked = (struct asked_transaction){0};
        for (int i = 0; i < 60; i++) {
            strcpy(keys[i], numbered("key", i));
            if (i % 3 == round)
                asked_then(&asked, round == 2 ? KVSTORE_STEP_PUT : KVSTORE_STEP_ADD, keys[i], "v")
                    ->delta = i;
            else if (i % 3 == 0)
                asked_then(&asked, KVSTORE_STEP_DELETE, keys[i], NULL);
        }
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    }
    must_close(store);
    store = must_open(dir, &(struct kvstore_options){0});
    for (int i = 0; i < 60; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        assert_text(keys[i], i % 3 == 0 ? NULL : i % 3 == 1 ? number : "v");
    }
}
END_TEST

TEST_SUITE(kvstore_transact)
{
    TCase *tests = tcase_create("transact");
    store_case_add(tests);
    tcase_add_loop_test(tests, each_guard_holds_or_not, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, the_first_guard_that_does_not_hold_is_told, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, each_step_does_what_its_call_does, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, steps_on_what_is_absent, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, touching_what_has_expired_asks_for_no_room, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, reads_see_what_was_there_before, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, a_value_without_a_place_is_no_failure, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, a_transaction_of_nothing_does_nothing, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, what_cannot_be_understood_is_refused, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, reserved_space_is_refused, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, there_may_be_128_in_all, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, a_step_that_fails_is_told_and_nothing_changes, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, a_store_that_is_read_only_answers_reads, 0, FILE_COUNTS);
    tcase_add_loop_test(tests, what_was_done_is_there_after_the_next_start, 0, FILE_COUNTS);
    suite_add_tcase(suite, tests);
}
