/* links: what transactions of several files cost the syncs, and what a sync tells of them. */
#include <check.h>
#include <stdio.h>

#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/test_suite.h"

#define DATAFILES 4u

/* Beyond the number at which a sync is asked for (links.c), and four times that. */
#define TRANSACTIONS 300000u

static struct kvstore_step_result results[2];

/* Counts up a key in one file and down another one in the next. */
static void transfer(unsigned from)
{
    struct kvstore_step steps[2] = {{.kind = KVSTORE_STEP_ADD}, {.kind = KVSTORE_STEP_ADD}};
    struct kvstore_transaction transaction = {.then = steps, .then_count = 2};
    char keys[2][16];
    for (unsigned i = 0; i < 2; i++) {
        snprintf(keys[i], sizeof keys[i], "key %u", from + i);
        steps[i].key = kv_slice_from_string(keys[i]);
        steps[i].delta = i == 0 ? -1 : 1;
    }
    ck_assert_int_eq(kvstore_transact(store, &transaction, results, NULL), KV_OK);
}

/* If each of them looked at all that are open, this would take hours. */
START_TEST(many_open_links_cost_no_more_than_few)
{
    const struct kvstore_options options = {
        .create = true, .datafiles = DATAFILES, .durability = KVSTORE_SYNC_NONE};
    store = must_open(dir, &options);
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        transfer(i % 100);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    for (unsigned i = 0; i < 2; i++)
        ck_assert(kvstore_is_durable(store, results[i].written.ticket));
}
END_TEST

/* Whichever of the tickets is waited for. */
START_TEST(a_part_is_durable_when_all_are)
{
    const struct kvstore_options options = {.create = true,
                                            .datafiles = DATAFILES,
                                            .durability = KVSTORE_SYNC_INTERVAL,
                                            .sync_interval_ms = 3600000};
    store = must_open(dir, &options);
    for (unsigned i = 0; i < 100; i++) {
        transfer(i);
        ck_assert_int_eq(kvstore_wait_durable(store, results[i % 2].written.ticket), KV_OK);
        for (unsigned part = 0; part < 2; part++)
            ck_assert(kvstore_is_durable(store, results[part].written.ticket));
    }
}
END_TEST

/* A write behind a part in one file waits for the other parts, too. */
START_TEST(what_follows_a_part_waits_for_the_others)
{
    const struct kvstore_options options = {.create = true,
                                            .datafiles = DATAFILES,
                                            .durability = KVSTORE_SYNC_INTERVAL,
                                            .sync_interval_ms = 3600000};
    store = must_open(dir, &options);
    for (unsigned i = 0; i < 100; i++) {
        transfer(i);
        struct kvstore_ticket parts[2] = {results[0].written.ticket, results[1].written.ticket};
        struct kvstore_ticket behind = must_put_for_ticket(store, numbered("key", (int)i), "1");
        ck_assert_int_eq(kvstore_wait_durable(store, behind), KV_OK);
        for (unsigned part = 0; part < 2; part++)
            ck_assert(kvstore_is_durable(store, parts[part]));
    }
}
END_TEST

TEST_SUITE(kvstore_links)
{
    TCase *tests = tcase_create("links");
    store_case_add(tests);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, many_open_links_cost_no_more_than_few);
    tcase_add_test(tests, a_part_is_durable_when_all_are);
    tcase_add_test(tests, what_follows_a_part_waits_for_the_others);
    suite_add_tcase(suite, tests);
}
