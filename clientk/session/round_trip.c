#include "clientk/session/round_trip.h"

#include <stdlib.h>

#include "common/memory/copy.h"

/* A buffer that had to grow beyond this for one large answer is given back before the next one. */
#define KEEP_BYTES        ((size_t)256 << 10)
#define PART_FIELD_BYTES  8u /* total_bytes and offset, before the bytes of a fragment */
#define MAX_MESSAGE_BYTES 65536u

void round_trip_free(struct round_trip *round_trip)
{
    free(round_trip->fragments);
    *round_trip = (struct round_trip){.message = NULL};
}

/* Sends one PART or MORE. */
static enum kv_status send_part(const struct round_trip *round_trip, struct connection *connection,
                                enum wire_kind kind, const struct wire_part *part,
                                uint64_t deadline_ms)
{
    uint8_t message[MAX_MESSAGE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = kind,
                                 .session = connection->session,
                                 .request_id = round_trip->request_id,
                                 .secret = connection->welcome.cookie,
                                 .deadline_ms = round_trip->deadline_ms};
    wire_put_header(&cursor, &header);
    if (!wire_put_part(&cursor, part))
        return KV_IO;
    return connection_send(connection, message, write_cursor_used(&cursor), deadline_ms);
}

enum kv_status round_trip_send_fragment(struct round_trip *round_trip,
                                        struct connection *connection, uint64_t deadline_ms)
{
    size_t left = round_trip->message_bytes - round_trip->sent_bytes;
    size_t room = connection_message_bytes(connection);
    room = (room < MAX_MESSAGE_BYTES ? room : MAX_MESSAGE_BYTES) -
           (WIRE_HEADER_BYTES + PART_FIELD_BYTES);
    size_t size = left < room ? left : room;
    KV_ASSERT(round_trip->sent_bytes <= round_trip->message_bytes);
    KV_ASSERT(round_trip->delivered == (left == 0));
    struct wire_part more = {.offset = (uint32_t)round_trip->fragments_bytes};
    struct wire_part part = {.total_bytes = (uint32_t)round_trip->message_bytes,
                             .offset = (uint32_t)round_trip->sent_bytes,
                             .bytes = kv_slice(round_trip->message + round_trip->sent_bytes, size)};
    enum kv_status status = round_trip->delivered
                                ? send_part(round_trip, connection, WIRE_MORE, &more, deadline_ms)
                                : send_part(round_trip, connection, WIRE_PART, &part, deadline_ms);
    if (status != KV_OK)
        return status;
    connection->unanswered++;
    round_trip->to_send = false;
    round_trip->sent_bytes += size;
    round_trip->delivered = round_trip->sent_bytes == round_trip->message_bytes;
    return KV_OK;
}

/* Makes room for `size` bytes of one more fragment. The buffer grows with what has arrived, not
 * with what the server announced. False: no memory. */
static bool reserve_fragment(struct round_trip *round_trip, size_t size)
{
    size_t needed = round_trip->fragments_bytes + size;
    if (round_trip->fragments_bytes == 0 && round_trip->fragments_capacity > KEEP_BYTES) {
        free(round_trip->fragments);
        round_trip->fragments = NULL;
        round_trip->fragments_capacity = 0;
    }
    if (needed <= round_trip->fragments_capacity)
        return true;
    size_t capacity = needed * 2;
    uint8_t *fragments = realloc(round_trip->fragments, capacity);
    if (!fragments)
        return false;
    round_trip->fragments = fragments;
    round_trip->fragments_capacity = capacity;
    return true;
}

enum kv_status round_trip_take_fragment(struct round_trip *round_trip,
                                        const struct wire_header *header, struct read_cursor body)
{
    struct wire_part part;
    if (header->kind == WIRE_REPLY) {
        round_trip->to_send = true; /* the last fragment has arrived */
        return KV_OK;
    }
    if (header->kind != WIRE_REPLY_PART || !round_trip->delivered ||
        wire_get_part(&body, &part) != KV_OK || part.bytes.size == 0 ||
        part.offset != round_trip->fragments_bytes)
        return KV_IO;
    if (!reserve_fragment(round_trip, part.bytes.size))
        return KV_NO_MEMORY;
    copy_bytes(round_trip->fragments + part.offset, part.bytes.data, part.bytes.size);
    round_trip->fragments_bytes += part.bytes.size;
    if (round_trip->fragments_bytes < part.total_bytes) {
        round_trip->to_send = true;
        return KV_OK;
    }
    round_trip->body = read_cursor(round_trip->fragments, round_trip->fragments_bytes);
    round_trip->answered = wire_get_header(&round_trip->body, &round_trip->answer) == KV_OK &&
                           round_trip->answer.kind == WIRE_REPLY;
    return round_trip->answered ? KV_OK : KV_IO;
}

enum kv_status round_trip_continue(struct round_trip *round_trip, struct connection *connection,
                                   uint64_t deadline_ms)
{
    struct wire_header header;
    struct read_cursor body;
    while (!round_trip->answered) {
        enum kv_status status = KV_OK;
        /* What comes while there is no credit is not for this round trip. */
        while (round_trip->to_send && status == KV_OK &&
               connection->unanswered >= connection->welcome.credits)
            status = connection_receive(connection, deadline_ms, &header, &body);
        if (round_trip->to_send && status == KV_OK)
            status = round_trip_send(round_trip, connection, deadline_ms);
        if (status == KV_OK)
            status = connection_receive(connection, deadline_ms, &header, &body);
        if (status == KV_OK && header.request_id == round_trip->request_id)
            status = round_trip_take(round_trip, &header, &body);
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}

enum kv_status round_trip_control_begin(struct round_trip *round_trip,
                                        struct connection *connection, enum wire_kind kind,
                                        struct kv_slice body, uint64_t deadline_ms,
                                        uint8_t message[ROUND_TRIP_CONTROL_BYTES])
{
    struct write_cursor cursor = write_cursor(message, ROUND_TRIP_CONTROL_BYTES);
    struct wire_header header = {.kind = kind,
                                 .session = connection->session,
                                 .request_id = connection->next_request_id++,
                                 .secret = connection->welcome.cookie,
                                 .deadline_ms = deadline_ms};
    wire_put_header(&cursor, &header);
    write_bytes(&cursor, body.data, body.size);
    if (cursor.failed)
        return KV_USAGE;
    round_trip_begin(round_trip, message, write_cursor_used(&cursor), header.request_id,
                     deadline_ms);
    return KV_OK;
}
