/*
 * A bank: accounts over all data files, transfers between them by transactions, and readers who add
 * all of them up: by a transaction that only reads, by a scan of one moment, by a copy of the store
 * as it was at one moment. No sum ever differs, and no transfer is lost.
 */
#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/text/parse.h"
#include "tests/support/asked_transaction.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/store_variants.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

#define ACCOUNTS  24
#define BALANCE   20
#define WRITERS   3
#define TRANSFERS 400 /* of each writer */
#define COPIES    3
#define TOTAL     (ACCOUNTS * BALANCE)

static char accounts[ACCOUNTS][16];
static atomic_int writers_left;

static int64_t balance_in(const void *text, size_t size)
{
    int64_t balance;
    return parse_i64_bytes(text, size, &balance) ? balance : INT64_MIN / ACCOUNTS / 2;
}

/* Transfers ----------------------------------------------------------------------------------- */

/* If the first account has the amount: ADD sees to that. */
static enum kv_status transfer_by_sums(struct asked_transaction *asked, const char *from,
                                       const char *to, int64_t amount)
{
    memset(asked, 0, sizeof *asked);
    struct kvstore_step *taken = asked_then(asked, KVSTORE_STEP_ADD, from, NULL);
    taken->delta = -amount;
    taken->add = (struct kvstore_add_options){.has_min = true, .if_present = true};
    struct kvstore_step *given = asked_then(asked, KVSTORE_STEP_ADD, to, NULL);
    given->delta = amount;
    given->add.if_present = true;
    return asked_do(asked, store);
}

static char *read_two(struct asked_transaction *asked, const char *from, const char *to)
{
    memset(asked, 0, sizeof *asked);
    asked_then(asked, KVSTORE_STEP_GET, from, NULL);
    asked_then(asked, KVSTORE_STEP_GET, to, NULL);
    return asked_do(asked, store) == KV_OK && asked->results[0].status == KV_OK &&
                   asked->results[1].status == KV_OK
               ? NULL
               : strdup("two accounts cannot be read");
}

/* Reads, computes, and writes if nobody has changed anything meanwhile; again if so. */
static char *transfer_by_versions(struct asked_transaction *asked, const char *from, const char *to,
                                  int64_t amount)
{
    char texts[2][24];
    do {
        char *failure = read_two(asked, from, to);
        if (failure)
            return failure;
        int64_t balances[2];
        uint64_t versions[2];
        for (int i = 0; i < 2; i++) {
            balances[i] = balance_in(asked->values[i], strlen(asked->values[i]));
            versions[i] = asked->results[i].entry.version;
        }
        if (balances[0] < amount)
            return NULL;
        snprintf(texts[0], sizeof texts[0], "%" PRId64, balances[0] - amount);
        snprintf(texts[1], sizeof texts[1], "%" PRId64, balances[1] + amount);
        memset(asked, 0, sizeof *asked);
        asked_guard(asked, KVSTORE_GUARD_VERSION, from)->version = versions[0];
        asked_guard(asked, KVSTORE_GUARD_VERSION, to)->version = versions[1];
        asked_then(asked, KVSTORE_STEP_PUT, from, texts[0]);
        asked_then(asked, KVSTORE_STEP_PUT, to, texts[1]);
        if (asked_do(asked, store) != KV_OK)
            return strdup("a transfer by versions was refused");
    } while (!asked->told.held);
    return NULL;
}

static void *transfer_many(void *argument)
{
    struct asked_transaction *asked = calloc(1, sizeof *asked);
    struct random_state random;
    char *failure = NULL;
    random_seed(&random, (uint64_t) * (int *)argument);
    for (int i = 0; i < TRANSFERS && !failure; i++) {
        unsigned from = random_below(&random, ACCOUNTS);
        unsigned to = (from + 1 + random_below(&random, ACCOUNTS - 1)) % ACCOUNTS;
        int64_t amount = 1 + (int64_t)random_below(&random, 2 * BALANCE);
        if (i % 2 == 0) {
            failure = transfer_by_versions(asked, accounts[from], accounts[to], amount);
            continue;
        }
        enum kv_status status = transfer_by_sums(asked, accounts[from], accounts[to], amount);
        if (status != KV_OK && status != KV_OUT_OF_BOUNDS)
            failure = strdup(kv_status_name(status));
    }
    free(asked);
    atomic_fetch_sub(&writers_left, 1);
    return failure;
}

/* Sums ---------------------------------------------------------------------------------------- */

static char *tell_sum(const char *reader, int64_t sum)
{
    char text[100];
    snprintf(text, sizeof text, "%s: a sum of %" PRId64 " instead of %d", reader, sum, TOTAL);
    return sum == TOTAL ? NULL : strdup(text);
}

static char *sum_by_transaction(struct asked_transaction *asked)
{
    int64_t sum = 0;
    memset(asked, 0, sizeof *asked);
    for (int i = 0; i < ACCOUNTS; i++)
        asked_then(asked, KVSTORE_STEP_GET, accounts[i], NULL);
    if (asked_do(asked, store) != KV_OK)
        return strdup("accounts cannot be read");
    for (int i = 0; i < ACCOUNTS; i++) {
        int64_t balance = balance_in(asked->values[i], strlen(asked->values[i]));
        sum += balance < 0 ? INT64_MIN / ACCOUNTS / 2 : balance;
    }
    return tell_sum("transaction", sum);
}

static bool add_account(void *context, const struct kvstore_scanned *entry)
{
    *(int64_t *)context += balance_in(entry->value.data, entry->value.size);
    return true;
}

static char *sum_by_scan(struct kvstore *of, const char *reader)
{
    int64_t sum = 0;
    uint64_t cursor = 0;
    do {
        if (kvstore_scan_file(of, &cursor, KEY("account"), add_account, &sum) != KV_OK)
            return strdup("a scan failed");
    } while (cursor != 0);
    return tell_sum(reader, sum);
}

static void *sum_all_the_time(void *argument)
{
    struct asked_transaction *asked = calloc(1, sizeof *asked);
    char *failure = NULL;
    (void)argument;
    while (atomic_load(&writers_left) > 0 && !failure) {
        failure = sum_by_transaction(asked);
        if (!failure && kvstore_datafiles(store) == 1)
            failure = sum_by_scan(store, "scan");
        usleep(200);
    }
    free(asked);
    return failure;
}

/* Writes what the hold reads of a data file to copy_dir. */
static bool copy_held(struct kvstore_hold *hold, uint32_t number, const char *copy_dir)
{
    static uint8_t piece[65536];
    char path[STORE_DIR_BYTES + 16];
    struct kvstore_held_file file;
    size_t got = 0;
    kvstore_hold_file(hold, number, &file);
    snprintf(path, sizeof path, "%s/data.%04u", copy_dir, number);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (uint64_t offset = 0; good && offset < file.bytes; offset += got)
        good = kvstore_hold_read(hold, number, offset, piece, sizeof piece, &got) == KV_OK &&
               got > 0 && write(fd, piece, got) == (ssize_t)got;
    close(fd);
    return good;
}

static char *sum_by_copy(void)
{
    char copy_dir[STORE_DIR_BYTES];
    struct kvstore_hold *hold;
    bool good = kvstore_hold_begin(store, &hold, NULL) == KV_OK;
    if (!good)
        return strdup("no hold");
    store_dir_make(copy_dir);
    for (uint32_t i = 0; good && i < kvstore_datafiles(store); i++)
        good = copy_held(hold, i, copy_dir);
    kvstore_hold_end(hold);
    char *failure = good ? NULL : strdup("the hold cannot be read");
    if (good) {
        struct kvstore *copy = must_open(copy_dir, &(struct kvstore_options){0});
        failure = sum_by_scan(copy, "copy");
        must_close(copy);
    }
    store_dir_remove(copy_dir);
    return failure;
}

static void *copy_now_and_then(void *argument)
{
    char *failure = NULL;
    (void)argument;
    for (int i = 0; i < COPIES && atomic_load(&writers_left) > 0 && !failure; i++) {
        failure = sum_by_copy();
        usleep(2000);
    }
    return failure;
}

/* Followers ----------------------------------------------------------------------------------- */

/* A transfer of which not all parts have come. */
struct open_transfer {
    uint64_t number;
    uint32_t parts;
    int64_t sum; /* of what its changes have added */
};

static struct kvstore_position followed[8];
static int64_t followed_balances[ACCOUNTS];
static struct open_transfer open_transfers[WRITERS * TRANSFERS + 1];
static char *follower_failure;
static uint64_t followed_transfers;

static void begin_to_follow(void)
{
    memset(open_transfers, 0, sizeof open_transfers);
    follower_failure = NULL;
    followed_transfers = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        followed_balances[i] = BALANCE;
    for (uint32_t i = 0; i < kvstore_datafiles(store); i++)
        ck_assert_int_eq(kvstore_changes_now(store, i, &followed[i]), KV_OK);
}

static struct open_transfer *find_transfer(uint64_t number)
{
    struct open_transfer *transfer = open_transfers;
    if (number == 0)
        return transfer;
    for (transfer++; transfer->number != 0 && transfer->number != number; transfer++)
        ;
    transfer->number = number;
    return transfer;
}

/* Adds up what the changes of a transfer add, until all of them have come. */
static bool follow_change(void *context, const struct kvstore_change *change)
{
    int account;
    char key[sizeof accounts[0]] = "";
    (void)context;
    memcpy(key, change->key.data, change->key.size);
    if (sscanf(key, "account %d", &account) != 1 || change->piece == 0) {
        follower_failure = strdup("a change of nobody");
        return false;
    }
    struct open_transfer *transfer = find_transfer(change->transaction);
    int64_t balance = balance_in(change->value.data, change->value.size);
    transfer->sum += balance - followed_balances[account];
    followed_balances[account] = balance;
    transfer->parts += change->following == 0;
    if (change->following == 0 && (change->transaction == 0 || transfer->parts == change->parts)) {
        if (transfer->sum != 0)
            follower_failure = strdup("a transfer as followed adds or takes something");
        transfer->sum = 0;
        transfer->parts = 0;
        followed_transfers++;
    }
    return follower_failure == NULL;
}

/* A few changes of each file in turn. Afterwards nobody has written meanwhile: all is there. */
static char *follow_transfers(bool are_over)
{
    bool at_end;
    do {
        at_end = true;
        for (uint32_t i = 0; i < kvstore_datafiles(store) && !follower_failure; i++) {
            bool at_end_of_file = false;
            enum kv_status status = kvstore_changes(store, i, &followed[i], kv_slice(NULL, 0), 3,
                                                    follow_change, NULL, &at_end_of_file);
            at_end &= at_end_of_file;
            if (status != KV_OK)
                return strdup(kv_status_name(status));
        }
    } while (!at_end && !follower_failure);
    for (size_t i = 1; are_over && i < sizeof open_transfers / sizeof *open_transfers; i++)
        if (!follower_failure && open_transfers[i].parts != 0)
            return strdup("a part is missing");
    return follower_failure;
}

static void *follow_all_the_time(void *argument)
{
    char *failure = NULL;
    (void)argument;
    while (atomic_load(&writers_left) > 0 && !failure) {
        failure = follow_transfers(false);
        usleep(300);
    }
    return failure;
}

static void *compact_all_the_time(void *argument)
{
    (void)argument;
    while (atomic_load(&writers_left) > 0) {
        for (uint32_t i = 0; i < kvstore_datafiles(store); i++)
            if (kvstore_compact(store, i, NULL) != KV_OK)
                return strdup("a compaction failed");
        usleep(1000);
    }
    return NULL;
}

/* Banks --------------------------------------------------------------------------------------- */

static void open_bank(const struct kvstore_options *options)
{
    store = must_open(dir, options);
    for (int i = 0; i < ACCOUNTS; i++) {
        snprintf(accounts[i], sizeof accounts[i], "account %d", i);
        char balance[16];
        snprintf(balance, sizeof balance, "%d", BALANCE);
        must_put(store, accounts[i], balance);
    }
}

static void run_bank(void)
{
    void *(*const others[])(void *) = {sum_all_the_time, copy_now_and_then, compact_all_the_time,
                                       follow_all_the_time};
    enum { OTHERS = sizeof others / sizeof *others };
    pthread_t threads[WRITERS + OTHERS];
    int numbers[WRITERS];
    atomic_store(&writers_left, WRITERS);
    begin_to_follow();
    for (int i = 0; i < WRITERS + OTHERS; i++) {
        if (i < WRITERS)
            numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL,
                                        i < WRITERS ? transfer_many : others[i - WRITERS],
                                        i < WRITERS ? &numbers[i] : NULL),
                         0);
    }
    for (int i = 0; i < WRITERS + OTHERS; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        ck_assert_msg(!failure, "%s", (const char *)failure);
    }
    char *failure = sum_by_scan(store, "in the end");
    ck_assert_msg(!failure, "%s", failure);
    failure = follow_transfers(true);
    ck_assert_msg(!failure, "%s", failure);
    ck_assert_uint_gt(followed_transfers, WRITERS * TRANSFERS / 8);
    ck_assert_uint_eq(total_statistics(store).compaction_failures, 0);
}

static void close_and_sum(void)
{
    must_close(store);
    store = must_open(dir, &(struct kvstore_options){0});
    char *failure = sum_by_scan(store, "after the next start");
    ck_assert_msg(!failure, "%s", failure);
}

/* Each strategy, with one file and with several in turn. */
START_TEST(no_sum_differs_whatever_the_locks)
{
    open_bank(&(struct kvstore_options){.create = true,
                                        .datafiles = _i % 2 == 0 ? 4 : 1,
                                        .locking = (enum kvstore_locking)(_i / 2)});
    run_bank();
    close_and_sum();
}
END_TEST

START_TEST(no_sum_differs_however_files_are_read)
{
    open_bank(&(struct kvstore_options){.create = true,
                                        .datafiles = 3,
                                        .io = (enum kvstore_io)_i,
                                        .durability = KVSTORE_SYNC_INTERVAL,
                                        .sync_interval_ms = 1,
                                        .cache_bytes = 1u << 20});
    run_bank();
    close_and_sum();
}
END_TEST

START_TEST(no_sum_differs_when_others_may_read)
{
    open_bank(
        &(struct kvstore_options){.create = true, .datafiles = 8, .direct = KVSTORE_DIRECT_OWNER});
    run_bank();
    close_and_sum();
}
END_TEST

/* Steps --------------------------------------------------------------------------------------- */

/* Two keys that are raised together: who looks at one and then at the other never finds the second
 * one lower, with whatever call it looks. */
#define RAISES 6000

static void *raise_two(void *argument)
{
    struct asked_transaction *asked = calloc(1, sizeof *asked);
    char *failure = NULL;
    (void)argument;
    asked_then(asked, KVSTORE_STEP_ADD, accounts[0], NULL)->delta = 1;
    asked_then(asked, KVSTORE_STEP_ADD, accounts[1], NULL)->delta = 1;
    for (int i = 0; i < RAISES && !failure; i++)
        if (asked_do(asked, store) != KV_OK)
            failure = strdup("an addition was refused");
    free(asked);
    atomic_store(&writers_left, 0);
    return failure;
}

static void *look_at_two(void *argument)
{
    unsigned from = *(const int *)argument & 1;
    while (atomic_load(&writers_left) > 0) {
        const char *text = get_text(store, accounts[from]);
        int64_t one = balance_in(text, strlen(text));
        text = get_text(store, accounts[1 - from]);
        if (balance_in(text, strlen(text)) < one)
            return strdup("the second one is lower");
    }
    return NULL;
}

START_TEST(who_has_seen_one_write_sees_the_others)
{
    pthread_t threads[3];
    int numbers[2] = {0, 1};
    open_bank(&(struct kvstore_options){
        .create = true, .datafiles = 8, .locking = (enum kvstore_locking)_i});
    for (int i = 2;
         kvstore_file_of(store, KEY(accounts[0])) == kvstore_file_of(store, KEY(accounts[1])); i++)
        strcpy(accounts[1], accounts[i]);
    atomic_store(&writers_left, 1);
    ck_assert_int_eq(pthread_create(&threads[2], NULL, raise_two, NULL), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, look_at_two, &numbers[i]), 0);
    for (int i = 0; i < 3; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        ck_assert_msg(!failure, "%s", (const char *)failure);
    }
}
END_TEST

TEST_SUITE(kvstore_bank)
{
    TCase *tests = tcase_create("bank");
    store_case_add(tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, no_sum_differs_whatever_the_locks, 0, 2 * locking_count());
    tcase_add_loop_test(tests, no_sum_differs_however_files_are_read, 0, store_io_count());
    tcase_add_loop_test(tests, who_has_seen_one_write_sees_the_others, 0, locking_count());
    tcase_add_test(tests, no_sum_differs_when_others_may_read);
    suite_add_tcase(suite, tests);
}
