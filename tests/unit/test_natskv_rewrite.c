/* nats_rewrite: writes that wait for one key, executed on the entry as it was read. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_rewrite.h"
#include "bridges/cluster/natskv/natskv_options.h"
#include "tests/support/test_suite.h"

#define MAX_VALUE 100u
#define SEQUENCE  9u

static struct nats_rewrite rewrite;
static struct engine_operation operations[8];
static unsigned count;

static void set_up(void)
{
    memset(operations, 0, sizeof operations);
    count = 0;
}

static void tear_down(void)
{
    nats_rewrite_free(&rewrite);
}

static struct engine_operation *next_is(enum engine_opcode opcode, const char *value)
{
    struct engine_operation *operation = &operations[count];
    operation->opcode = opcode;
    operation->value = kv_slice_from_string(value);
    if (count > 0)
        operations[count - 1].next = operation;
    count++;
    return operation;
}

static struct nats_entry entry_of(const char *value)
{
    return (struct nats_entry){
        .present = true, .sequence = SEQUENCE, .value = kv_slice_from_string(value)};
}

static void run(const char *value)
{
    struct nats_entry entry = value ? entry_of(value) : (struct nats_entry){.sequence = SEQUENCE};
    nats_rewrite_run(&rewrite, &entry, operations, MAX_VALUE);
}

static void assert_value(const char *value)
{
    ck_assert(rewrite.present);
    ck_assert(kv_slice_equal(rewrite.value, kv_slice_from_string(value)));
}

START_TEST(each_sees_what_those_before_it_did)
{
    next_is(ENGINE_ADD, "")->delta = 5;
    next_is(ENGINE_APPEND, "0");
    next_is(ENGINE_ADD, "")->delta = -1;
    next_is(ENGINE_APPEND, "x");
    next_is(ENGINE_ADD, "")->delta = 1;
    next_is(ENGINE_PUT, "new");
    next_is(ENGINE_APPEND, "er");
    run("2");
    assert_value("newer");
    ck_assert_uint_eq(rewrite.changes, 6);
    ck_assert_int_eq(operations[0].number, 7);
    ck_assert_int_eq(operations[1].number, 2);
    ck_assert_int_eq(operations[2].number, 69);
    ck_assert_int_eq(operations[3].number, 3);
    ck_assert_int_eq(operations[4].status, KV_NOT_A_NUMBER);
    ck_assert_int_eq(operations[6].number, 5);
}
END_TEST

START_TEST(each_has_a_version_of_its_own_and_the_last_one_stays)
{
    for (unsigned i = 0; i < 3; i++)
        next_is(ENGINE_ADD, "")->delta = 1;
    operations[1].add.if_present = operations[1].add.has_max = true; /* refused */
    run("1");
    ck_assert_int_eq(operations[1].status, KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(operations[1].number, 2);
    nats_rewrite_tell_versions(&rewrite, operations, 10);
    ck_assert_uint_eq(operations[2].entry.version, 10 * NATSKV_FOLD);
    ck_assert_uint_eq(operations[0].entry.version, 10 * NATSKV_FOLD - 1);
    ck_assert_uint_eq(operations[1].entry.version, 0);
    ck_assert_uint_gt(operations[0].entry.version, SEQUENCE * NATSKV_FOLD);
}
END_TEST

START_TEST(conditions_look_at_what_is_there_by_then)
{
    next_is(ENGINE_PUT, "a")->put.condition = KVSTORE_IF_ABSENT;
    next_is(ENGINE_PUT, "b")->put.condition = KVSTORE_IF_ABSENT;
    next_is(ENGINE_DELETE, "");
    next_is(ENGINE_DELETE, "");
    next_is(ENGINE_PUT, "c")->put.condition = KVSTORE_IF_PRESENT;
    next_is(ENGINE_TOUCH, "");
    run(NULL);
    static const enum kv_status expected[] = {KV_OK,        KV_EXISTS,    KV_OK,
                                              KV_NOT_FOUND, KV_NOT_FOUND, KV_NOT_FOUND};
    for (unsigned i = 0; i < count; i++)
        ck_assert_int_eq(operations[i].status, expected[i]);
    ck_assert(!rewrite.present);
    ck_assert_uint_eq(rewrite.changes, 2);
}
END_TEST

START_TEST(a_version_holds_until_the_first_change)
{
    for (unsigned i = 0; i < 2; i++) {
        struct engine_operation *put = next_is(ENGINE_PUT, "v");
        put->put.condition = KVSTORE_IF_VERSION;
        put->put.version = SEQUENCE * NATSKV_FOLD;
    }
    next_is(ENGINE_DELETE, "")->put.version = SEQUENCE * NATSKV_FOLD - 1;
    run("old");
    ck_assert_int_eq(operations[0].status, KV_OK);
    ck_assert_int_eq(operations[1].status, KV_VERSION_MISMATCH);
    ck_assert_int_eq(operations[2].status, KV_VERSION_MISMATCH);
}
END_TEST

START_TEST(expiry_is_kept_or_set)
{
    uint64_t later_ms = clock_realtime_ms() + 60000;
    next_is(ENGINE_TOUCH, "")->put.expiry_ms = later_ms;
    next_is(ENGINE_ADD, "")->delta = 1;
    next_is(ENGINE_PUT, "5")->put.keep_expiry = true;
    run("1");
    ck_assert_uint_eq(rewrite.expiry_ms, later_ms);
    next_is(ENGINE_PUT, "6");
    run("1");
    ck_assert_uint_eq(rewrite.expiry_ms, 0);
    next_is(ENGINE_TOUCH, "")->put.expiry_ms = 1;
    next_is(ENGINE_APPEND, "x");
    run("1");
    assert_value("x");
    ck_assert_int_eq(operations[count - 1].number, 1);
}
END_TEST

static char old_value[16];

static void *place(void *context, size_t bytes)
{
    return bytes <= *(size_t *)context ? old_value : NULL;
}

START_TEST(an_exchange_needs_a_place_for_the_old_value)
{
    size_t room = 3;
    for (unsigned i = 0; i < 2; i++) {
        struct engine_operation *exchange = next_is(ENGINE_EXCHANGE, i == 0 ? "four" : "new");
        exchange->place = place;
        exchange->context = &room;
    }
    run("old");
    ck_assert_int_eq(operations[0].status, KV_OK);
    ck_assert(operations[0].found);
    ck_assert_str_eq(old_value, "old");
    ck_assert_int_eq(operations[1].status, KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(operations[1].entry.value_bytes, 4);
    assert_value("four");
}
END_TEST

START_TEST(what_would_be_too_large_changes_nothing)
{
    char large[MAX_VALUE + 1];
    memset(large, 'x', MAX_VALUE);
    large[MAX_VALUE] = '\0';
    next_is(ENGINE_APPEND, large);
    run("1");
    ck_assert_int_eq(operations[0].status, KV_VALUE_TOO_BIG);
    ck_assert_uint_eq(rewrite.changes, 0);
    next_is(ENGINE_ADD, "")->delta = INT64_MAX;
    run("1");
    ck_assert_int_eq(operations[1].status, KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(operations[1].number, 1);
}
END_TEST

static void assert_failed(const struct engine_operation *operation, enum kv_status status)
{
    ck_assert_int_eq(operation->status, status);
    ck_assert_ptr_nonnull(operation->sentence);
    ck_assert(!operation->found);
    ck_assert_uint_eq(operation->entry.version, 0);
    ck_assert_uint_eq(operation->entry.value_bytes, 0);
    ck_assert_int_eq(operation->number, 0);
}

START_TEST(what_rests_on_a_failed_write_fails_too)
{
    next_is(ENGINE_PUT, "x")->put.condition = KVSTORE_IF_ABSENT;
    next_is(ENGINE_DELETE, "");
    next_is(ENGINE_DELETE, "");
    run("1");
    ck_assert_int_eq(operations[2].status, KV_NOT_FOUND);
    nats_rewrite_fail(operations, KV_NO_SERVER, "why");
    ck_assert_int_eq(operations[0].status, KV_EXISTS); /* looked at what is there */
    ck_assert_ptr_null(operations[0].sentence);
    assert_failed(&operations[1], KV_NO_SERVER);
    assert_failed(&operations[2], KV_NO_SERVER);
    ck_assert_str_eq(operations[2].sentence, "why");
}
END_TEST

START_TEST(only_changes_may_have_been_applied)
{
    size_t room = 0;
    next_is(ENGINE_ADD, "")->delta = 1;
    next_is(ENGINE_PUT, "x")->put.condition = KVSTORE_IF_ABSENT;
    struct engine_operation *exchange = next_is(ENGINE_EXCHANGE, "y");
    exchange->place = place;
    exchange->context = &room;
    struct engine_operation *add = next_is(ENGINE_ADD, "");
    add->delta = 1;
    add->add.has_max = true; /* of 0 */
    next_is(ENGINE_APPEND, "z");
    run("1");
    ck_assert_int_eq(operations[1].status, KV_EXISTS);
    ck_assert_int_eq(operations[2].status, KV_BUFFER_TOO_SMALL);
    ck_assert_int_eq(operations[3].status, KV_OUT_OF_BOUNDS);
    nats_rewrite_fail(operations, KV_OUTCOME_UNKNOWN, "why");
    assert_failed(&operations[0], KV_OUTCOME_UNKNOWN);
    for (unsigned i = 1; i < 4; i++)
        assert_failed(&operations[i], KV_NO_SERVER);
    assert_failed(&operations[4], KV_OUTCOME_UNKNOWN);
    ck_assert_str_eq(operations[4].sentence, "why");
}
END_TEST

TEST_SUITE(natskv_rewrite)
{
    TCase *cases = tcase_create("rewrite");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, each_sees_what_those_before_it_did);
    tcase_add_test(cases, each_has_a_version_of_its_own_and_the_last_one_stays);
    tcase_add_test(cases, conditions_look_at_what_is_there_by_then);
    tcase_add_test(cases, a_version_holds_until_the_first_change);
    tcase_add_test(cases, expiry_is_kept_or_set);
    tcase_add_test(cases, an_exchange_needs_a_place_for_the_old_value);
    tcase_add_test(cases, what_would_be_too_large_changes_nothing);
    tcase_add_test(cases, what_rests_on_a_failed_write_fails_too);
    tcase_add_test(cases, only_changes_may_have_been_applied);
    suite_add_tcase(suite, cases);
}
