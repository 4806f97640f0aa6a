#include "experiments/peers/range_served.h"

#include <err.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"

/* mqkv: a cursor that asks for no more than it is to give. */

static void *client_open(const char *address, enum clientk_direct direct)
{
    struct clientk_options options = {.queue = address, .direct = direct};
    struct clientk *client = NULL;
    struct kv_error error = {0};

    if (clientk_open(&options, &client, &error) != KV_OK)
        errx(4, "mqkv: %s", error.text);
    return client;
}

static void *in_place_open(const char *address, bool sync_every_write)
{
    (void)sync_every_write; /* the server decides */
    return client_open(address, CLIENTK_DIRECT_MAP);
}

static void *by_message_open(const char *address, bool sync_every_write)
{
    (void)sync_every_write;
    return client_open(address, CLIENTK_DIRECT_OFF);
}

static void client_check(enum kv_status status)
{
    if (status != KV_OK)
        errx(4, "mqkv: %s: %s", kv_status_text(status), clientk_last_error());
}

static void client_put(void *handle, struct kv_slice key, struct kv_slice value)
{
    client_check(clientk_put(handle, key, value, NULL, NULL));
}

static void client_range(void *handle, struct kv_slice from, size_t limit,
                         struct engine_range *range)
{
    const struct clientk_range wanted = {.from = from, .page = (uint32_t)limit, .limit = limit};
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    enum kv_status status;

    client_check(clientk_cursor_open(handle, &wanted, &cursor));
    while ((status = clientk_cursor_next(cursor, &entry)) == KV_OK)
        engine_range_add(range, entry.key, entry.value);
    if (status != KV_NOT_FOUND)
        client_check(status);
    clientk_cursor_close(cursor);
}

static void client_close(void *handle)
{
    clientk_close(handle);
}

/* Redis, as its users do it: a sorted set of all keys, each of score 0, has their order; a range
 * is ZRANGEBYLEX and then MGET. */

#define KEY_SET "keys"

static void *redis_open(const char *address, bool sync_every_write)
{
    redisContext *context = redisConnectUnix(address);

    (void)sync_every_write;
    if (!context || context->err)
        errx(4, "redis: %s", context ? context->errstr : "no memory");
    return context;
}

static redisReply *next_answer(redisContext *context)
{
    void *answer = NULL;

    if (redisGetReply(context, &answer) != REDIS_OK || !answer)
        errx(4, "redis: %s", context->errstr);
    redisReply *reply = answer;
    if (reply->type == REDIS_REPLY_ERROR)
        errx(4, "redis: %s", reply->str);
    return reply;
}

static void redis_put(void *handle, struct kv_slice key, struct kv_slice value)
{
    redisAppendCommand(handle, "SET %b %b", key.data, key.size, value.data, value.size);
    redisAppendCommand(handle, "ZADD " KEY_SET " 0 %b", key.data, key.size);
    freeReplyObject(next_answer(handle));
    freeReplyObject(next_answer(handle));
}

static void redis_range(void *handle, struct kv_slice from, size_t limit,
                        struct engine_range *range)
{
    const char **arguments = malloc((limit + 1) * sizeof *arguments);
    size_t *sizes = malloc((limit + 1) * sizeof *sizes);

    if (!arguments || !sizes)
        err(4, "malloc");
    redisAppendCommand(handle, "ZRANGEBYLEX " KEY_SET " [%b + LIMIT 0 %lu", from.data, from.size,
                       (unsigned long)limit);
    redisReply *keys = next_answer(handle);
    arguments[0] = "MGET";
    sizes[0] = strlen("MGET");
    for (size_t i = 0; i < keys->elements; i++) {
        arguments[i + 1] = keys->element[i]->str;
        sizes[i + 1] = keys->element[i]->len;
    }
    if (keys->elements > 0) {
        redisAppendCommandArgv(handle, (int)keys->elements + 1, arguments, sizes);
        redisReply *values = next_answer(handle);
        for (size_t i = 0; i < values->elements; i++)
            engine_range_add(range, kv_slice(keys->element[i]->str, keys->element[i]->len),
                             kv_slice(values->element[i]->str, values->element[i]->len));
        freeReplyObject(values);
    }
    freeReplyObject(keys);
    free(arguments);
    free(sizes);
}

static void redis_close(void *handle)
{
    redisFree(handle);
}

const struct engine range_servers[] = {
    {"mqkv", in_place_open, client_put, NULL, client_close, client_range},
    {"mqkv-queue", by_message_open, client_put, NULL, client_close, client_range},
    {"redis", redis_open, redis_put, NULL, redis_close, redis_range},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};
