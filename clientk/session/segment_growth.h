/*
 * segment_growth: creates a value segment (base/large_values.h), or a larger one, and offers it to
 * the server.
 */
#ifndef MQKV_CLIENTK_SESSION_SEGMENT_GROWTH_H
#define MQKV_CLIENTK_SESSION_SEGMENT_GROWTH_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "clientk/session/exchange.h"
#include "mqkv/status.h"
#include "wire/queue.h"

/* Makes connection->values hold at least so many bytes. No message that uses it may be in flight.
 * KV_OK, also if no segment can be had (then it is unavailable); KV_TIMEOUT, KV_NO_SERVER, ...: the
 * server did not answer the offer, and the connection is suspect. */
enum kv_status value_segment_grow(struct connection *connection, uint64_t bytes,
                                  uint64_t deadline_ms);

/* An offer under way; start from {0}. */
struct segment_offer {
    struct wire_segment *segment; /* NULL: nothing is offered */
    uint64_t bytes;
    uint64_t deadline_ms;
    char name[WIRE_QUEUE_NAME_BYTES];
    struct exchange exchange;
    uint8_t message[EXCHANGE_CONTROL_BYTES]; /* of the exchange: the offer must not be moved */
};

/* The same in steps. False: there is nothing to wait for (it is large enough, or none can be
 * had). */
bool segment_offer_begin(struct connection *connection, uint64_t bytes, uint64_t deadline_ms,
                         struct segment_offer *offer);

/* Waits until wait_ms for the answer. KV_OK: it was answered; KV_TIMEOUT with offer->segment:
 * to be continued; else the offer is over, and the connection suspect. */
enum kv_status segment_offer_continue(struct connection *connection, struct segment_offer *offer,
                                      uint64_t wait_ms);

/* Ends an offer that is under way; harmless if none is. */
void segment_offer_drop(struct segment_offer *offer);

#endif
