/*
 * segment_growth: creates a value segment (base/large_values.h), or a larger one, and offers it to
 * the server.
 *
 * Threads: as the connection.
 */
#ifndef MQKV_CLIENTK_SESSION_SEGMENT_GROWTH_H
#define MQKV_CLIENTK_SESSION_SEGMENT_GROWTH_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "clientk/session/round_trip.h"
#include "mqkv/status.h"
#include "wire/queue.h"

/* Gives connection->values a segment of at least `bytes` bytes, by deadline_ms. No message that
 * uses the segment may be in flight. KV_OK; if no segment can be had, connection->values is
 * unavailable then. KV_TIMEOUT, KV_NO_SERVER, ...: the server did not answer the offer, and the
 * connection is suspect. */
enum kv_status value_segment_grow(struct connection *connection, uint64_t bytes,
                                  uint64_t deadline_ms);

/* An offer under way. Start from {0}. It must not be moved while it is under way. */
struct segment_offer {
    struct wire_segment *segment; /* NULL: nothing is offered */
    uint64_t bytes;
    uint64_t deadline_ms;
    char name[WIRE_QUEUE_NAME_BYTES];
    struct round_trip round_trip;
    uint8_t message[ROUND_TRIP_CONTROL_BYTES]; /* of the round trip */
};

/* Begins what value_segment_grow does, without waiting. True: *offer is under way. False: there is
 * nothing to wait for; the segment is large enough, or none can be had. */
bool segment_offer_begin(struct connection *connection, uint64_t bytes, uint64_t deadline_ms,
                         struct segment_offer *offer);

/* Waits until wait_ms for the answer. KV_OK: the server has answered; KV_TIMEOUT with
 * offer->segment: to be continued. Otherwise the offer is over, and the connection suspect. */
enum kv_status segment_offer_continue(struct connection *connection, struct segment_offer *offer,
                                      uint64_t wait_ms);

/* Ends an offer that is under way. Harmless if it is not. */
void segment_offer_drop(struct segment_offer *offer);

#endif
