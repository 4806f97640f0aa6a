/* Transactions of the library, against a real server, and against one that answers badly. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/sham_server.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/transact_value.h"

#define TEXT(text) kv_slice_from_string(text)

#define PUT_OF(k, v)                                            \
    {                                                           \
        .opcode = CLIENTK_PUT, .key = TEXT(k), .value = TEXT(v) \
    }
#define GET_OF(k)                             \
    {                                         \
        .opcode = CLIENTK_GET, .key = TEXT(k) \
    }
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct clientk_result results[CLIENTK_MAX_TRANSACTION_STEPS];
static struct clientk_transacted told;

static void free_results(void)
{
    for (size_t i = 0; i < COUNT(results); i++)
        clientk_value_free(&results[i].value);
}

static enum kv_status transact_lists(const struct clientk_guard *guards, size_t guard_count,
                                     const struct clientk_operation *then, size_t then_count,
                                     const struct clientk_operation *otherwise,
                                     size_t otherwise_count)
{
    const struct clientk_transaction transaction = {.guards = guards,
                                                    .guard_count = guard_count,
                                                    .then = then,
                                                    .then_count = then_count,
                                                    .otherwise = otherwise,
                                                    .otherwise_count = otherwise_count};
    return clientk_transact(client, &transaction, results, &told);
}

static void assert_absent_key(const char *key)
{
    assert_status(clientk_exists(client, TEXT(key), NULL), KV_NOT_FOUND);
}

START_TEST(each_operation_gives_its_result)
{
    must_put_text(client, "old", "value");
    must_put_text(client, "gone", "x");
    must_put_text(client, "tail", "ab");
    const struct clientk_operation then[] = {
        PUT_OF("new", "1"),
        {.opcode = CLIENTK_DELETE, .key = TEXT("gone")},
        {.opcode = CLIENTK_ADD, .key = TEXT("n"), .delta = 5, .add = {.has_min = true}},
        {.opcode = CLIENTK_APPEND, .key = TEXT("tail"), .value = TEXT("cd")},
        GET_OF("old"),
        {.opcode = CLIENTK_EXISTS, .key = TEXT("old")},
        GET_OF("none"),
        {.opcode = CLIENTK_TOUCH, .key = TEXT("old"), .write = {.expiry_ms = UINT64_MAX / 2}},
    };
    assert_status(transact_lists(NULL, 0, then, COUNT(then), NULL, 0), KV_OK);
    ck_assert_int_eq(told.outcome, CLIENTK_DONE);
    ck_assert_uint_eq(told.results, COUNT(then));
    ck_assert_int_eq(told.part, CLIENTK_PART_NONE);
    for (size_t i = 0; i < COUNT(then); i++)
        ck_assert_int_eq(results[i].status, i == 6 ? KV_NOT_FOUND : KV_OK);
    ck_assert_int_eq(results[2].number, 5);
    ck_assert_int_eq(results[3].number, 4);
    ck_assert_str_eq(results[4].value.data, "value");
    ck_assert_uint_eq(results[5].value.size, 5);
    ck_assert_uint_eq(results[5].value.version, results[4].value.version);
    ck_assert_uint_gt(results[7].value.version, results[4].value.version);
    assert_text(client, "new", "1");
    assert_text(client, "n", "5");
    assert_text(client, "tail", "abcd");
    assert_absent_key("gone");
}
END_TEST

START_TEST(one_of_two_lists_is_done)
{
    uint64_t version = 0;
    assert_status(clientk_put(client, TEXT("stock"), TEXT("7"), NULL, &version), KV_OK);
    const struct clientk_guard guards[] = {
        {.kind = CLIENTK_GUARD_VERSION, .key = TEXT("stock"), .version = version},
        {.kind = CLIENTK_GUARD_VALUE, .key = TEXT("stock"), .value = TEXT("7")},
        {.kind = CLIENTK_GUARD_PRESENT, .key = TEXT("stock")},
        {.kind = CLIENTK_GUARD_ABSENT, .key = TEXT("order")},
    };
    const struct clientk_operation then[] = {PUT_OF("order", "1")};
    const struct clientk_operation otherwise[] = {GET_OF("order"), PUT_OF("refused", "1")};
    assert_status(transact_lists(guards, 4, then, 1, otherwise, 2), KV_OK);
    ck_assert_int_eq(told.outcome, CLIENTK_DONE);
    ck_assert_uint_eq(told.results, 1);
    assert_absent_key("refused");
    assert_status(transact_lists(guards, 4, then, 1, otherwise, 2), KV_OK);
    ck_assert_int_eq(told.outcome, CLIENTK_ELSE);
    ck_assert_uint_eq(told.guard, 3);
    ck_assert_uint_eq(told.results, 2);
    ck_assert_str_eq(results[0].value.data, "1");
    assert_text(client, "refused", "1");
    assert_status(transact_lists(guards, 4, NULL, 0, NULL, 0), KV_OK);
    ck_assert_int_eq(told.outcome, CLIENTK_ELSE);
    ck_assert_uint_eq(told.results, 0);
}
END_TEST

START_TEST(a_failure_is_told_by_operation_and_sentence)
{
    must_put_text(client, "stock", "3");
    const struct clientk_operation then[] = {
        PUT_OF("unmade", "1"),
        {.opcode = CLIENTK_ADD, .key = TEXT("stock"), .delta = -4, .add = {.has_min = true}},
    };
    assert_status(transact_lists(NULL, 0, then, 2, NULL, 0), KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(told.outcome, CLIENTK_FAILED);
    ck_assert_int_eq(told.part, CLIENTK_PART_THEN);
    ck_assert_uint_eq(told.at, 1);
    ck_assert_int_eq(results[1].number, 3);
    ck_assert_int_eq(results[1].status, KV_OUT_OF_BOUNDS);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "then 2, \"stock\": "));
    assert_absent_key("unmade");
}
END_TEST

START_TEST(what_is_impossible_is_not_sent)
{
    struct clientk_guard guard = {.key = TEXT("k")};
    struct clientk_operation step = PUT_OF("k", "v"), twice[] = {step, step};
    assert_status(transact_lists(&guard, 1, NULL, 0, NULL, 0), KV_USAGE); /* no kind */
    ck_assert_int_eq(told.part, CLIENTK_PART_GUARD);
    guard.kind = CLIENTK_GUARD_PRESENT;
    guard.version = 1;
    assert_status(transact_lists(&guard, 1, NULL, 0, NULL, 0), KV_USAGE);
    guard.version = 0;
    guard.value = TEXT("v");
    assert_status(transact_lists(&guard, 1, NULL, 0, NULL, 0), KV_USAGE);
    guard.value.size = 0;
    guard.reserved[0] = 1;
    assert_status(transact_lists(&guard, 1, NULL, 0, NULL, 0), KV_UNSUPPORTED);
    guard.reserved[0] = 0;
    guard.key.size = 0;
    assert_status(transact_lists(&guard, 1, NULL, 0, NULL, 0), KV_BAD_KEY);
    assert_status(transact_lists(NULL, 0, twice, 2, NULL, 0), KV_USAGE);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "then 2"));
    step.write.if_absent = true;
    assert_status(transact_lists(NULL, 0, NULL, 0, &step, 1), KV_USAGE);
    ck_assert_int_eq(told.part, CLIENTK_PART_ELSE);
    step.write.if_absent = false;
    step.write.durability = CLIENTK_SYNC_ALWAYS;
    assert_status(transact_lists(NULL, 0, &step, 1, NULL, 0), KV_USAGE);
    step.write.durability = CLIENTK_SERVER_DEFAULT;
    step.opcode = CLIENTK_EXCHANGE;
    assert_status(transact_lists(NULL, 0, &step, 1, NULL, 0), KV_USAGE);
    step.opcode = CLIENTK_PUT;
    step.key.size = 0;
    assert_status(transact_lists(NULL, 0, &step, 1, NULL, 0), KV_BAD_KEY);
    static struct clientk_operation many[CLIENTK_MAX_TRANSACTION_STEPS + 1];
    assert_status(transact_lists(NULL, 0, many, COUNT(many), NULL, 0), KV_USAGE);
    assert_status(transact_lists(NULL, 0, NULL, 1, NULL, 0), KV_USAGE);
    assert_status(clientk_transact(client, NULL, results, NULL), KV_USAGE);
    struct clientk_transaction transaction = {.then = twice, .then_count = 1};
    assert_status(clientk_transact(client, &transaction, NULL, NULL), KV_USAGE);
    assert_status(clientk_transact(NULL, &transaction, results, NULL), KV_USAGE);
    transaction.reserved[3] = 1;
    assert_status(clientk_transact(client, &transaction, results, NULL), KV_UNSUPPORTED);
    ck_assert_int_eq(told.outcome, CLIENTK_FAILED);
    assert_absent_key("k");
}
END_TEST

#define LARGE_BYTES 300000u

static struct kv_slice large_value(unsigned seed)
{
    return kv_slice(patterned_bytes(LARGE_BYTES, seed), LARGE_BYTES);
}

START_TEST(large_values_come_and_go)
{
    struct kv_slice a = large_value(1), b = large_value(2), c = large_value(3);
    const struct clientk_operation puts[] = {
        {.opcode = CLIENTK_PUT, .key = TEXT("a"), .value = a},
        {.opcode = CLIENTK_PUT, .key = TEXT("b"), .value = b},
        {.opcode = CLIENTK_PUT, .key = TEXT("c"), .value = c},
    };
    assert_status(transact_lists(NULL, 0, puts, 3, NULL, 0), KV_OK);
    const struct kv_slice keys[] = {TEXT("c"), TEXT("none"), TEXT("a"), TEXT("b")};
    assert_status(clientk_get_together(client, keys, 4, results), KV_OK);
    const struct kv_slice expected[] = {c, {NULL, 0}, a, b};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(results[i].status, i == 1 ? KV_NOT_FOUND : KV_OK);
        ck_assert(
            kv_slice_equal(kv_slice(results[i].value.data, results[i].value.size), expected[i]));
    }
    /* Reading and writing in one: the room is looked for before anything is done. */
    const struct clientk_guard guard = {.kind = CLIENTK_GUARD_VALUE, .key = TEXT("a"), .value = a};
    const struct clientk_operation turns[] = {
        GET_OF("a"),
        GET_OF("b"),
        {.opcode = CLIENTK_PUT, .key = TEXT("a"), .value = b},
        {.opcode = CLIENTK_PUT, .key = TEXT("b"), .value = TEXT("small")},
    };
    assert_status(transact_lists(&guard, 1, turns, 4, NULL, 0), KV_OK);
    ck_assert_int_eq(told.outcome, CLIENTK_DONE);
    ck_assert(kv_slice_equal(kv_slice(results[1].value.data, results[1].value.size), b));
    assert_text(client, "b", "small");
    free((char *)(uintptr_t)a.data);
    free((char *)(uintptr_t)b.data);
    free((char *)(uintptr_t)c.data);
}
END_TEST

START_TEST(more_than_a_message_takes_is_refused)
{
    static char value[600000];
    must_put_text(client, "written", "before");
    for (unsigned i = 0; i < 2; i++) {
        struct kv_slice key = TEXT(i == 0 ? "large a" : "large b");
        assert_status(clientk_put(client, key, kv_slice(value, sizeof value), NULL, NULL), KV_OK);
    }
    const struct kv_slice keys[] = {TEXT("large a"), TEXT("large b")};
    assert_status(clientk_get_together(client, keys, 2, results), KV_BUFFER_TOO_SMALL);
    const struct clientk_operation reads_and_writes[] = {
        GET_OF("large a"), PUT_OF("written", "after"), GET_OF("large b")};
    assert_status(transact_lists(NULL, 0, reads_and_writes, 3, NULL, 0), KV_BUFFER_TOO_SMALL);
    ck_assert_int_eq(told.outcome, CLIENTK_FAILED);
    assert_text(client, "written", "before");
    const struct clientk_operation puts[] = {
        {.opcode = CLIENTK_PUT, .key = TEXT("too big"), .value = kv_slice(value, sizeof value)},
        {.opcode = CLIENTK_PUT,
         .key = TEXT("too big, too"),
         .value = kv_slice(value, sizeof value)},
    };
    assert_status(transact_lists(NULL, 0, puts, 2, NULL, 0), KV_VALUE_TOO_BIG);
    ck_assert_int_eq(told.outcome, CLIENTK_FAILED);
    assert_absent_key("too big");
}
END_TEST

START_TEST(as_many_keys_as_there_may_be)
{
    static char names[CLIENTK_MAX_TRANSACTION_STEPS + 1][16];
    struct kv_slice keys[CLIENTK_MAX_TRANSACTION_STEPS + 1];
    static struct clientk_operation puts[CLIENTK_MAX_TRANSACTION_STEPS];
    for (unsigned i = 0; i < COUNT(names); i++) {
        snprintf(names[i], sizeof names[i], "many%u", i);
        keys[i] = TEXT(names[i]);
        if (i < COUNT(puts))
            puts[i] =
                (struct clientk_operation){.opcode = CLIENTK_PUT, .key = keys[i], .value = keys[i]};
    }
    assert_status(transact_lists(NULL, 0, puts, COUNT(puts), NULL, 0), KV_OK);
    ck_assert_uint_eq(told.results, COUNT(puts));
    assert_status(clientk_get_together(client, keys, COUNT(puts), results), KV_OK);
    for (unsigned i = 0; i < COUNT(puts); i++)
        ck_assert_str_eq(results[i].value.data, names[i]);
    assert_status(clientk_get_together(client, keys, COUNT(names), results), KV_USAGE);
    assert_status(clientk_get_together(client, keys, 0, NULL), KV_OK);
    assert_status(clientk_get_together(client, NULL, 1, results), KV_USAGE);
}
END_TEST

/* The optimistic loop -------------------------------------------------------------------------- */

#define ACCOUNTS  4u
#define TELLERS   3u
#define TRANSFERS 100u
#define MONEY     1000

struct teller {
    char texts[2][24];
    struct clientk_operation puts[2];
    unsigned number;
};

static enum kv_status compute_transfer(void *context, const struct clientk_result *entries,
                                       struct clientk_transaction *transaction)
{
    struct teller *teller = context;
    long from = atol(entries[0].value.data), to = atol(entries[1].value.data);
    snprintf(teller->texts[0], sizeof teller->texts[0], "%ld", from - 1);
    snprintf(teller->texts[1], sizeof teller->texts[1], "%ld", to + 1);
    for (unsigned i = 0; i < 2; i++)
        teller->puts[i].value = TEXT(teller->texts[i]);
    transaction->then = teller->puts;
    transaction->then_count = 2;
    return KV_OK;
}

static const char *const account_names[ACCOUNTS] = {"account0", "account1", "account2", "account3"};

static void *transfer(void *context)
{
    struct teller *teller = context;
    struct clientk_result written[2] = {{.status = KV_OK}, {.status = KV_OK}};
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct kv_slice keys[] = {TEXT(account_names[(teller->number + i) % ACCOUNTS]),
                                  TEXT(account_names[(teller->number + i + 1) % ACCOUNTS])};
        for (unsigned j = 0; j < 2; j++)
            teller->puts[j] = (struct clientk_operation){.opcode = CLIENTK_PUT, .key = keys[j]};
        assert_status(
            clientk_transact_loop(client, keys, 2, compute_transfer, teller, 100000, written, NULL),
            KV_OK);
    }
    return NULL;
}

static long sum_of_accounts(void)
{
    struct kv_slice keys[ACCOUNTS];
    long sum = 0;
    for (unsigned i = 0; i < ACCOUNTS; i++)
        keys[i] = TEXT(account_names[i]);
    assert_status(clientk_get_together(client, keys, ACCOUNTS, results), KV_OK);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        sum += atol(results[i].value.data);
    return sum;
}

START_TEST(loops_of_several_threads_lose_nothing)
{
    struct teller tellers[TELLERS] = {{.number = 0}};
    pthread_t threads[TELLERS];
    for (unsigned i = 0; i < ACCOUNTS; i++)
        must_put_text(client, account_names[i], "1000");
    for (unsigned i = 0; i < TELLERS; i++) {
        tellers[i].number = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, transfer, &tellers[i]), 0);
    }
    for (unsigned i = 0; i < 200; i++)
        ck_assert_int_eq(sum_of_accounts(), ACCOUNTS * MONEY);
    for (unsigned i = 0; i < TELLERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(sum_of_accounts(), ACCOUNTS * MONEY);
}
END_TEST

/* Somebody changes the key whenever it is computed. */
static enum kv_status compute_too_late(void *context, const struct clientk_result *entries,
                                       struct clientk_transaction *transaction)
{
    static struct clientk_operation put;
    put = (struct clientk_operation)PUT_OF("mine", "1");
    ck_assert_int_eq(entries[0].status, KV_NOT_FOUND);
    ck_assert_int_eq(entries[1].status, *(unsigned *)context == 0 ? KV_NOT_FOUND : KV_OK);
    ++*(unsigned *)context;
    must_put_text(client, "theirs", "changed");
    transaction->then = &put;
    transaction->then_count = 1;
    return KV_OK;
}

static enum kv_status compute_nothing(void *context, const struct clientk_result *entries,
                                      struct clientk_transaction *transaction)
{
    (void)context;
    (void)entries;
    (void)transaction;
    return KV_OUT_OF_BOUNDS;
}

static enum kv_status compute_guards(void *context, const struct clientk_result *entries,
                                     struct clientk_transaction *transaction)
{
    (void)entries;
    transaction->guards = context;
    transaction->guard_count = 1;
    return KV_OK;
}

START_TEST(a_loop_ends)
{
    unsigned tries = 0;
    const struct kv_slice keys[] = {TEXT("mine"), TEXT("theirs")};
    struct clientk_guard guard = {.kind = CLIENTK_GUARD_PRESENT, .key = TEXT("mine")};
    assert_status(
        clientk_transact_loop(client, keys, 2, compute_too_late, &tries, 3, results, &told),
        KV_VERSION_MISMATCH);
    ck_assert_uint_eq(tries, 3);
    ck_assert_uint_eq(told.guard, 1);
    ck_assert_int_eq(told.outcome, CLIENTK_FAILED);
    assert_absent_key("mine");
    assert_status(clientk_transact_loop(client, keys, 2, compute_nothing, NULL, 0, results, &told),
                  KV_OUT_OF_BOUNDS);
    ck_assert_int_eq(told.outcome, CLIENTK_FAILED);
    assert_status(clientk_transact_loop(client, keys, 2, compute_guards, &guard, 0, results, &told),
                  KV_USAGE);
    assert_status(clientk_transact_loop(client, NULL, 2, compute_guards, &guard, 0, results, NULL),
                  KV_USAGE);
    assert_status(clientk_transact_loop(client, keys, 2, NULL, NULL, 0, results, NULL), KV_USAGE);
    assert_status(
        clientk_transact_loop(client, keys, 1000, compute_nothing, NULL, 0, results, NULL),
        KV_USAGE);
}
END_TEST

/* Servers that answer badly -------------------------------------------------------------------- */

/* What the sham server answers, by the key of the first step. */
static void answer_transact(const struct sham_session *session, const struct wire_header *request,
                            const struct wire_operation *operation)
{
    if (!request)
        return;
    struct wire_transaction_keys keys = wire_keys_of_transaction(operation->value);
    struct kv_slice key = kv_slice(NULL, 0);
    wire_next_transaction_key(&keys, &key);
    if (kv_slice_equal(key, TEXT("old"))) {
        sham_refuse(session, request, KV_UNSUPPORTED, "whatever an old server says");
        return;
    }
    if (kv_slice_equal(key, TEXT("not durable"))) {
        sham_refuse(session, request, KV_NOT_DURABLE, "applied");
        return;
    }
    uint8_t body[64];
    struct write_cursor cursor = write_cursor(body, sizeof body);
    struct wire_outcome outcome = {.results = 1};
    struct wire_result step = {.status = KV_OK}, result = {.status = KV_OK};
    if (kv_slice_equal(key, TEXT("count")))
        outcome.results = 2;
    if (kv_slice_equal(key, TEXT("guard")))
        outcome.otherwise = true;
    if (kv_slice_equal(key, TEXT("segment")))
        step = (struct wire_result){.flags = WIRE_RESULT_IN_SEGMENT, .value = kv_slice(NULL, 8)};
    if (kv_slice_equal(key, TEXT("no value")))
        step = (struct wire_result){.flags = WIRE_RESULT_NO_VALUE, .value = kv_slice(NULL, 8)};
    if (kv_slice_equal(key, TEXT("place"))) {
        result.status = KV_OUT_OF_BOUNDS;
        outcome.about = WIRE_ABOUT_STEP;
        outcome.at = 1;
    }
    wire_put_outcome(&cursor, &outcome);
    wire_put_result(&cursor, &step);
    size_t size = write_cursor_used(&cursor);
    if (kv_slice_equal(key, TEXT("cut")))
        size--;
    if (kv_slice_equal(key, TEXT("empty")))
        size = 0;
    result.value = kv_slice(body, size);
    sham_answer(session, request, KV_OK, &result);
}

START_TEST(bad_answers_leave_the_outcome_unknown)
{
    const struct {
        const char *key;
        enum kv_status status;
        enum clientk_outcome outcome;
    } cases[] = {
        {"old", KV_UNSUPPORTED, CLIENTK_FAILED}, {"not durable", KV_NOT_DURABLE, CLIENTK_UNKNOWN},
        {"count", KV_IO, CLIENTK_UNKNOWN},       {"guard", KV_IO, CLIENTK_UNKNOWN},
        {"segment", KV_IO, CLIENTK_UNKNOWN},     {"no value", KV_IO, CLIENTK_UNKNOWN},
        {"place", KV_IO, CLIENTK_UNKNOWN},       {"cut", KV_IO, CLIENTK_UNKNOWN},
        {"empty", KV_IO, CLIENTK_UNKNOWN},       {"good", KV_OK, CLIENTK_DONE},
    };
    char queue[64];
    test_queue_name(queue, sizeof queue);
    pid_t sham = sham_server_start(queue, answer_transact);
    struct clientk_options options = {.queue = queue};
    struct clientk *of_sham = must_connect_with(&options);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct clientk_operation get = {.opcode = CLIENTK_GET, .key = TEXT(cases[i].key)};
        const struct clientk_transaction transaction = {.then = &get, .then_count = 1};
        assert_status(clientk_transact(of_sham, &transaction, results, &told), cases[i].status);
        ck_assert_msg(told.outcome == cases[i].outcome, "%s", cases[i].key);
        if (cases[i].status == KV_UNSUPPORTED)
            ck_assert_ptr_nonnull(strstr(clientk_last_error(), "too old"));
    }
    clientk_close(of_sham);
    sham_server_stop(sham, queue);
}
END_TEST

TEST_SUITE(clientk_transact)
{
    TCase *tests = tcase_create("transact");
    served_case_add_client(tests);
    tcase_add_checked_fixture(tests, NULL, free_results);
    tcase_add_test(tests, each_operation_gives_its_result);
    tcase_add_test(tests, one_of_two_lists_is_done);
    tcase_add_test(tests, a_failure_is_told_by_operation_and_sentence);
    tcase_add_test(tests, what_is_impossible_is_not_sent);
    tcase_add_test(tests, large_values_come_and_go);
    tcase_add_test(tests, more_than_a_message_takes_is_refused);
    tcase_add_test(tests, as_many_keys_as_there_may_be);
    tcase_add_test(tests, loops_of_several_threads_lose_nothing);
    tcase_add_test(tests, a_loop_ends);
    suite_add_tcase(suite, tests);
    TCase *in_parts = tcase_create("in parts");
    served_case_add_client_without_segment(in_parts);
    tcase_add_checked_fixture(in_parts, NULL, free_results);
    tcase_add_test(in_parts, large_values_come_and_go);
    suite_add_tcase(suite, in_parts);
    TCase *sham = tcase_create("sham");
    tcase_add_checked_fixture(sham, NULL, free_results);
    tcase_add_test(sham, bad_answers_leave_the_outcome_unknown);
    suite_add_tcase(suite, sham);
}
