/*
 * exchange: one message to the server and its answer, either of them in fragments if it is too
 * large for a queue. An exchange that reached its deadline can be continued by a caller with more
 * time, or dropped: an answer that no exchange waits for is ignored.
 */
#ifndef MQKV_CLIENTK_SESSION_EXCHANGE_H
#define MQKV_CLIENTK_SESSION_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/session/connection.h"
#include "common/memory/cursor.h"
#include "mqkv/status.h"
#include "wire/message.h"

struct exchange {
    const uint8_t *message; /* whole, with its header; borrowed until the exchange is over */
    size_t message_bytes;
    uint64_t request_id;
    uint64_t deadline_ms; /* for the server, in the headers of what is sent */
    size_t sent_bytes;    /* of message */
    bool to_send;         /* a fragment is due before the next wait */
    bool delivered;       /* sent to the last byte: from then on it may be executed */
    bool answered;
    struct wire_header answer; /* once answered: its header, ... */
    struct read_cursor body;   /* ... and what follows it, borrowed until the next receive */
    uint8_t *fragments;        /* of an answer that comes in fragments */
    size_t fragments_bytes, fragments_capacity;
};

/* Begins with a message that was built for this connection, with request_id in its header. */
static inline void exchange_begin(struct exchange *exchange, const uint8_t *message,
                                  size_t message_bytes, uint64_t request_id, uint64_t deadline_ms)
{
    exchange->message = message;
    exchange->message_bytes = message_bytes;
    exchange->request_id = request_id;
    exchange->deadline_ms = deadline_ms;
    exchange->sent_bytes = 0;
    exchange->to_send = true;
    exchange->delivered = false;
    exchange->answered = false;
    exchange->fragments_bytes = 0;
}

/* Sends and receives until it is answered. KV_OK: answered; KV_TIMEOUT: may be continued;
 * KV_NO_SERVER, KV_IO, KV_NO_MEMORY: over, and the connection with it. */
enum kv_status exchange_continue(struct exchange *exchange, struct connection *connection,
                                 uint64_t deadline_ms);

/* Sends the fragment that is due, for which there must be a credit. Returns as
 * exchange_continue. */
enum kv_status exchange_send_fragment(struct exchange *exchange, struct connection *connection,
                                      uint64_t deadline_ms);

/* Sends the whole message if it is small enough, else a fragment. As exchange_send_fragment. */
static inline enum kv_status exchange_send(struct exchange *exchange, struct connection *connection,
                                           uint64_t deadline_ms)
{
    if (exchange->delivered || exchange->message_bytes > connection_message_bytes(connection))
        return exchange_send_fragment(exchange, connection, deadline_ms);
    enum kv_status status =
        connection_send(connection, exchange->message, exchange->message_bytes, deadline_ms);
    if (status != KV_OK)
        return status;
    connection->unanswered++;
    exchange->sent_bytes = exchange->message_bytes;
    exchange->to_send = false;
    exchange->delivered = true;
    return KV_OK;
}

/* Takes a message with its request_id that is a fragment of an answer or acknowledges a fragment.
 * Returns as exchange_continue; the caller looks at `answered` and `to_send`. */
enum kv_status exchange_take_fragment(struct exchange *exchange, const struct wire_header *header,
                                      struct read_cursor body);

/* Takes a message with its request_id. As exchange_take_fragment. */
static inline enum kv_status exchange_take(struct exchange *exchange,
                                           const struct wire_header *header,
                                           const struct read_cursor *body)
{
    if (header->kind != WIRE_REPLY || (!exchange->delivered && header->status == KV_OK))
        return exchange_take_fragment(exchange, header, *body);
    exchange->answer = *header;
    exchange->body = *body;
    exchange->answered = true;
    return KV_OK;
}

/* Frees what belongs to it. */
void exchange_free(struct exchange *exchange);

/* Of a small message: its header, and a body of at most 256 bytes. */
#define EXCHANGE_CONTROL_BYTES (WIRE_HEADER_BYTES + 256u)

/* Begins with a small message of the given kind, which is written to `message`: borrowed as by
 * exchange_begin. KV_OK or KV_USAGE (too long). */
enum kv_status exchange_control_begin(struct exchange *exchange, struct connection *connection,
                                      enum wire_kind kind, struct kv_slice body,
                                      uint64_t deadline_ms,
                                      uint8_t message[EXCHANGE_CONTROL_BYTES]);

/* Sends a small message and waits for the answer, which stays in *exchange until exchange_free. */
enum kv_status exchange_control(struct exchange *exchange, struct connection *connection,
                                enum wire_kind kind, struct kv_slice body, uint64_t deadline_ms);

#endif
