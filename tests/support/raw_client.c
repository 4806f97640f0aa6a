#include "tests/support/raw_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/numbers/random.h"

#define SEND_TIMEOUT_MS 1000u
#define CALL_TIMEOUT_MS 5000u

static enum kv_status open_queue(const struct raw_client *client, enum wire_queue_role role,
                                 unsigned number, mqd_t *queue, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, client->server, role, 0, number);
    return wire_queue_open(name, true, queue, NULL, error);
}

enum kv_status raw_prepare(struct raw_client *client, const char *server,
                           struct wire_geometry reply_geometry, struct kv_error *error)
{
    static unsigned number;
    *client = (struct raw_client){.server = server,
                                  .reply_queue = (mqd_t)-1,
                                  .lane = (mqd_t)-1,
                                  .bulk_lane = (mqd_t)-1,
                                  .nonce = random_secret()};
    wire_queue_name(client->reply_name, server, WIRE_REPLY_QUEUE, getpid(),
                    __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
    enum kv_status status = open_queue(client, WIRE_LANE, 0, &client->lane, error);
    if (status != KV_OK)
        return status;
    struct stat lane;
    bool foreign = fstat((int)client->lane, &lane) != 0 || lane.st_uid != geteuid();
    status = wire_queue_create(client->reply_name, reply_geometry, foreign ? 0622 : 0600, true,
                               &client->reply_queue, error);
    if (status != KV_OK)
        return status;
    if (wire_lock_queue(client->reply_queue, NULL) != 0)
        return kv_error_set_errno(error, "cannot lock %s", client->reply_name);
    return KV_OK;
}

bool raw_send_hello(struct raw_client *client)
{
    struct mq_attr attributes;
    mq_getattr(client->reply_queue, &attributes);
    struct wire_header header = raw_header(client, WIRE_HELLO, 0);
    header.secret = 0;
    struct wire_hello hello = {.nonce = client->nonce,
                               .pid = (uint32_t)getpid(),
                               .reply_depth = (uint16_t)attributes.mq_maxmsg,
                               .threads = 1,
                               .reply_bytes = (uint32_t)attributes.mq_msgsize,
                               .reply_queue = kv_slice_from_string(client->reply_name)};
    uint8_t message[512];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, &header);
    wire_put_hello(&cursor, &hello);
    return raw_send(client, message, write_cursor_used(&cursor));
}

/* Takes the WELCOME in client->message. */
static enum kv_status take_welcome(struct raw_client *client, const struct wire_header *header,
                                   size_t size, struct kv_error *error)
{
    struct read_cursor cursor = read_cursor(client->message, size);
    read_bytes(&cursor, WIRE_HEADER_BYTES);
    if (header->kind != WIRE_WELCOME)
        return kv_error_set(error, header->status, "refused: %.*s", (int)read_cursor_left(&cursor),
                            (const char *)cursor.at);
    client->session = header->session;
    enum kv_status status = wire_get_welcome(&cursor, &client->welcome);
    mq_close(client->lane);
    client->lane = (mqd_t)-1;
    if (status == KV_OK)
        status = open_queue(client, WIRE_LANE, client->welcome.lane, &client->lane, error);
    if (status == KV_OK && client->welcome.bulk_bytes > client->welcome.lane_bytes)
        status = open_queue(client, WIRE_BULK_LANE, client->welcome.bulk_lane, &client->bulk_lane,
                            error);
    return status;
}

enum kv_status raw_connect(struct raw_client *client, const char *server,
                           struct wire_geometry reply_geometry, bool unlink_reply,
                           struct kv_error *error)
{
    enum kv_status status = raw_prepare(client, server, reply_geometry, error);
    if (status != KV_OK)
        return status;
    if (!raw_send_hello(client))
        return kv_error_set_errno(error, "cannot send HELLO");
    struct wire_header header;
    size_t size = raw_receive(client, &header, CALL_TIMEOUT_MS);
    if (size == 0)
        return kv_error_set(error, KV_TIMEOUT, "no answer to HELLO");
    if (unlink_reply)
        mq_unlink(client->reply_name);
    return take_welcome(client, &header, size, error);
}

void raw_close(struct raw_client *client)
{
    mqd_t queues[] = {client->reply_queue, client->lane, client->bulk_lane};
    for (unsigned i = 0; i < sizeof queues / sizeof queues[0]; i++)
        if (queues[i] != (mqd_t)-1)
            mq_close(queues[i]);
    mq_unlink(client->reply_name);
}

struct wire_header raw_header(struct raw_client *client, enum wire_kind kind, uint16_t count)
{
    return (struct wire_header){.kind = kind,
                                .session = client->session,
                                .count = count,
                                .request_id = ++client->last_request_id,
                                .secret = client->welcome.cookie};
}

bool raw_send(struct raw_client *client, const void *message, size_t size)
{
    bool bulk = client->bulk_lane != (mqd_t)-1 && size > client->welcome.lane_bytes;
    return wire_send(bulk ? client->bulk_lane : client->lane, message, size, 0, SEND_TIMEOUT_MS) ==
           0;
}

uint64_t raw_request(struct raw_client *client, const struct wire_operation *operations,
                     uint16_t count)
{
    uint8_t message[RAW_MESSAGE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = raw_header(client, WIRE_REQUEST, count);
    wire_put_header(&cursor, &header);
    for (uint16_t i = 0; i < count; i++)
        if (!wire_put_operation(&cursor, &operations[i]))
            return 0;
    return raw_send(client, message, write_cursor_used(&cursor)) ? header.request_id : 0;
}

size_t raw_receive(struct raw_client *client, struct wire_header *header, unsigned timeout_ms)
{
    uint64_t deadline_ns = clock_monotonic_ns() + timeout_ms * 1000000ull;
    for (;;) {
        ssize_t size =
            mq_receive(client->reply_queue, (char *)client->message, sizeof client->message, NULL);
        if (size > 0) {
            struct read_cursor cursor = read_cursor(client->message, (size_t)size);
            *header = (struct wire_header){0};
            wire_get_header(&cursor, header);
            return (size_t)size;
        }
        uint64_t now_ns = clock_monotonic_ns();
        if (errno != EAGAIN || now_ns >= deadline_ns)
            return 0;
        struct pollfd ready = {.fd = (int)client->reply_queue, .events = POLLIN};
        poll(&ready, 1, (int)((deadline_ns - now_ns) / 1000000 + 1));
    }
}

enum kv_status raw_call(struct raw_client *client, const struct wire_operation *operation,
                        struct wire_result *result)
{
    uint64_t request_id = raw_request(client, operation, 1);
    struct wire_header header;
    size_t size;
    do {
        size = request_id ? raw_receive(client, &header, CALL_TIMEOUT_MS) : 0;
        if (size == 0)
            return KV_TIMEOUT;
    } while (header.request_id != request_id);
    if (header.status != KV_OK)
        return header.status;
    struct read_cursor cursor = read_cursor(client->message, size);
    read_bytes(&cursor, WIRE_HEADER_BYTES);
    enum kv_status status = wire_get_result(&cursor, result);
    return status == KV_OK ? result->status : status;
}
