/* Reads of several keys at one moment without a message, of a store that no daemon made. */
#include <stdlib.h>
#include <string.h>

#include "clientk/direct/direct_read.h"
#include "clientk/direct/direct_together.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/direct_case.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

static struct clientk_operation operations[CLIENTK_MAX_TRANSACTION_STEPS];
static struct clientk_result results[CLIENTK_MAX_TRANSACTION_STEPS];

static bool read_names(const char *const *names, size_t count)
{
    memset(operations, 0, sizeof operations);
    for (size_t i = 0; i < count; i++) {
        operations[i].opcode = CLIENTK_GET;
        operations[i].key = TEXT(names[i]);
    }
    return direct_read_together(&direct, &reader, operations, count, results);
}

static void free_values(void)
{
    for (size_t i = 0; i < CLIENTK_MAX_TRANSACTION_STEPS; i++)
        clientk_value_free(&results[i].value);
}

static void assert_result(size_t i, const char *expected)
{
    ck_assert_int_eq(results[i].status, expected ? KV_OK : KV_NOT_FOUND);
    ck_assert_uint_eq(results[i].value.size, expected ? strlen(expected) : 0);
    if (expected)
        ck_assert_str_eq(results[i].value.data, expected);
    else
        ck_assert_uint_eq(results[i].value.version, 0);
}

static void read_what_is_there(void)
{
    static const char *const names[] = {"one", "none", "three", "one", "late", "gone"};
    direct_case_put("one", "1");
    direct_case_put("three", "3");
    handmade_put(&made, TEXT("late"), TEXT("5"), clock_realtime_ms() + 1000000);
    handmade_put(&made, TEXT("gone"), TEXT("6"), 1);
    ck_assert(read_names(names, 6));
    const char *const expected[] = {"1", NULL, "3", "1", "5", NULL};
    for (size_t i = 0; i < 6; i++)
        assert_result(i, expected[i]);
    ck_assert_uint_gt(results[4].value.expiry_ms, clock_realtime_ms());
    ck_assert_uint_eq(results[5].value.expiry_ms, 0);
    direct_case_put("none", "2");
    handmade_delete(&made, TEXT("one"));
    operations[2].opcode = CLIENTK_EXISTS;
    ck_assert(direct_read_together(&direct, &reader, operations, 6, results));
    assert_result(0, NULL);
    assert_result(1, "2");
    ck_assert_int_eq(results[2].status, KV_OK);
    ck_assert_uint_eq(results[2].value.size, 1);
    free_values();
}

START_TEST(keys_are_read_together)
{
    direct_case_begin(CLIENTK_DIRECT_MAP, 4, 0);
    read_what_is_there();
    direct_case_end();
    direct_case_begin(CLIENTK_DIRECT_PREAD, 4, 0);
    read_what_is_there();
    direct_case_end();
}
END_TEST

static void read_large(void)
{
    static const char *const names[] = {"large", "small", "medium"};
    char *bytes = patterned_bytes(300000, 1);
    direct_case_put("small", "s");
    handmade_put(&made, TEXT("medium"), kv_slice(bytes, 70000), 0);
    handmade_put(&made, TEXT("large"), kv_slice(bytes, 180000), 0);
    ck_assert(read_names(names, 3));
    ck_assert(kv_slice_equal(kv_slice(results[0].value.data, results[0].value.size),
                             kv_slice(bytes, 180000)));
    ck_assert(kv_slice_equal(kv_slice(results[2].value.data, results[2].value.size),
                             kv_slice(bytes, 70000)));
    assert_result(1, "s");
    /* More than a message holds is for the server to refuse. */
    handmade_put(&made, TEXT("large"), kv_slice(bytes, 300000), 0);
    ck_assert(!read_names(names, 3));
    ck_assert_uint_eq(results[0].value.size, 0);
    operations[0].opcode = CLIENTK_EXISTS; /* of which no bytes are wanted */
    ck_assert(direct_read_together(&direct, &reader, operations, 3, results));
    ck_assert_uint_eq(results[0].value.size, 300000);
    free_values();
    free(bytes);
}

START_TEST(large_values_are_read_as_far_as_a_message_would)
{
    direct_case_begin_mapped();
    read_large();
    direct_case_end();
    direct_case_begin_pread();
    read_large();
    direct_case_end();
}
END_TEST

START_TEST(what_is_no_read_is_left_to_the_server)
{
    static const char *const names[] = {"a", "b"};
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    ck_assert(read_names(names, 2));
    operations[1].opcode = CLIENTK_DELETE;
    ck_assert(!direct_read_together(&direct, &reader, operations, 2, results));
    operations[1].opcode = CLIENTK_GET;
    operations[1].key.size = 0;
    ck_assert(!direct_read_together(&direct, &reader, operations, 2, results));
    ck_assert(read_names(names, 2));
    handmade_state(&made.files[0])->moves++; /* items are moved for ever */
    ck_assert(!direct_read_together(&direct, &reader, operations, 2, results));
    handmade_state(&made.files[0])->moves++;
    made.header->transacting++; /* and a transaction is never done */
    ck_assert(!direct_read_together(&direct, &reader, operations, 2, results));
    made.header->transacting--;
    ck_assert(direct_read_together(&direct, &reader, operations, 2, results));
    free_values();
    direct_case_end();
}
END_TEST

/* Sights --------------------------------------------------------------------------------------- */

static struct direct_sight see(struct direct_store *store, const char *key)
{
    struct clientk_value value = {.data = NULL};
    enum kv_status status;
    struct direct_sight sight;
    ck_assert(direct_read(store, TEXT(key), direct_place_of(store, TEXT(key)), true, &value,
                          &status, &sight));
    clientk_value_free(&value);
    return sight;
}

static bool is_as_seen(struct direct_store *store, const char *key, struct direct_sight sight)
{
    return direct_is_as_seen(store, TEXT(key), direct_place_of(store, TEXT(key)), &sight);
}

static void compare_sights(struct direct_store *store)
{
    direct_case_put("a", "1");
    direct_case_put("b", "1");
    struct direct_sight there = see(store, "a"), absent = see(store, "c");
    ck_assert(is_as_seen(store, "a", there));
    ck_assert(is_as_seen(store, "c", absent));
    direct_case_put("b", "2"); /* another key */
    ck_assert(is_as_seen(store, "a", there));
    ck_assert(is_as_seen(store, "c", absent));
    direct_case_put("c", "1"); /* comes and goes: it was not absent all the while */
    ck_assert(!is_as_seen(store, "c", absent));
    handmade_delete(&made, TEXT("c"));
    ck_assert(!is_as_seen(store, "c", absent));
    ck_assert(is_as_seen(store, "a", there));
    direct_case_put("a", "1"); /* the same value, written again */
    ck_assert(!is_as_seen(store, "a", there));
    there = see(store, "a");
    handmade_replace(&made, 0, true);
    ck_assert(!is_as_seen(store, "a", there));
    ck_assert(is_as_seen(store, "a", see(store, "a")));
    there = see(store, "a");
    handmade_delete(&made, TEXT("a"));
    ck_assert(!is_as_seen(store, "a", there));
    direct_case_put("a", "1");
    ck_assert(!is_as_seen(store, "a", there));
    there.offset = DIRECT_UNSEEN;
    ck_assert(!is_as_seen(store, "a", there));
}

START_TEST(a_key_is_as_it_was_seen_only_if_it_was_so_all_the_while)
{
    for (int calls = 0; calls < 2; calls++) {
        if (calls)
            direct_case_begin_pread();
        else
            direct_case_begin_mapped();
        struct direct_store *store = direct_begin(&direct, &reader);
        ck_assert_ptr_nonnull(store);
        compare_sights(store);
        ck_assert(direct_end(store, &reader));
        direct_case_end();
    }
}
END_TEST

TEST_SUITE(clientk_direct_together)
{
    TCase *tcase = tcase_create("direct together");
    tcase_add_test(tcase, keys_are_read_together);
    tcase_add_test(tcase, large_values_are_read_as_far_as_a_message_would);
    tcase_add_test(tcase, what_is_no_read_is_left_to_the_server);
    tcase_add_test(tcase, a_key_is_as_it_was_seen_only_if_it_was_so_all_the_while);
    suite_add_tcase(suite, tcase);
}
