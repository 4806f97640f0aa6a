/* mqkv by its library: two ADDs with a bound as one transaction, or an optimistic loop. */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/parse.h"
#include "experiments/peers/transfer.h"
#include "mqkv/clientk.h"

static void mqkv_check(enum kv_status status)
{
    if (status != KV_OK)
        errx(4, "mqkv: %s: %s", kv_status_text(status), clientk_last_error());
}

static void *mqkv_connect(const char *address, const char *option)
{
    struct clientk_options options = {.queue = address};
    struct clientk *client = NULL;
    struct kv_error error = {0};

    (void)option;
    if (clientk_open(&options, &client, &error) != KV_OK)
        errx(4, "mqkv: %s", error.text);
    return client;
}

static void mqkv_disconnect(void *connection)
{
    clientk_close(connection);
}

static struct kv_slice account_key(const char *account)
{
    return kv_slice(account, strlen(account));
}

static void mqkv_open_accounts(void *connection)
{
    char text[INTEGER_BYTES];
    struct kv_slice value = kv_slice(text, format_i64(OPENING_BALANCE, text));

    for (unsigned i = 0; i < ACCOUNTS; i++)
        mqkv_check(clientk_put(connection, account_key(account_name(i)), value, NULL, NULL));
}

static void add_transfer(void *connection, const char *from, const char *to, int64_t amount)
{
    const struct clientk_operation steps[] = {
        {.opcode = CLIENTK_ADD,
         .key = account_key(from),
         .delta = -amount,
         .add = {.has_min = true}},
        {.opcode = CLIENTK_ADD, .key = account_key(to), .delta = amount},
    };
    const struct clientk_transaction transaction = {.then = steps, .then_count = 2};
    struct clientk_result results[2] = {0};

    mqkv_check(clientk_transact(connection, &transaction, results, NULL));
}

static int64_t number_of(const struct clientk_value *value)
{
    int64_t number;

    if (!parse_i64_bytes(value->data, value->size, &number))
        errx(4, "mqkv: a balance is no number");
    return number;
}

/* What an optimistic loop moves. */
struct move {
    struct kv_slice keys[2];
    int64_t amount;
    char texts[2][INTEGER_BYTES];
    struct clientk_operation steps[2];
};

static enum kv_status compute_move(void *context, const struct clientk_result *entries,
                                   struct clientk_transaction *transaction)
{
    struct move *move = context;
    const int64_t sums[2] = {number_of(&entries[0].value) - move->amount,
                             number_of(&entries[1].value) + move->amount};

    if (sums[0] < 0)
        return KV_OUT_OF_BOUNDS;
    for (unsigned i = 0; i < 2; i++)
        move->steps[i] = (struct clientk_operation){
            .opcode = CLIENTK_PUT,
            .key = move->keys[i],
            .value = kv_slice(move->texts[i], format_i64(sums[i], move->texts[i])),
        };
    transaction->then = move->steps;
    transaction->then_count = 2;
    return KV_OK;
}

static void loop_transfer(void *connection, const char *from, const char *to, int64_t amount)
{
    struct move move = {.keys = {account_key(from), account_key(to)}, .amount = amount};
    struct clientk_result results[2] = {0};

    mqkv_check(
        clientk_transact_loop(connection, move.keys, 2, compute_move, &move, 0, results, NULL));
}

static int64_t mqkv_balance(void *connection, const char *account)
{
    struct clientk_value value = {0};

    mqkv_check(clientk_get(connection, account_key(account), &value));
    int64_t number = number_of(&value);
    clientk_value_free(&value);
    return number;
}

#define MQKV_BANK(name, shared, transfer)                                              \
    {                                                                                  \
        name, "", shared, mqkv_connect, mqkv_disconnect, mqkv_open_accounts, transfer, \
            mqkv_balance                                                               \
    }

const struct bank mqkv_banks[] = {MQKV_BANK("mqkv", true, add_transfer),
                                  MQKV_BANK("mqkv-handles", false, add_transfer),
                                  MQKV_BANK("mqkv-loop", true, loop_transfer),
                                  {0}};
