/*
 * mirror_changes: whatever pages the changes of a bank come in, what a copy makes of them has all
 * transfers whole: after each of its transactions the sum is what it was. Over compactions, and
 * over crashes of the mirror before a page was noted as written.
 */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridges/cluster/mirror/mirror_changes.h"
#include "common/numbers/random.h"
#include "common/text/parse.h"
#include "tests/support/asked_transaction.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/test_suite.h"

#define ACCOUNTS  40
#define BALANCE   100
#define TRANSFERS 1500
#define TOTAL     (ACCOUNTS * BALANCE)

static char accounts[ACCOUNTS][16];
static atomic_bool writing, stop;

/* The copy: an engine that has the balances, and sums them up after each transaction. */

static struct {
    struct store_engine base;
    int64_t balances[ACCOUNTS];
    unsigned transactions, alone, torn;
    unsigned shards;
} copy;

static int account_of(struct kv_slice key)
{
    char text[sizeof accounts[0]] = "";
    int number;
    ck_assert_uint_lt(key.size, sizeof text);
    memcpy(text, key.data, key.size);
    return sscanf(text, "account %d", &number) == 1 ? number : -1;
}

static void set_balance(struct kv_slice key, struct kv_slice value)
{
    int account = account_of(key);
    ck_assert(account < 0 || parse_i64_bytes(value.data, value.size, &copy.balances[account]));
}

static void answer(struct store_engine *base, struct engine_operation *operation)
{
    int64_t sum = 0;
    (void)base;
    operation->status = KV_OK;
    if (operation->opcode == ENGINE_TRANSACT) {
        ck_assert(operation->after_reading);
        for (uint32_t i = 0; i < operation->transaction->then_count; i++)
            set_balance(operation->transaction->then[i].key, operation->transaction->then[i].value);
        copy.transactions++;
    } else {
        copy.alone += account_of(operation->key) >= 0;
        set_balance(operation->key, operation->value);
    }
    for (int i = 0; i < ACCOUNTS; i++)
        sum += copy.balances[i];
    copy.torn += sum != TOTAL;
    operation->done(operation);
}

static uint32_t shard_of(const struct store_engine *engine, struct kv_slice key)
{
    (void)engine;
    return (uint32_t)account_of(key) % copy.shards;
}

static const struct engine_calls calls = {.name = "copy", .submit = answer};

/* The bank ------------------------------------------------------------------------------------- */

/* Transfers between two or more accounts whose numbers are equal modulo `step`, and writes of other
 * keys. */
static void transfer(struct asked_transaction *asked, struct random_state *random, unsigned step)
{
    unsigned from = random_below(random, ACCOUNTS);
    unsigned receivers = 1 + random_below(random, 3);
    memset(asked, 0, sizeof *asked);
    asked_then(asked, KVSTORE_STEP_ADD, accounts[from], NULL)->delta = -(int64_t)receivers;
    for (unsigned i = 1; i <= receivers; i++)
        asked_then(asked, KVSTORE_STEP_ADD, accounts[(from + i * step) % ACCOUNTS], NULL)->delta =
            1;
    ck_assert_int_eq(asked_do(asked, store), KV_OK);
    for (unsigned i = random_below(random, 8); i > 0; i--)
        must_put(store, numbered("other", (int)random_below(random, 1000)), "x");
}

static void *write_transfers(void *argument)
{
    struct asked_transaction *asked = calloc(1, sizeof *asked);
    struct random_state random;
    random_seed(&random, 7);
    for (int i = 0; i < TRANSFERS; i++)
        transfer(asked, &random, *(unsigned *)argument);
    free(asked);
    atomic_store(&writing, false);
    return NULL;
}

static void *compact_all_the_time(void *argument)
{
    (void)argument;
    while (atomic_load(&writing)) {
        for (uint32_t i = 0; i < kvstore_datafiles(store); i++)
            ck_assert_int_eq(kvstore_compact(store, i, NULL), KV_OK);
        usleep(1000);
    }
    return NULL;
}

static void open_bank(uint32_t files)
{
    store = must_open(dir, &(struct kvstore_options){.create = true, .datafiles = files});
    for (int i = 0; i < ACCOUNTS; i++) {
        snprintf(accounts[i], sizeof accounts[i], "account %d", i);
        must_put(store, accounts[i], "100");
        copy.balances[i] = BALANCE;
    }
}

/* Copies changes until nobody writes and there are no more. Every now and then the page counts as
 * not written, as after a crash, though it is: then it comes again. */
static void copy_bank(struct mirror_changes *changes, struct mirror_place *places)
{
    uint64_t taken[8];
    struct random_state random;
    bool more = true;
    random_seed(&random, 11);
    for (bool was_writing = true; more || was_writing;) {
        was_writing = atomic_load(&writing);
        ck_assert_int_eq(mirror_changes_fill(changes, places, &more), KV_OK);
        memcpy(taken, changes->taken, changes->files * sizeof *taken);
        ck_assert_int_eq(copy_page_send(changes->page, &copy.base), KV_OK);
        for (unsigned again = random_below(&random, 3); again > 0; again--) {
            ck_assert(mirror_changes_fill_again(changes, places, taken));
            ck_assert_int_eq(copy_page_send(changes->page, &copy.base), KV_OK);
        }
        memcpy(places, changes->places, changes->files * sizeof *places);
        usleep(100);
    }
}

/* later: when all is written, so that each page is full. */
static void copy_while_written(uint32_t files, unsigned shards, bool later)
{
    pthread_t writer, compactor;
    struct mirror_changes changes;
    struct mirror_place places[8] = {{{0}, 0}};
    memset(&copy, 0, sizeof copy);
    copy.base.calls = &calls;
    copy.shards = shards;
    open_bank(files);
    struct copy_page *page = copy_page_create(&stop, shard_of);
    ck_assert(page && mirror_changes_begin(&changes, store, page));
    for (uint32_t i = 0; i < files; i++)
        ck_assert_int_eq(mirror_changes_now(store, i, &places[i]), KV_OK);
    atomic_store(&writing, true);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_transfers, &shards), 0);
    ck_assert_int_eq(pthread_create(&compactor, NULL, compact_all_the_time, NULL), 0);
    if (later)
        pthread_join(writer, NULL);
    copy_bank(&changes, places);
    if (!later)
        pthread_join(writer, NULL);
    pthread_join(compactor, NULL);
    ck_assert_uint_eq(copy.torn, 0);
    ck_assert_uint_gt(copy.transactions, 0);
    for (int i = 0; i < ACCOUNTS; i++) {
        char text[32];
        snprintf(text, sizeof text, "%" PRId64, copy.balances[i]);
        ck_assert_str_eq(get_text(store, accounts[i]), text);
    }
    mirror_changes_free(&changes);
    copy_page_free(page);
}

START_TEST(no_transfer_is_torn)
{
    static const uint32_t files[] = {1, 2, 4, 8};
    copy_while_written(files[_i % 4], _i % 8 < 4 ? 1 : 4, _i >= 8);
}
END_TEST

/* A part in one file, where the place in the other one is behind its part: as after everything was
 * copied anew. */
START_TEST(a_part_without_the_others_holds_nothing_up)
{
    struct mirror_changes changes;
    struct mirror_place places[8];
    struct asked_transaction asked = {.results = {{0}}};
    bool more = true;
    memset(&copy, 0, sizeof copy);
    copy.base.calls = &calls;
    copy.shards = 1;
    open_bank(4);
    struct copy_page *page = copy_page_create(&stop, shard_of);
    ck_assert(page && mirror_changes_begin(&changes, store, page));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(mirror_changes_now(store, i, &places[i]), KV_OK);
    for (int i = 0; i < ACCOUNTS; i++)
        asked_then(&asked, KVSTORE_STEP_PUT, accounts[i], "7");
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    ck_assert_int_eq(mirror_changes_now(store, 3, &places[3]), KV_OK);
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    while (more) {
        ck_assert_int_eq(mirror_changes_fill(&changes, places, &more), KV_OK);
        ck_assert_int_eq(copy_page_send(page, &copy.base), KV_OK);
        memcpy(places, changes.places, 4 * sizeof *places);
    }
    for (int i = 0; i < ACCOUNTS; i++)
        ck_assert_int_eq(copy.balances[i], 7);
    mirror_changes_free(&changes);
    copy_page_free(page);
}
END_TEST

TEST_SUITE(mirror_changes)
{
    TCase *tcase = tcase_create("changes");
    store_case_add(tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, no_transfer_is_torn, 0, 16);
    tcase_add_test(tcase, a_part_without_the_others_holds_nothing_up);
    suite_add_tcase(suite, tcase);
}
