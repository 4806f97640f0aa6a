#include "bridges/cluster/natskv/nats_ask.h"

#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_entry.h"

#define NO_MORE_MESSAGES 404u

enum kv_status nats_ask(struct nats_link *link, const char *subject, const char *json,
                        unsigned wait_ms, char **text, size_t *size)
{
    natsMsg *answer = NULL;
    natsStatus status = natsConnection_RequestString(&answer, nats_link_retain(link), subject, json,
                                                     (int64_t)wait_ms);
    nats_link_release(link);
    if (status != NATS_OK)
        return status == NATS_NO_MEMORY ? KV_NO_MEMORY : KV_NO_SERVER;
    *size = (size_t)natsMsg_GetDataLength(answer);
    *text = malloc(*size + 1);
    if (*text) {
        memcpy(*text, natsMsg_GetData(answer), *size);
        (*text)[*size] = '\0';
    }
    natsMsg_Destroy(answer);
    return *text ? KV_OK : KV_NO_MEMORY;
}

/* Takes the answers of a subscription. */
static natsStatus take_answers(natsSubscription *answers, unsigned wait_ms, unsigned count,
                               void (*visit)(void *context, natsMsg *message), void *context,
                               unsigned *visited)
{
    for (unsigned i = 0; i < count; i++) {
        natsMsg *message = NULL;
        natsStatus status = natsSubscription_NextMsg(&message, answers, (int64_t)wait_ms);
        if (status != NATS_OK)
            return status;
        unsigned number = nats_entry_status(message);
        if (number == 0) {
            visit(context, message);
            ++*visited;
        }
        natsMsg_Destroy(message);
        if (number != 0)
            return number == NO_MORE_MESSAGES ? NATS_OK : NATS_ERR;
    }
    return NATS_OK;
}

enum kv_status nats_ask_many(struct nats_link *link, const char *subject, const char *json,
                             unsigned wait_ms, unsigned count,
                             void (*visit)(void *context, natsMsg *message), void *context,
                             unsigned *visited)
{
    natsInbox *inbox = NULL;
    natsSubscription *answers = NULL;
    *visited = 0;
    natsConnection *connection = nats_link_retain(link);
    natsStatus status = natsInbox_Create(&inbox);
    if (status == NATS_OK)
        status = natsConnection_SubscribeSync(&answers, connection, inbox);
    if (status == NATS_OK)
        status = natsConnection_PublishRequestString(connection, subject, inbox, json);
    if (status == NATS_OK)
        status = take_answers(answers, wait_ms, count, visit, context, visited);
    natsSubscription_Destroy(answers);
    natsInbox_Destroy(inbox);
    nats_link_release(link);
    if (status == NATS_OK)
        return KV_OK;
    return status == NATS_NO_MEMORY ? KV_NO_MEMORY : KV_NO_SERVER;
}
