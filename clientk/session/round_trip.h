/*
 * round_trip: one message to the server and its answer. Either may come in fragments, if it is too
 * large for a queue. A round trip that reached its deadline can be continued by a caller with more
 * time, or dropped: an answer that no round trip waits for is ignored.
 *
 * Threads: as the connection.
 */
#ifndef MQKV_CLIENTK_SESSION_ROUND_TRIP_H
#define MQKV_CLIENTK_SESSION_ROUND_TRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/session/connection.h"
#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "mqkv/status.h"
#include "wire/message.h"

/* Start from {0}. */
struct round_trip {
    const uint8_t *message; /* whole, with its header; borrowed until the round trip is over */
    size_t message_bytes;
    uint64_t request_id;
    uint64_t deadline_ms; /* for the server: in the headers of what is sent */
    size_t sent_bytes;    /* of the message */
    bool to_send;         /* a fragment is due before the next wait */
    bool delivered;       /* sent to the last byte: from then on the server may execute it */
    bool answered;
    struct wire_header answer; /* once answered: the header of the answer ... */
    struct read_cursor body;   /* ... and its body, borrowed until the next connection_receive */
    uint8_t *fragments;        /* of an answer that comes in fragments */
    size_t fragments_bytes, fragments_capacity;
};

/* Begins a round trip with `message`, of message_bytes bytes, which was built for this connection
 * and has request_id in its header. Nothing is sent yet. */
static inline void round_trip_begin(struct round_trip *round_trip, const uint8_t *message,
                                    size_t message_bytes, uint64_t request_id, uint64_t deadline_ms)
{
    round_trip->message = message;
    round_trip->message_bytes = message_bytes;
    round_trip->request_id = request_id;
    round_trip->deadline_ms = deadline_ms;
    round_trip->sent_bytes = 0;
    round_trip->to_send = true;
    round_trip->delivered = false;
    round_trip->answered = false;
    round_trip->fragments_bytes = 0;
}

/* Sends and receives until the round trip is answered, or until deadline_ms. KV_OK: answered;
 * KV_TIMEOUT: to be continued or dropped; KV_NO_SERVER, KV_IO, KV_NO_MEMORY: the round trip is
 * over, and the connection is of no further use. */
enum kv_status round_trip_continue(struct round_trip *round_trip, struct connection *connection,
                                   uint64_t deadline_ms);

/* Sends the fragment that is due, for which there must be a credit. Returns as connection_send
 * does, or KV_IO: the fragment cannot be built. */
enum kv_status round_trip_send_fragment(struct round_trip *round_trip,
                                        struct connection *connection, uint64_t deadline_ms);

/* Sends what is due, for which there must be a credit: the whole message if it is small enough,
 * else a fragment. Returns as round_trip_send_fragment does. */
static inline enum kv_status round_trip_send(struct round_trip *round_trip,
                                             struct connection *connection, uint64_t deadline_ms)
{
    KV_ASSERT(round_trip->to_send && !round_trip->answered);
    KV_ASSERT(connection->unanswered < connection->welcome.credits);
    if (round_trip->delivered || round_trip->message_bytes > connection_message_bytes(connection))
        return round_trip_send_fragment(round_trip, connection, deadline_ms);
    enum kv_status status =
        connection_send(connection, round_trip->message, round_trip->message_bytes, deadline_ms);
    if (status != KV_OK)
        return status;
    connection->unanswered++;
    round_trip->sent_bytes = round_trip->message_bytes;
    round_trip->to_send = false;
    round_trip->delivered = true;
    return KV_OK;
}

/* Takes in a message of the server that has the request_id of the round trip, and is a fragment of
 * the answer, or acknowledges a fragment. The caller looks at `answered` and `to_send` then. KV_OK;
 * KV_IO: the message makes no sense; KV_NO_MEMORY. */
enum kv_status round_trip_take_fragment(struct round_trip *round_trip,
                                        const struct wire_header *header, struct read_cursor body);

/* Takes in a message of the server that has the request_id of the round trip: the answer, or as
 * round_trip_take_fragment. */
static inline enum kv_status round_trip_take(struct round_trip *round_trip,
                                             const struct wire_header *header,
                                             const struct read_cursor *body)
{
    KV_ASSERT(header->request_id == round_trip->request_id && !round_trip->answered);
    if (header->kind != WIRE_REPLY || (!round_trip->delivered && header->status == KV_OK))
        return round_trip_take_fragment(round_trip, header, *body);
    round_trip->answer = *header;
    round_trip->body = *body;
    round_trip->answered = true;
    return KV_OK;
}

/* Frees what the round trip has allocated, and clears it. */
void round_trip_free(struct round_trip *round_trip);

/* The largest control message: a header, and a body of 256 bytes. */
#define ROUND_TRIP_CONTROL_BYTES (WIRE_HEADER_BYTES + 256u)

/* Begins a round trip with a small message of that kind and body, which is written to `message`; as
 * in round_trip_begin, `message` is borrowed. KV_OK; KV_USAGE: the body is too long. */
enum kv_status round_trip_control_begin(struct round_trip *round_trip,
                                        struct connection *connection, enum wire_kind kind,
                                        struct kv_slice body, uint64_t deadline_ms,
                                        uint8_t message[ROUND_TRIP_CONTROL_BYTES]);

#endif
