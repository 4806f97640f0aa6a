/*
 * landing: what becomes of the operations of a flight when it is over: each is completed with its
 * result, or parked to be sent again, or completed with the status that stopped its message.
 */
#ifndef MQKV_CLIENTK_LANDING_H
#define MQKV_CLIENTK_LANDING_H

#include <stdbool.h>

#include "clientk/flight.h"
#include "clientk/traffic.h"

/* The reply to it is in its exchange, and has as many results as it has operations. repeated: what is
 * refused for want of room now was sent again already. */
void landing_answered(struct traffic *traffic, struct flight *flight, bool repeated);

/* The connection is lost. What surely was not executed, or may be repeated, is parked. */
void landing_lost(struct traffic *traffic, const struct flight *flight);

/* All its operations get the status; if that says that they were not executed, those that may have
 * been when they were sent before get KV_OUTCOME_UNKNOWN. */
void landing_stopped(struct traffic *traffic, const struct flight *flight, enum kv_status status);

/* The same for everything that is parked. */
void landing_parked_stopped(struct traffic *traffic, enum kv_status status);

#endif
