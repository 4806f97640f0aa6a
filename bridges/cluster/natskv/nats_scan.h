/*
 * nats_scan: SCAN: shard by shard in the order of sequences, from the leader (nats_walk.h), or, if
 * there is one replica only or any may be read, in batches. All entries of a shard are read,
 * whatever the prefix: the server can look for parts of a subject between dots only, and a key is
 * one. A cursor is the shard in the upper 12 bits and the next sequence below. An entry that is
 * written while a scan is under way moves to the end of its shard: it is seen, perhaps twice, or,
 * if any replica may be read, as it was. A page ends when it is full, or after a second, or half of
 * the time to its deadline, even if it has no entry by then: the cursor says how far it has got.
 */
#ifndef MQKV_NATSKV_NATS_SCAN_H
#define MQKV_NATSKV_NATS_SCAN_H

#include "bridges/cluster/natskv/nats_engine.h"

/* Begins the operation, an ENGINE_SCAN, and calls its `done` later. */
void nats_scan_begin(struct nats_engine *engine, struct engine_operation *operation);

#endif
