#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/transaction.h"
#include "tests/support/test_suite.h"

static struct redis_transaction transaction;

static void free_transaction(void)
{
    redis_transaction_free(&transaction);
}

static bool queue(const char *name, const char *key, size_t max_bytes)
{
    struct kv_slice arguments[] = {kv_slice_from_string(name), kv_slice_from_string(key)};
    return redis_transaction_queue(&transaction, &redis_commands[0], arguments, 2, max_bytes);
}

START_TEST(commands_come_out_in_their_order)
{
    char key[16];
    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "key%u", i);
        ck_assert(queue("get", key, 1 << 20));
    }
    ck_assert_uint_eq(redis_transaction_count(&transaction), 500);
    for (unsigned i = 0; i < 500; i++) {
        struct queued_command queued = redis_transaction_command(&transaction, i);
        snprintf(key, sizeof key, "key%u", i);
        ck_assert_ptr_eq(queued.command, &redis_commands[0]);
        ck_assert(kv_slice_equal(redis_transaction_argument(&transaction, &queued, 1),
                                 kv_slice_from_string(key)));
    }
    redis_transaction_clear(&transaction);
    ck_assert_uint_eq(redis_transaction_count(&transaction), 0);
}
END_TEST

START_TEST(a_queue_has_its_limit)
{
    unsigned count = 0;
    while (queue("get", "key", 4096))
        ck_assert_uint_lt(count++, 200);
    ck_assert_uint_gt(count, 20);
}
END_TEST

START_TEST(one_that_is_broken_keeps_nothing)
{
    size_t before = byte_buffer_total();
    ck_assert(queue("set", "key", 4096));
    redis_transaction_break(&transaction);
    ck_assert(transaction.broken);
    ck_assert_uint_eq(byte_buffer_total(), before);
    redis_transaction_clear(&transaction);
    ck_assert(!transaction.broken);
}
END_TEST

START_TEST(a_key_is_watched_once)
{
    bool is_new;
    struct watched_key *watched =
        redis_transaction_watch(&transaction, kv_slice_from_string("a"), &is_new);
    ck_assert(is_new);
    watched->version = 7;
    redis_transaction_watch(&transaction, kv_slice_from_string("b"), &is_new);
    ck_assert(is_new);
    watched = redis_transaction_watch(&transaction, kv_slice_from_string("a"), &is_new);
    ck_assert(!is_new && watched->version == 7);
    ck_assert_uint_eq(transaction.watched_count, 2);
    redis_transaction_clear(&transaction);
    ck_assert_uint_eq(transaction.watched_count, 2);
    redis_transaction_unwatch(&transaction);
    ck_assert(!transaction.watched);
}
END_TEST

START_TEST(every_command_is_found_by_its_name)
{
    redis_command_init();
    struct redis_session session = {.authenticated = true};
    for (size_t i = 0; i < redis_command_count; i++) {
        const struct redis_command *command = &redis_commands[i];
        char name[64];
        snprintf(name, sizeof name, "%s", command->name);
        char *bar = strchr(name, '|');
        size_t words = bar ? 2 : 1;
        struct kv_slice arguments[8] = {{0}};
        if (bar)
            *bar = '\0';
        arguments[0] = kv_slice_from_string(name);
        if (bar)
            arguments[1] = kv_slice_from_string(bar + 1);
        int least = command->arity < 0 ? -command->arity : command->arity;
        if ((command->flags & COMMAND_CONTAINER) && !bar)
            continue;
        for (int j = (int)words; j < least; j++)
            arguments[j] = kv_slice("x", 1);
        struct redis_job job = {
            .session = &session, .arguments = arguments, .count = (size_t)least};
        redis_command_find(&job);
        ck_assert_msg(job.command == command, "%s", command->name);
    }
}
END_TEST

TEST_SUITE(kresp_transaction)
{
    TCase *queueing = tcase_create("queueing");
    tcase_add_checked_fixture(queueing, NULL, free_transaction);
    tcase_add_test(queueing, commands_come_out_in_their_order);
    tcase_add_test(queueing, a_queue_has_its_limit);
    tcase_add_test(queueing, one_that_is_broken_keeps_nothing);
    tcase_add_test(queueing, a_key_is_watched_once);
    tcase_add_test(queueing, every_command_is_found_by_its_name);
    suite_add_tcase(suite, queueing);
}
