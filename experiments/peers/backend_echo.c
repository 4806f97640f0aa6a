/* The bare echo (echo.h): messages of the sizes that mqkv's would have, nothing done. The address is
 * NAME:VALUE_BYTES: an operation does not say how large the value is that a GET would find. */
#include "experiments/peers/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/cursor.h"
#include "common/parse.h"
#include "common/random.h"
#include "experiments/peers/echo.h"
#include "wire/message.h"
#include "wire/wait.h"

#define REPLY_TIMEOUT_MS 5000

struct connection {
    mqd_t lane, reply;
    struct wire_waiter waiter;
    char base[ECHO_NAME_BYTES];
    uint64_t value_bytes; /* that a GET finds */
    uint32_t slot, client;
    size_t message_bytes;
    uint8_t *message, *answer;
};

/* Takes the first slot that nobody has: creating its queue says so. */
static mqd_t create_reply_queue(const char *base, uint32_t *slot, size_t message_bytes)
{
    struct mq_attr geometry = {.mq_maxmsg = 1, .mq_msgsize = (long)message_bytes};
    char name[ECHO_NAME_BYTES];
    for (*slot = 0; *slot < ECHO_MAX_CLIENTS; ++*slot) {
        echo_reply_name(name, base, *slot);
        mqd_t queue =
            mq_open(name, O_RDONLY | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC, 0600, &geometry);
        if (queue != (mqd_t)-1 || errno != EEXIST)
            return queue;
    }
    errno = ENOSPC;
    return (mqd_t)-1;
}

static mqd_t open_lane(const char *base, unsigned lane)
{
    char name[ECHO_NAME_BYTES];
    echo_lane_name(name, base, lane);
    return mq_open(name, O_WRONLY | O_CLOEXEC);
}

/* Lanes fill up in turn: ten clients each, as many as fit a lane. Past the last: the first again. */
static mqd_t open_lane_of_slot(const char *base, uint32_t slot)
{
    unsigned lanes = 1;
    for (mqd_t probe; lanes < ECHO_MAX_LANES; lanes++, mq_close(probe))
        if ((probe = open_lane(base, lanes)) == (mqd_t)-1)
            break;
    return open_lane(base, slot / ECHO_LANE_DEPTH % lanes);
}

/* False: the address has no number after the colon. */
static bool parse_address(struct connection *connection, const char *address)
{
    const char *colon = strchr(address, ':');
    if (!colon || (size_t)(colon - address) >= sizeof connection->base)
        return false;
    memcpy(connection->base, address, (size_t)(colon - address));
    return parse_u64(colon + 1, 0, UINT32_MAX, &connection->value_bytes);
}

void *backend_connect(const char *address, struct kv_error *error)
{
    struct connection *connection = calloc(1, sizeof *connection);
    struct mq_attr geometry = {0};

    if (!connection)
        return NULL;
    connection->reply = (mqd_t)-1;
    connection->lane = (mqd_t)-1;
    wire_waiter_init(&connection->waiter, (struct wire_spin){.mode = WIRE_SPIN_AUTO});
    connection->client = (uint32_t)random_secret();
    bool good = parse_address(connection, address);
    mqd_t first = good ? open_lane(connection->base, 0) : (mqd_t)-1;
    if (first != (mqd_t)-1 && mq_getattr(first, &geometry) == 0) {
        connection->message_bytes = (size_t)geometry.mq_msgsize;
        connection->message = calloc(2, connection->message_bytes);
        connection->answer = connection->message + connection->message_bytes;
        connection->reply =
            create_reply_queue(connection->base, &connection->slot, connection->message_bytes);
        connection->lane = open_lane_of_slot(connection->base, connection->slot);
        mq_close(first);
    }
    if (connection->message && connection->reply != (mqd_t)-1 && connection->lane != (mqd_t)-1)
        return connection;
    kv_error_set_errno(error, "no echo server at %s (NAME:VALUE_BYTES), or no queue left", address);
    backend_disconnect(connection);
    return NULL;
}

void backend_disconnect(void *handle)
{
    struct connection *connection = handle;
    char name[ECHO_NAME_BYTES];
    if (connection->reply != (mqd_t)-1) {
        echo_reply_name(name, connection->base, connection->slot);
        mq_unlink(name);
        mq_close(connection->reply);
    }
    if (connection->lane != (mqd_t)-1)
        mq_close(connection->lane);
    free(connection->message);
    free(connection);
}

static ssize_t receive(void *context)
{
    struct connection *connection = context;
    ssize_t got =
        mq_receive(connection->reply, (char *)connection->answer, connection->message_bytes, NULL);
    return got < 0 && errno == EAGAIN ? 0 : got;
}

/* What mqkv's messages for these operations would take. */
static void message_sizes(const struct connection *connection,
                          const struct clientk_operation *operations, size_t count,
                          size_t *request_bytes, size_t *reply_bytes)
{
    *request_bytes = *reply_bytes = WIRE_HEADER_BYTES;
    for (size_t i = 0; i < count; i++) {
        bool is_put = operations[i].opcode == CLIENTK_PUT;
        struct wire_operation operation = {.opcode = is_put ? WIRE_OP_PUT : WIRE_OP_GET,
                                           .key = operations[i].key,
                                           .value = operations[i].value};
        struct wire_result result = {.flags = WIRE_RESULT_HAS_VERSION,
                                     .value = kv_slice(NULL, is_put ? 0 : connection->value_bytes)};
        *request_bytes += wire_operation_size(&operation);
        *reply_bytes += wire_result_size(&result);
    }
}

enum kv_status backend_execute(void *handle, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    struct connection *connection = handle;
    size_t request_bytes, reply_bytes;
    ssize_t got;

    message_sizes(connection, operations, count, &request_bytes, &reply_bytes);
    if (request_bytes > connection->message_bytes || reply_bytes > connection->message_bytes)
        return KV_BUFFER_TOO_SMALL;
    store_u32(connection->message, connection->slot);
    store_u32(connection->message + 4, (uint32_t)reply_bytes);
    store_u32(connection->message + 8, connection->client);
    if (mq_send(connection->lane, (char *)connection->message, request_bytes, 0) != 0)
        return KV_IO;
    while ((got = wire_wait(&connection->waiter, receive, connection)) == 0)
        if (poll(&(struct pollfd){.fd = connection->reply, .events = POLLIN}, 1,
                 REPLY_TIMEOUT_MS) == 0)
            return KV_TIMEOUT;
    for (size_t i = 0; i < count; i++)
        results[i].status = got < 0 ? KV_IO : KV_OK;
    return got < 0 ? KV_IO : KV_OK;
}
