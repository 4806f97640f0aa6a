/* The view on which the commands of a transaction run before the store hears of them. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/session/transaction_view.h"
#include "tests/support/test_suite.h"

#define MAX_VALUE_BYTES 16u

static struct transaction_view view;
static struct clientk_result result;

static void begin_view(void)
{
    transaction_view_init(&view, NULL, MAX_VALUE_BYTES);
}

static void end_view(void)
{
    transaction_view_free(&view);
}

static enum kv_status run_on_view(enum clientk_opcode opcode, const char *key, const char *value,
                                  bool if_absent)
{
    struct clientk_operation operation = {.opcode = opcode,
                                          .key = kv_slice_from_string(key),
                                          .value = kv_slice_from_string(value),
                                          .write.if_absent = if_absent};
    transaction_view_execute(&view, &operation, 1, &result);
    return result.status;
}

/* What the caller does after a round in which keys were missing: here each is version 5. */
static void read_missing_as(const char *value)
{
    for (size_t i = 0; i < view.count; i++) {
        struct viewed_key *key = &view.keys[i];
        if (key->known >= key->needed)
            continue;
        key->known = key->needed;
        key->before = (struct clientk_result){.status = value ? KV_OK : KV_NOT_FOUND};
        if (!value)
            continue;
        key->before.value.version = 5;
        key->before.value.size = strlen(value);
        key->before.value.data = strdup(value);
    }
    transaction_view_restart(&view);
}

START_TEST(what_is_only_written_is_not_read)
{
    ck_assert_int_eq(run_on_view(CLIENTK_PUT, "k", "v", false), KV_OK);
    ck_assert_int_eq(run_on_view(CLIENTK_APPEND, "k", "w", false), KV_OK);
    ck_assert_int_eq(run_on_view(CLIENTK_GET, "k", "", false), KV_OK);
    ck_assert(kv_slice_equal(kv_slice(result.value.data, result.value.size), kv_slice("vw", 2)));
    ck_assert_int_eq(run_on_view(CLIENTK_DELETE, "k", "", false), KV_OK);
    ck_assert_int_eq(run_on_view(CLIENTK_DELETE, "k", "", false), KV_NOT_FOUND);
    ck_assert(!view.is_missing);
    ck_assert_int_eq(view.keys[0].needed, VIEWED_NOTHING);
}
END_TEST

START_TEST(what_is_read_is_asked_for)
{
    run_on_view(CLIENTK_PUT, "k", "v", true);
    ck_assert(view.is_missing);
    ck_assert_int_eq(view.keys[0].needed, VIEWED_SIZE);
    read_missing_as("old");
    ck_assert_int_eq(run_on_view(CLIENTK_PUT, "k", "v", true), KV_EXISTS);
    ck_assert(!view.is_missing);
    run_on_view(CLIENTK_GET, "k", "", false);
    ck_assert(view.is_missing);
    clientk_value_free(&view.keys[0].before.value);
    read_missing_as("old");
    ck_assert_int_eq(run_on_view(CLIENTK_GET, "k", "", false), KV_OK);
    ck_assert_uint_eq(result.value.version, 5);
}
END_TEST

START_TEST(a_new_round_forgets_what_was_done)
{
    run_on_view(CLIENTK_GET, "k", "", false);
    read_missing_as("old");
    ck_assert_int_eq(run_on_view(CLIENTK_APPEND, "k", "er", false), KV_OK);
    ck_assert_int_eq(result.number, 5);
    ck_assert_uint_ne(result.value.version, 5);
    ck_assert(view.keys[0].is_written);
    transaction_view_restart(&view);
    ck_assert(!view.keys[0].is_written);
    ck_assert_int_eq(run_on_view(CLIENTK_GET, "k", "", false), KV_OK);
    ck_assert_uint_eq(result.value.size, 3);
}
END_TEST

START_TEST(a_value_has_its_limit)
{
    ck_assert_int_eq(run_on_view(CLIENTK_PUT, "k", "0123456789012345", false), KV_OK);
    ck_assert_int_eq(run_on_view(CLIENTK_APPEND, "k", "6", false), KV_VALUE_TOO_BIG);
    ck_assert_int_eq(run_on_view(CLIENTK_PUT, "k", "01234567890123456", false), KV_VALUE_TOO_BIG);
    ck_assert_int_eq(run_on_view(CLIENTK_PUT, "", "v", false), KV_BAD_KEY);
    ck_assert_uint_eq(view.keys[0].value.size, 16);
}
END_TEST

START_TEST(there_are_no_more_keys_than_a_transaction_has)
{
    static char keys[CLIENTK_MAX_TRANSACTION_STEPS + 1][8];
    for (unsigned i = 0; i <= CLIENTK_MAX_TRANSACTION_STEPS; i++) {
        ck_assert(!view.is_full);
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        run_on_view(CLIENTK_PUT, keys[i], "v", false);
    }
    ck_assert(view.is_full);
}
END_TEST

TEST_SUITE(kresp_view)
{
    TCase *tests = tcase_create("view");
    tcase_add_checked_fixture(tests, begin_view, end_view);
    tcase_add_test(tests, what_is_only_written_is_not_read);
    tcase_add_test(tests, what_is_read_is_asked_for);
    tcase_add_test(tests, a_new_round_forgets_what_was_done);
    tcase_add_test(tests, a_value_has_its_limit);
    tcase_add_test(tests, there_are_no_more_keys_than_a_transaction_has);
    suite_add_tcase(suite, tests);
}
