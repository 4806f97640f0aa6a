/*
 * nats_scan: SCAN: shard by shard in the order of sequences, in batches that any replica may
 * answer. A cursor is the shard in the upper 12 bits and the next sequence below. An entry that is
 * written while a scan is under way moves to the end of its shard: it may be seen twice, or, if the
 * replica is behind, as it was. A page ends when it is full, or after a second, or half of the time
 * to its deadline, even if it has no entry by then: the cursor says how far it has got.
 */
#ifndef MQKV_NATSKV_NATS_SCAN_H
#define MQKV_NATSKV_NATS_SCAN_H

#include "natskv/nats_engine.h"

/* The operation is ENGINE_SCAN; its done will be called. */
void nats_scan_begin(struct nats_engine *engine, struct engine_operation *operation);

#endif
