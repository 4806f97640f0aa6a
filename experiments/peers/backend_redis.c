/* Redis through hiredis, its own C client. */
#include "common/report/error.h"
#include "experiments/peers/backend.h"

#include <hiredis/hiredis.h>

void *backend_connect(const char *address, struct kv_error *error)
{
    redisContext *context = redisConnectUnix(address);
    if (context && !context->err)
        return context;
    kv_error_set(error, KV_NO_SERVER, "%s: %s", address, context ? context->errstr : "no memory");
    redisFree(context);
    return NULL;
}

void backend_disconnect(void *connection)
{
    redisFree(connection);
}

static int append(redisContext *context, const struct clientk_operation *operation)
{
    static const char *const names[] = {[CLIENTK_GET] = "GET",
                                        [CLIENTK_EXISTS] = "EXISTS",
                                        [CLIENTK_PUT] = "SET",
                                        [CLIENTK_DELETE] = "DEL"};
    static const size_t name_bytes[] = {
        [CLIENTK_GET] = 3, [CLIENTK_EXISTS] = 6, [CLIENTK_PUT] = 3, [CLIENTK_DELETE] = 3};
    if (operation->opcode > CLIENTK_DELETE)
        return REDIS_ERR;
    const char *words[] = {names[operation->opcode], operation->key.data, operation->value.data};
    size_t sizes[] = {name_bytes[operation->opcode], operation->key.size, operation->value.size};
    return redisAppendCommandArgv(context, operation->opcode == CLIENTK_PUT ? 3 : 2, words, sizes);
}

static enum kv_status take(const redisReply *reply, struct clientk_result *result)
{
    switch (reply->type) {
    case REDIS_REPLY_STRING:
        result->status = backend_set_value(&result->value, reply->str, reply->len);
        return KV_OK;
    case REDIS_REPLY_NIL:
        result->status = KV_NOT_FOUND;
        return KV_OK;
    case REDIS_REPLY_STATUS:
        result->status = KV_OK;
        return KV_OK;
    case REDIS_REPLY_INTEGER:
        result->status = reply->integer > 0 ? KV_OK : KV_NOT_FOUND;
        return KV_OK;
    default:
        result->status = KV_IO;
        return KV_IO;
    }
}

enum kv_status backend_execute(void *connection, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < count; i++)
        if (append(connection, &operations[i]) != REDIS_OK)
            return KV_UNSUPPORTED;
    for (size_t i = 0; i < count; i++) {
        void *reply = NULL;
        if (redisGetReply(connection, &reply) != REDIS_OK)
            return KV_IO;
        if (take(reply, &results[i]) != KV_OK)
            status = KV_IO;
        freeReplyObject(reply);
    }
    return status;
}
