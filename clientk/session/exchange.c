#include "clientk/session/exchange.h"

#include <stdlib.h>

#include "common/memory/copy.h"

/* A buffer that had to grow beyond this for one large answer is given back before the next. */
#define KEEP_BYTES        ((size_t)256 << 10)
#define PART_FIELD_BYTES  8u /* total_bytes and offset, before the bytes of a fragment */
#define MAX_MESSAGE_BYTES 65536u

void exchange_free(struct exchange *exchange)
{
    free(exchange->fragments);
    *exchange = (struct exchange){.message = NULL};
}

/* Sends one PART or MORE. */
static enum kv_status send_part(const struct exchange *exchange, struct connection *connection,
                                enum wire_kind kind, const struct wire_part *part,
                                uint64_t deadline_ms)
{
    uint8_t message[MAX_MESSAGE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = kind,
                                 .session = connection->session,
                                 .request_id = exchange->request_id,
                                 .secret = connection->welcome.cookie,
                                 .deadline_ms = exchange->deadline_ms};
    wire_put_header(&cursor, &header);
    if (!wire_put_part(&cursor, part))
        return KV_IO;
    return connection_send(connection, message, write_cursor_used(&cursor), deadline_ms);
}

/* Sends the next fragment of a message that is too big for one. */
static enum kv_status send_request_fragment(struct exchange *exchange,
                                            struct connection *connection, uint64_t deadline_ms)
{
    size_t room = connection_message_bytes(connection);
    if (room > MAX_MESSAGE_BYTES)
        room = MAX_MESSAGE_BYTES;
    room -= WIRE_HEADER_BYTES + PART_FIELD_BYTES;
    size_t left = exchange->message_bytes - exchange->sent_bytes;
    size_t size = left < room ? left : room;
    struct wire_part part = {.total_bytes = (uint32_t)exchange->message_bytes,
                             .offset = (uint32_t)exchange->sent_bytes,
                             .bytes = kv_slice(exchange->message + exchange->sent_bytes, size)};
    enum kv_status status = send_part(exchange, connection, WIRE_PART, &part, deadline_ms);
    if (status == KV_OK)
        exchange->sent_bytes += size;
    return status;
}

enum kv_status exchange_send_fragment(struct exchange *exchange, struct connection *connection,
                                      uint64_t deadline_ms)
{
    enum kv_status status;
    if (exchange->delivered) {
        struct wire_part wanted = {.offset = (uint32_t)exchange->fragments_bytes};
        status = send_part(exchange, connection, WIRE_MORE, &wanted, deadline_ms);
    } else {
        status = send_request_fragment(exchange, connection, deadline_ms);
    }
    if (status != KV_OK)
        return status;
    connection->unanswered++;
    exchange->to_send = false;
    exchange->delivered = exchange->sent_bytes == exchange->message_bytes;
    return KV_OK;
}

/* Makes room for the bytes of one more fragment. The buffer grows with what has arrived, not with
 * what was announced. */
static bool reserve_fragment(struct exchange *exchange, size_t size)
{
    size_t needed = exchange->fragments_bytes + size;
    if (exchange->fragments_bytes == 0 && exchange->fragments_capacity > KEEP_BYTES) {
        free(exchange->fragments);
        exchange->fragments = NULL;
        exchange->fragments_capacity = 0;
    }
    if (needed <= exchange->fragments_capacity)
        return true;
    size_t capacity = needed * 2;
    uint8_t *fragments = realloc(exchange->fragments, capacity);
    if (!fragments)
        return false;
    exchange->fragments = fragments;
    exchange->fragments_capacity = capacity;
    return true;
}

/* Takes in one REPLY_PART. */
static enum kv_status take_fragment(struct exchange *exchange, struct read_cursor body)
{
    struct wire_part part;
    if (wire_get_part(&body, &part) != KV_OK || part.bytes.size == 0 ||
        part.offset != exchange->fragments_bytes)
        return KV_IO;
    if (!reserve_fragment(exchange, part.bytes.size))
        return KV_NO_MEMORY;
    copy_bytes(exchange->fragments + part.offset, part.bytes.data, part.bytes.size);
    exchange->fragments_bytes += part.bytes.size;
    if (exchange->fragments_bytes < part.total_bytes) {
        exchange->to_send = true;
        return KV_OK;
    }
    exchange->body = read_cursor(exchange->fragments, exchange->fragments_bytes);
    exchange->answered = wire_get_header(&exchange->body, &exchange->answer) == KV_OK &&
                         exchange->answer.kind == WIRE_REPLY;
    return exchange->answered ? KV_OK : KV_IO;
}

enum kv_status exchange_take_fragment(struct exchange *exchange, const struct wire_header *header,
                                      struct read_cursor body)
{
    if (header->kind == WIRE_REPLY_PART && exchange->delivered)
        return take_fragment(exchange, body);
    if (header->kind != WIRE_REPLY)
        return KV_IO;
    exchange->to_send = true; /* the last fragment has arrived */
    return KV_OK;
}

/* Waits for a credit; what comes meanwhile and is not for this exchange is dropped. */
static enum kv_status await_credit(struct connection *connection, uint64_t deadline_ms)
{
    enum kv_status status = KV_OK;
    while (status == KV_OK && connection->unanswered >= connection->welcome.credits) {
        struct wire_header header;
        struct read_cursor body;
        status = connection_receive(connection, deadline_ms, &header, &body);
    }
    return status;
}

enum kv_status exchange_continue(struct exchange *exchange, struct connection *connection,
                                 uint64_t deadline_ms)
{
    while (!exchange->answered) {
        enum kv_status status = KV_OK;
        if (exchange->to_send)
            status = await_credit(connection, deadline_ms);
        if (exchange->to_send && status == KV_OK)
            status = exchange_send(exchange, connection, deadline_ms);
        if (status != KV_OK)
            return status;
        struct wire_header header;
        struct read_cursor body;
        status = connection_receive(connection, deadline_ms, &header, &body);
        if (status == KV_OK && header.request_id == exchange->request_id)
            status = exchange_take(exchange, &header, &body);
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}

enum kv_status exchange_control_begin(struct exchange *exchange, struct connection *connection,
                                      enum wire_kind kind, struct kv_slice body,
                                      uint64_t deadline_ms, uint8_t message[EXCHANGE_CONTROL_BYTES])
{
    struct write_cursor cursor = write_cursor(message, EXCHANGE_CONTROL_BYTES);
    struct wire_header header = {.kind = kind,
                                 .session = connection->session,
                                 .request_id = connection->next_request_id++,
                                 .secret = connection->welcome.cookie,
                                 .deadline_ms = deadline_ms};
    wire_put_header(&cursor, &header);
    write_bytes(&cursor, body.data, body.size);
    if (cursor.failed)
        return KV_USAGE;
    exchange_begin(exchange, message, write_cursor_used(&cursor), header.request_id, deadline_ms);
    return KV_OK;
}

enum kv_status exchange_control(struct exchange *exchange, struct connection *connection,
                                enum wire_kind kind, struct kv_slice body, uint64_t deadline_ms)
{
    uint8_t message[EXCHANGE_CONTROL_BYTES];
    enum kv_status status =
        exchange_control_begin(exchange, connection, kind, body, deadline_ms, message);
    return status == KV_OK ? exchange_continue(exchange, connection, deadline_ms) : status;
}
