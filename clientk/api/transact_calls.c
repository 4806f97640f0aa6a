/* The calls of clientk.h about several keys as one step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/api/calls.h"
#include "clientk/api/threads.h"
#include "clientk/base/last_error.h"
#include "clientk/direct/direct_together.h"
#include "clientk/message/transaction_body.h"
#include "clientk/message/translate.h"
#include "common/memory/reserved.h"
#include "common/report/error.h"

#define DEFAULT_TRIES 100u

/* Returns true if a transaction that ended with this status, and without an answer to it, surely
 * was not executed. */
static bool surely_not_executed(enum kv_status status)
{
    switch (status) {
    case KV_IO:
    case KV_NOT_DURABLE:
    case KV_NO_MEMORY:
    case KV_TIMEOUT:
    case KV_OUTCOME_UNKNOWN:
        return false;
    default:
        return true;
    }
}

/* The results of a transaction that was not done. */
static void fail_results(const struct clientk_transaction *transaction,
                         struct clientk_result *results, enum kv_status status)
{
    size_t count = transaction->then_count > transaction->otherwise_count
                       ? transaction->then_count
                       : transaction->otherwise_count;
    for (size_t i = 0; results && i < count; i++)
        result_clear(&results[i], status);
}

/* Sends the value of a TRANSACT, and reads the answer. */
static enum kv_status exchange_bodies(struct clientk *client,
                                      const struct clientk_transaction *transaction,
                                      struct kv_slice body, struct clientk_result *results,
                                      struct clientk_transacted *transacted)
{
    struct task task;
    task.operation.opcode = WIRE_OP_TRANSACT;
    task.operation.flags = (uint16_t)translate_durability(transaction->durability);
    task.operation.key = kv_slice(NULL, 0);
    task.operation.value = body;
    struct clientk_result answer = {.status = KV_OK};
    enum kv_status status = client_execute_one(client, &task, &answer);
    if (status != KV_OK)
        fail_results(transaction, results, status);
    bool answered = answer.value.data && answer.value.size > 0;
    if (answered) {
        status = transaction_body_read(transaction, status,
                                       kv_slice(answer.value.data, answer.value.size), results,
                                       transacted);
    } else {
        transacted->outcome = surely_not_executed(status) ? CLIENTK_FAILED : CLIENTK_UNKNOWN;
        if (status == KV_OK) {
            transacted->outcome = CLIENTK_UNKNOWN;
            status = kv_error_set(last_error_of_thread(), KV_IO,
                                  "the server's answer to the transaction is empty");
        } else if (status == KV_UNSUPPORTED && client_server_is_too_old(client)) {
            kv_error_set(last_error_of_thread(), status,
                         "the server has no transactions: it is too old");
        }
    }
    clientk_value_free(&answer.value);
    return status;
}

/* Does a transaction that only reads, and has no guards, without a message. False: by message. */
static bool read_without_message(struct clientk *client,
                                 const struct clientk_transaction *transaction,
                                 struct clientk_result *results,
                                 struct clientk_transacted *transacted)
{
    if (transaction->guard_count > 0 || transaction->otherwise_count > 0 || !transaction->then ||
        transaction->then_count == 0 || transaction->then_count > CLIENTK_MAX_TRANSACTION_STEPS ||
        transaction->durability != CLIENTK_SERVER_DEFAULT ||
        !RESERVED_IS_CLEAR(transaction->reserved) || !direct_is_on(&client->direct))
        return false;
    struct attachment *attachment = thread_attachment(client);
    if (!attachment || !direct_read_together(&client->direct, &attachment->reader,
                                             transaction->then, transaction->then_count, results))
        return false;
    transacted->outcome = CLIENTK_DONE;
    transacted->results = transaction->then_count;
    last_error_of_thread()->status = KV_OK;
    return true;
}

static enum kv_status refuse_missing(const char *what)
{
    return kv_error_set(last_error_of_thread(), KV_USAGE, "NULL was given as the %s", what);
}

enum kv_status clientk_transact(struct clientk *client,
                                const struct clientk_transaction *transaction,
                                struct clientk_result *results,
                                struct clientk_transacted *transacted)
{
    struct clientk_transacted unwanted = {0};
    if (!transacted)
        transacted = &unwanted;
    *transacted = (struct clientk_transacted){.outcome = CLIENTK_FAILED};
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    if (!transaction)
        return refuse_missing("transaction");
    if (!results && (transaction->then_count > 0 || transaction->otherwise_count > 0))
        return refuse_missing("results");
    if (read_without_message(client, transaction, results, transacted))
        return KV_OK;
    uint8_t *body = NULL;
    size_t body_bytes = 0;
    status = transaction_body_write(transaction, transacted, &body, &body_bytes);
    if (status != KV_OK)
        return status;
    status = exchange_bodies(client, transaction, kv_slice(body, body_bytes), results, transacted);
    free(body);
    return status;
}

/* Reading keys together --------------------------------------------------------------------- */

enum kv_status clientk_get_together(struct clientk *client, const struct kv_slice *keys,
                                    size_t count, struct clientk_result *results)
{
    struct clientk_operation *gets;
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    if (count == 0)
        return KV_OK;
    if (!keys || !results)
        return refuse_missing(keys ? "results" : "keys");
    if (count > CLIENTK_MAX_TRANSACTION_STEPS)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "at most %u keys are read together",
                            CLIENTK_MAX_TRANSACTION_STEPS);
    gets = calloc(count, sizeof *gets);
    if (!gets)
        return kv_error_set(last_error_of_thread(), KV_NO_MEMORY, "no memory for a transaction");
    for (size_t i = 0; i < count; i++) {
        gets[i].opcode = CLIENTK_GET;
        gets[i].key = keys[i];
    }
    const struct clientk_transaction transaction = {.then = gets, .then_count = count};
    status = clientk_transact(client, &transaction, results, NULL);
    free(gets);
    return status;
}

/* The optimistic loop ----------------------------------------------------------------------- */

struct optimistic_loop {
    struct clientk *client;
    const struct kv_slice *keys;
    size_t count;
    clientk_compute compute;
    void *context;
    struct clientk_result *entries;
    struct clientk_guard *guards;
    struct clientk_result *results;
    struct clientk_transacted *transacted;
};

static enum kv_status try_once(struct optimistic_loop *loop)
{
    *loop->transacted = (struct clientk_transacted){.outcome = CLIENTK_FAILED};
    enum kv_status status =
        clientk_get_together(loop->client, loop->keys, loop->count, loop->entries);
    if (status != KV_OK)
        return status;
    for (size_t i = 0; i < loop->count; i++) {
        if (loop->entries[i].status != KV_OK && loop->entries[i].status != KV_NOT_FOUND)
            return last_error_explain(last_error_of_thread(), loop->entries[i].status);
        loop->guards[i] = (struct clientk_guard){.kind = CLIENTK_GUARD_VERSION,
                                                 .key = loop->keys[i],
                                                 .version = loop->entries[i].value.version};
    }
    struct clientk_transaction transaction = {.then = NULL};
    status = loop->compute(loop->context, loop->entries, &transaction);
    if (status != KV_OK)
        return last_error_explain(last_error_of_thread(), status);
    if (transaction.guard_count > 0 || transaction.otherwise_count > 0)
        return kv_error_set(last_error_of_thread(), KV_USAGE,
                            "the function that computes gives then, and neither guards nor "
                            "otherwise");
    transaction.guards = loop->guards;
    transaction.guard_count = loop->count;
    return clientk_transact(loop->client, &transaction, loop->results, loop->transacted);
}

static enum kv_status try_often(struct optimistic_loop *loop, uint32_t tries)
{
    for (uint32_t i = 0; i < tries; i++) {
        enum kv_status status = try_once(loop);
        if (status != KV_OK || loop->transacted->outcome != CLIENTK_ELSE)
            return status;
    }
    loop->transacted->outcome = CLIENTK_FAILED;
    return kv_error_set(last_error_of_thread(), KV_VERSION_MISMATCH,
                        "others changed a key in between, %" PRIu32 " times: key %zu at last",
                        tries, loop->transacted->guard + 1);
}

enum kv_status clientk_transact_loop(struct clientk *client, const struct kv_slice *keys,
                                     size_t count, clientk_compute compute, void *context,
                                     uint32_t tries, struct clientk_result *results,
                                     struct clientk_transacted *transacted)
{
    struct clientk_transacted unwanted = {0};
    struct optimistic_loop loop = {.client = client,
                                   .keys = keys,
                                   .count = count,
                                   .compute = compute,
                                   .context = context,
                                   .results = results,
                                   .transacted = transacted ? transacted : &unwanted};
    *loop.transacted = (struct clientk_transacted){.outcome = CLIENTK_FAILED};
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    if (!compute || (count > 0 && !keys))
        return refuse_missing(compute ? "keys" : "function that computes");
    if (count > CLIENTK_MAX_TRANSACTION_STEPS)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "at most %u keys are read together",
                            CLIENTK_MAX_TRANSACTION_STEPS);
    loop.entries = calloc(count + 1, sizeof *loop.entries);
    loop.guards = calloc(count + 1, sizeof *loop.guards);
    status = loop.entries && loop.guards ? try_often(&loop, tries > 0 ? tries : DEFAULT_TRIES)
                                         : kv_error_set(last_error_of_thread(), KV_NO_MEMORY,
                                                        "no memory for a transaction");
    for (size_t i = 0; loop.entries && i < count; i++)
        clientk_value_free(&loop.entries[i].value);
    free(loop.entries);
    free(loop.guards);
    return status;
}
