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
    unsigned calls, puts, deletes;
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

static const struct engine_calls calls = {.name = "noted", .submit = answer};
static struct copy_page *page;

static void set_up(void)
{
    memset(&cluster, 0, sizeof cluster);
    cluster.base.calls = &calls;
    page = copy_page_create(&cluster.stop);
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
    return copy_page_add(page, text(key), &slice, expiry_ms);
}

START_TEST(the_last_of_a_key_counts)
{
    ck_assert(add_put("k", "one", 0));
    ck_assert(copy_page_add(page, text("k"), NULL, 0));
    ck_assert(add_put("k", "two", 77));
    ck_assert(add_put("gone", "x", 0));
    ck_assert(copy_page_add(page, text("gone"), NULL, 0));
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
    size_t size = COPY_PAGE_BYTES + 1;
    char *large = calloc(1, size);
    ck_assert_ptr_nonnull(large);
    struct kv_slice value = kv_slice(large, size);
    ck_assert(copy_page_add(page, text("large"), &value, 0)); /* an empty page has room */
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

TEST_SUITE(mirror_copy_page)
{
    TCase *tcase = tcase_create("page");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_last_of_a_key_counts);
    tcase_add_test(tcase, it_gets_full);
    tcase_add_loop_test(tcase, what_fails_is_sent_again, 0, 3);
    tcase_add_test(tcase, it_ends_when_it_is_to_end);
    tcase_add_loop_test(tcase, what_is_never_taken_is_given_up, 0, 2);
    suite_add_tcase(suite, tcase);
}
