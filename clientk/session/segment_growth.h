/*
 * segment_growth: creates a value segment (base/large_values.h), or a larger one, and offers it to
 * the server.
 */
#ifndef MQKV_CLIENTK_SESSION_SEGMENT_GROWTH_H
#define MQKV_CLIENTK_SESSION_SEGMENT_GROWTH_H

#include <stdint.h>

#include "clientk/session/connection.h"
#include "mqkv/status.h"

/* Makes connection->values hold at least so many bytes. No message that uses it may be in flight.
 * KV_OK, also if no segment can be had (then it is unavailable); KV_TIMEOUT, KV_NO_SERVER, ...: the
 * server did not answer the offer, and the connection is suspect. */
enum kv_status value_segment_grow(struct connection *connection, uint64_t bytes,
                                  uint64_t deadline_ms);

#endif
