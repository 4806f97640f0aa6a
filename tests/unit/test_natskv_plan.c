/* nats_plan: what a transaction comes to on entries as they were read. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_plan.h"
#include "bridges/cluster/natskv/natskv_options.h"
#include "tests/support/test_suite.h"

#define PLAN_MAX_VALUE 100u

static struct nats_plan plan;
static struct kvstore_guard guards[8];
static struct kvstore_step steps[KVSTORE_MAX_TRANSACTION_STEPS + 1];
static struct kvstore_step_result plan_results[KVSTORE_MAX_TRANSACTION_STEPS];
static struct kvstore_transacted told;
static struct kvstore_transaction asked;
static char plan_place[64];
static bool has_place;

static void *place_in_test(void *context, uint32_t step, size_t bytes)
{
    (void)context, (void)step;
    ck_assert_uint_lt(bytes, sizeof plan_place);
    memset(plan_place, 0, sizeof plan_place);
    return has_place ? plan_place : NULL;
}

static void set_up_plan(void)
{
    memset(&plan, 0, sizeof plan);
    memset(guards, 0, sizeof guards);
    memset(steps, 0, sizeof steps);
    asked = (struct kvstore_transaction){.guards = guards, .then = steps, .place = place_in_test};
    has_place = true;
}

static void tear_down_plan(void)
{
    nats_plan_free(&plan);
}

static struct kvstore_guard *guard_is(enum kvstore_guard_kind kind, const char *key)
{
    struct kvstore_guard *guard = &guards[asked.guard_count++];
    guard->kind = kind;
    guard->key = kv_slice_from_string(key);
    return guard;
}

static struct kvstore_step *step_is(enum kvstore_step_kind kind, const char *key, const char *value)
{
    struct kvstore_step *step = &steps[asked.then_count++];
    step->kind = kind;
    step->key = kv_slice_from_string(key);
    step->value = kv_slice_from_string(value);
    return step;
}

static enum kv_status begin_plan(void)
{
    return nats_plan_begin(&plan, &asked, plan_results, &told, PLAN_MAX_VALUE);
}

/* value NULL: a tombstone. */
static void key_was(const char *key, uint64_t sequence, const char *value)
{
    for (uint32_t i = 0; i < plan.key_count; i++)
        if (kv_slice_equal(plan.keys[i].key, kv_slice_from_string(key)))
            plan.keys[i].entry = (struct nats_entry){.present = value != NULL,
                                                     .sequence = sequence,
                                                     .value = value ? kv_slice_from_string(value)
                                                                    : kv_slice(NULL, 0)};
}

static const struct planned_key *planned(const char *key)
{
    for (uint32_t i = 0; i < plan.key_count; i++)
        if (kv_slice_equal(plan.keys[i].key, kv_slice_from_string(key)))
            return &plan.keys[i];
    ck_abort_msg("%s is not planned", key);
}

START_TEST(each_key_is_read_once_and_only_if_it_matters)
{
    guard_is(KVSTORE_GUARD_PRESENT, "a");
    step_is(KVSTORE_STEP_ADD, "a", "")->delta = 1;
    step_is(KVSTORE_STEP_PUT, "b", "x");
    step_is(KVSTORE_STEP_GET, "c", "");
    step_is(KVSTORE_STEP_PUT, "d", "y")->keep_expiry = true;
    ck_assert_int_eq(begin_plan(), KV_OK);
    ck_assert_uint_eq(plan.key_count, 4);
    ck_assert(planned("a")->is_read && planned("c")->is_read && planned("d")->is_read);
    ck_assert(!planned("b")->is_read);
    key_was("a", 7, "41");
    key_was("c", 8, "found");
    ck_assert_int_eq(nats_plan_judge(&plan), KV_OK);
    ck_assert(told.held);
    ck_assert_uint_eq(plan.writes, 3);
    ck_assert(planned("a")->is_written && planned("a")->matters);
    ck_assert(kv_slice_equal(planned("a")->rewrite.value, kv_slice_from_string("42")));
    ck_assert_int_eq(plan_results[0].number, 42);
    ck_assert(planned("b")->is_written && !planned("b")->matters);
    ck_assert(!planned("c")->is_written && planned("c")->matters);
    ck_assert_str_eq(plan_place, "found");
    ck_assert_uint_eq(plan_results[2].entry.version, 8 * NATSKV_FOLD);
}
END_TEST

/* What is written after reading is so over what was read; what is not written is not guarded, which
 * older servers could not do. */
START_TEST(writes_after_reading_depend_on_what_was_read)
{
    plan.after_reading = true;
    step_is(KVSTORE_STEP_PUT, "put", "1");
    step_is(KVSTORE_STEP_PUT, "new", "1");
    step_is(KVSTORE_STEP_DELETE, "deleted", "");
    step_is(KVSTORE_STEP_DELETE, "absent", "");
    ck_assert_int_eq(begin_plan(), KV_OK);
    ck_assert(planned("put")->is_read && planned("new")->is_read && planned("absent")->is_read);
    key_was("put", 7, "0");
    key_was("deleted", 8, "0");
    key_was("absent", 9, NULL);
    ck_assert_int_eq(nats_plan_judge(&plan), KV_OK);
    ck_assert_uint_eq(plan.writes, 3);
    ck_assert(planned("put")->matters && planned("put")->is_written);
    ck_assert(planned("new")->matters && planned("new")->is_written);
    ck_assert(planned("deleted")->matters && planned("deleted")->is_written);
    ck_assert(!planned("absent")->matters && !planned("absent")->is_written);
}
END_TEST

START_TEST(guards_hold_or_the_first_that_does_not_is_told)
{
    static const struct kvstore_step other = {.kind = KVSTORE_STEP_PUT, .key = {"o", 1}};
    asked.otherwise = &other;
    asked.otherwise_count = 1;
    guard_is(KVSTORE_GUARD_VERSION, "a")->version = 7 * NATSKV_FOLD;
    guard_is(KVSTORE_GUARD_ABSENT, "dead");
    guard_is(KVSTORE_GUARD_VERSION, "dead")->version = 0;
    guard_is(KVSTORE_GUARD_VALUE, "a")->value = kv_slice_from_string("v");
    guard_is(KVSTORE_GUARD_PRESENT, "b");
    step_is(KVSTORE_STEP_DELETE, "a", "");
    step_is(KVSTORE_STEP_TOUCH, "dead", "");
    ck_assert_int_eq(begin_plan(), KV_OK);
    key_was("a", 7, "v");
    key_was("dead", 5, NULL);
    key_was("b", 9, "w");
    ck_assert_int_eq(nats_plan_judge(&plan), KV_OK);
    ck_assert(told.held);
    ck_assert_uint_eq(plan.writes, 1); /* what is absent is not touched */
    ck_assert_int_eq(plan_results[1].status, KV_NOT_FOUND);
    ck_assert(planned("dead")->matters);
    key_was("b", 10, NULL);
    ck_assert_int_eq(nats_plan_judge(&plan), KV_OK);
    ck_assert(!told.held);
    ck_assert_uint_eq(told.guard, 4);
    ck_assert(planned("o")->is_written && !planned("a")->is_written);
    key_was("a", 8, "v");
    ck_assert_int_eq(nats_plan_judge(&plan), KV_OK);
    ck_assert_uint_eq(told.guard, 0);
    ck_assert(!planned("b")->matters); /* nobody has looked at it */
}
END_TEST

START_TEST(a_step_that_fails_is_told)
{
    step_is(KVSTORE_STEP_PUT, "a", "x");
    struct kvstore_step *add = step_is(KVSTORE_STEP_ADD, "n", "");
    add->delta = -9;
    add->add.has_min = true;
    ck_assert_int_eq(begin_plan(), KV_OK);
    key_was("n", 3, "5");
    ck_assert_int_eq(nats_plan_judge(&plan), KV_OUT_OF_BOUNDS);
    ck_assert_uint_eq(told.at, 1);
    ck_assert(told.held && !told.in_guard);
    ck_assert_int_eq(plan_results[1].number, 5);
    key_was("n", 3, "five");
    ck_assert_int_eq(nats_plan_judge(&plan), KV_NOT_A_NUMBER);
}
END_TEST

START_TEST(a_value_without_a_place_is_told_with_its_size)
{
    step_is(KVSTORE_STEP_GET, "a", "");
    step_is(KVSTORE_STEP_PUT, "b", "x");
    ck_assert_int_eq(begin_plan(), KV_OK);
    key_was("a", 3, "12345");
    has_place = false;
    ck_assert_int_eq(nats_plan_judge(&plan), KV_BUFFER_TOO_SMALL);
    ck_assert_int_eq(plan_results[0].status, KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(plan_results[0].entry.value_bytes, 5);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    step_is(KVSTORE_STEP_PUT, "a", "x");
    step_is(KVSTORE_STEP_GET, "a", "");
    ck_assert_int_eq(begin_plan(), KV_OK);
    step_is(KVSTORE_STEP_DELETE, "a", "");
    ck_assert_int_eq(begin_plan(), KV_USAGE);
    ck_assert_uint_eq(told.at, 2);
    steps[2].key = kv_slice(NULL, 0);
    ck_assert_int_eq(begin_plan(), KV_BAD_KEY);
    asked.then_count = KVSTORE_MAX_TRANSACTION_STEPS + 1;
    ck_assert_int_eq(begin_plan(), KV_USAGE);
    asked.then_count = 1;
    guard_is(KVSTORE_GUARD_PRESENT, "");
    ck_assert_int_eq(begin_plan(), KV_BAD_KEY);
    ck_assert(told.in_guard);
    asked.guard_count = 0;
    static char large[PLAN_MAX_VALUE + 1];
    steps[0].value = kv_slice(large, sizeof large);
    ck_assert_int_eq(begin_plan(), KV_VALUE_TOO_BIG);
}
END_TEST

START_TEST(a_key_is_blamed_where_it_stands_first)
{
    static const struct kvstore_step other = {.kind = KVSTORE_STEP_PUT, .key = {"c", 1}};
    asked.otherwise = &other;
    asked.otherwise_count = 1;
    guard_is(KVSTORE_GUARD_PRESENT, "a");
    step_is(KVSTORE_STEP_PUT, "a", "x");
    step_is(KVSTORE_STEP_PUT, "b", "x");
    ck_assert_int_eq(begin_plan(), KV_OK);
    nats_plan_blame_key(&plan, 0);
    ck_assert(told.in_guard);
    ck_assert_uint_eq(told.at, 0);
    nats_plan_blame_key(&plan, 1);
    ck_assert(!told.in_guard && told.held);
    ck_assert_uint_eq(told.at, 1);
    nats_plan_blame_key(&plan, 2);
    ck_assert(!told.in_guard && !told.held);
    ck_assert_uint_eq(told.at, 0);
}
END_TEST

TEST_SUITE(natskv_plan)
{
    TCase *cases = tcase_create("plan");
    tcase_add_checked_fixture(cases, set_up_plan, tear_down_plan);
    tcase_add_test(cases, each_key_is_read_once_and_only_if_it_matters);
    tcase_add_test(cases, writes_after_reading_depend_on_what_was_read);
    tcase_add_test(cases, guards_hold_or_the_first_that_does_not_is_told);
    tcase_add_test(cases, a_step_that_fails_is_told);
    tcase_add_test(cases, a_value_without_a_place_is_told_with_its_size);
    tcase_add_test(cases, what_makes_no_sense_is_refused);
    tcase_add_test(cases, a_key_is_blamed_where_it_stands_first);
    suite_add_tcase(suite, cases);
}
