/* copy_page: of each key the last change is written, again until it is. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/mirror/copy_page.h"
#include "tests/support/test_suite.h"

/* An engine that notes what it is asked, and answers at once. */
static struct {
    struct store_engine base;
    unsigned calls, puts, deletes, transactions;
    unsigned together[4]; /* how many steps the last transactions had */
    uint32_t blamed;      /* transacted.at of one that fails */
    char last_value[32];
    uint64_t last_expiry_ms;
    unsigned failures; /* so many more operations fail */
    enum kv_status failure;
    atomic_bool stop;
    bool stop_at_failure;
} cluster;

static void answer(struct store_engine *base, struct engine_operation *operation)
{
    (void)base;
    cluster.calls++;
    operation->status = KV_OK;
    if (cluster.failures > 0) {
        cluster.failures--;
        operation->status = cluster.failure;
        if (cluster.stop_at_failure)
            atomic_store(&cluster.stop, true);
        operation->transacted = (struct kvstore_transacted){.at = cluster.blamed};
    } else if (operation->opcode == ENGINE_TRANSACT) {
        const struct kvstore_transaction *asked = operation->transaction;
        ck_assert(operation->after_reading && asked->guard_count == 0);
        for (uint32_t i = 0; i < asked->then_count; i++) {
            bool put = asked->then[i].kind == KVSTORE_STEP_PUT;
            cluster.puts += put;
            cluster.deletes += !put;
        }
        cluster.together[cluster.transactions++ % 4] = asked->then_count;
    } else if (operation->opcode == ENGINE_EXCHANGE) {
        void *place = operation->place(operation->context, 3);
        ck_assert_ptr_nonnull(place);
        memcpy(place, "old", 3);
        cluster.puts++;
        memset(cluster.last_value, 0, sizeof cluster.last_value);
        if (operation->value.size > 0 && operation->value.size < sizeof cluster.last_value)
            memcpy(cluster.last_value, operation->value.data, operation->value.size);
        cluster.last_expiry_ms = operation->put.expiry_ms;
    } else {
        ck_assert_int_eq(operation->opcode, ENGINE_DELETE);
        cluster.deletes++;
        operation->status = KV_NOT_FOUND;
    }
    operation->done(operation);
}

/* The number that the key begins with. */
static uint32_t shard_of(const struct store_engine *engine, struct kv_slice key)
{
    ck_assert_ptr_eq(engine, &cluster.base);
    return (uint32_t)(*(const char *)key.data - '0');
}

static const struct engine_calls calls = {.name = "noted", .submit = answer};
static struct copy_page *page;

static void set_up(void)
{
    memset(&cluster, 0, sizeof cluster);
    cluster.base.calls = &calls;
    page = copy_page_create(&cluster.stop, shard_of);
    ck_assert_ptr_nonnull(page);
}

static void tear_down(void)
{
    copy_page_free(page);
}

static struct kv_slice text(const char *string)
{
    return kv_slice_from_string(string);
}

static bool add_put(const char *key, const char *value, uint64_t expiry_ms)
{
    struct kv_slice slice = text(value);
    return copy_page_add(page, text(key), &slice, expiry_ms, false);
}

static bool add_together(const char *key, const char *value)
{
    struct kv_slice slice = value ? text(value) : kv_slice(NULL, 0);
    return copy_page_add(page, text(key), value ? &slice : NULL, 0, true);
}

START_TEST(the_last_of_a_key_counts)
{
    ck_assert(add_put("k", "one", 0));
    ck_assert(copy_page_add(page, text("k"), NULL, 0, false));
    ck_assert(add_put("k", "two", 77));
    ck_assert(add_put("gone", "x", 0));
    ck_assert(copy_page_add(page, text("gone"), NULL, 0, false));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.puts, 1);
    ck_assert_uint_eq(cluster.deletes, 1);
    ck_assert_str_eq(cluster.last_value, "two");
    ck_assert_uint_eq(cluster.last_expiry_ms, 77);
    ck_assert(copy_page_is_empty(page));
    ck_assert_uint_eq(copy_page_counts(page).written, 2);
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.calls, 2);
}
END_TEST

START_TEST(it_gets_full)
{
    unsigned added = 0;
    char key[16];
    do
        snprintf(key, sizeof key, "%u", added);
    while (add_put(key, "", 0) && ++added < 10000);
    ck_assert_uint_eq(added, COPY_PAGE_ITEMS);
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.puts, COPY_PAGE_ITEMS);
    size_t size = COPY_PAGE_MOST_BYTES + 1;
    char *large = calloc(1, size);
    ck_assert_ptr_nonnull(large);
    struct kv_slice value = kv_slice(large, size);
    ck_assert(copy_page_add(page, text("large"), &value, 0, false)); /* an empty page has room */
    ck_assert(!add_put("k", "v", 0));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    free(large);
}
END_TEST

START_TEST(what_fails_is_sent_again)
{
    static const enum kv_status statuses[] = {KV_NO_SERVER, KV_OVERLOADED, KV_OUTCOME_UNKNOWN};
    cluster.failure = statuses[_i];
    cluster.failures = 1;
    ck_assert(add_put("a", "1", 0));
    ck_assert(add_put("b", "2", 0));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.calls, 3); /* what was written is not written again */
    ck_assert_uint_eq(cluster.puts, 2);
    ck_assert_uint_eq(copy_page_counts(page).repeats, 1);
    ck_assert(!copy_page_is_stuck(page));
}
END_TEST

START_TEST(it_ends_when_it_is_to_end)
{
    cluster.failure = KV_NO_SERVER;
    cluster.failures = 1000;
    cluster.stop_at_failure = true;
    ck_assert(add_put("a", "1", 0));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_BUSY);
    ck_assert(copy_page_is_stuck(page));
}
END_TEST

START_TEST(what_is_never_taken_is_given_up)
{
    cluster.failure = _i ? KV_VALUE_TOO_BIG : KV_BAD_KEY;
    cluster.failures = 1;
    ck_assert(add_put("a", "1", 0));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(copy_page_counts(page).refused, 1);
    ck_assert_uint_eq(cluster.puts, 0);
    ck_assert_uint_eq(cluster.deletes, (unsigned)_i); /* an earlier value of that key goes */
}
END_TEST

/* Those of a shard in one transaction; a key that is alone there, and one of no transaction, as
 * they are. */
START_TEST(keys_of_transactions_are_written_together)
{
    ck_assert(!copy_page_has_transactions(page));
    ck_assert(add_put("0 plain", "v", 0));
    ck_assert(add_together("0 a", "1") && add_together("0 b", NULL));
    ck_assert(add_together("1 a", "1"));
    ck_assert(add_together("2 a", "1") && add_together("2 b", "1") && add_together("2 c", "1"));
    ck_assert(add_put("2 b", "2", 0)); /* the last one counts, with the others */
    ck_assert(add_put("2 d", "2", 0) && add_together("2 d", "3"));
    ck_assert(copy_page_has_transactions(page));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.transactions, 2);
    ck_assert_uint_eq(cluster.together[0], 2);
    ck_assert_uint_eq(cluster.together[1], 4);
    ck_assert_uint_eq(cluster.calls, 4);
    ck_assert_uint_eq(cluster.puts, 7);
    ck_assert_uint_eq(cluster.deletes, 1);
    ck_assert_uint_eq(copy_page_counts(page).written, 8);
    ck_assert(!copy_page_has_transactions(page));
}
END_TEST

START_TEST(there_is_room_for_whole_transactions)
{
    char key[16];
    ck_assert(copy_page_takes(page, COPY_PAGE_TOGETHER));
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "0 %u", i);
        ck_assert(add_together(key, "v"));
    }
    ck_assert(copy_page_takes(page, COPY_PAGE_TOGETHER - 100));
    ck_assert(!copy_page_takes(page, COPY_PAGE_TOGETHER - 99));
    for (unsigned i = 0; i < 150; i++) {
        snprintf(key, sizeof key, "1 %u", i);
        ck_assert(add_put(key, "v", 0));
    }
    ck_assert(copy_page_takes(page, COPY_PAGE_ITEMS - 250));
    ck_assert(!copy_page_takes(page, COPY_PAGE_ITEMS - 249));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.transactions, 1);
    ck_assert_uint_eq(cluster.together[0], 100);
    ck_assert_uint_eq(cluster.puts, 250);
}
END_TEST

START_TEST(a_transaction_that_fails_is_sent_again_as_it_was)
{
    cluster.failure = KV_OUTCOME_UNKNOWN;
    cluster.failures = 2;
    ck_assert(add_together("0 a", "1") && add_together("0 b", "1"));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(cluster.transactions, 1);
    ck_assert_uint_eq(cluster.together[0], 2);
    ck_assert_uint_eq(cluster.calls, 3);
    ck_assert_uint_eq(copy_page_counts(page).repeats, 2);
}
END_TEST

/* What the cluster never takes is left out, or, if that is no single key, all are written one by
 * one. */
START_TEST(a_transaction_that_is_refused_does_not_hold_up_others)
{
    static const enum kv_status statuses[] = {KV_VALUE_TOO_BIG, KV_BAD_KEY, KV_VALUE_TOO_BIG,
                                              KV_UNSUPPORTED, KV_LIMIT};
    cluster.failure = statuses[_i];
    cluster.failures = 1;
    cluster.blamed = _i < 2 ? 1 : UINT32_MAX;
    ck_assert(add_together("0 a", "1") && add_together("0 b", "1") && add_together("0 c", "1"));
    ck_assert_int_eq(copy_page_send(page, &cluster.base), KV_OK);
    ck_assert_uint_eq(copy_page_counts(page).refused, _i < 2);
    ck_assert_uint_eq(cluster.puts, _i < 2 ? 2 : 3);
    ck_assert_uint_eq(cluster.deletes, _i == 0); /* an earlier value of that key goes, with them */
    ck_assert_uint_eq(cluster.transactions, _i < 2);
    ck_assert_uint_eq(cluster.calls, _i < 2 ? 2 : 4);
}
END_TEST

TEST_SUITE(mirror_copy_page)
{
    TCase *tcase = tcase_create("page");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_last_of_a_key_counts);
    tcase_add_test(tcase, it_gets_full);
    tcase_add_loop_test(tcase, what_fails_is_sent_again, 0, 3);
    tcase_add_test(tcase, it_ends_when_it_is_to_end);
    tcase_add_loop_test(tcase, what_is_never_taken_is_given_up, 0, 2);
    tcase_add_test(tcase, keys_of_transactions_are_written_together);
    tcase_add_test(tcase, there_is_room_for_whole_transactions);
    tcase_add_test(tcase, a_transaction_that_fails_is_sent_again_as_it_was);
    tcase_add_loop_test(tcase, a_transaction_that_is_refused_does_not_hold_up_others, 0, 5);
    suite_add_tcase(suite, tcase);
}
