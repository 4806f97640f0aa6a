/*
 * mirror: a second copy of a store, in a bucket of a NATS cluster, which follows the store's
 * changes: the store stays what it is, as fast as it is, and the copy is behind it by some
 * milliseconds, or by however long the cluster is away.
 *
 * A bucket is the copy of one store, which it has the name of (mirror_state.h); serverk with the
 * engine nats can read it. Its entries have the values and expiries of the store's, not the
 * versions. Each change goes there at least once, those of a key in their order; after a crash the
 * copy goes on where it was, or, if changes were missed, everything is copied again.
 *
 * Threads: any; one of its own, and those of the engine.
 */
#ifndef MQKV_MIRROR_MIRROR_H
#define MQKV_MIRROR_MIRROR_H

#include "engine/store_engine.h"
#include "bridges/cluster/mirror/mirror_options.h"

struct mirror;

/* Begins to copy the store, which outlives the mirror. Waits two seconds for the cluster; if it is
 * away, it is tried again for as long as the mirror lives. Errors: those of natskv_open but
 * KV_NO_SERVER; KV_MISMATCH: the bucket is no copy of this store; KV_CORRUPT: the file `mirror`
 * makes no sense; KV_USAGE: the store takes larger values than the cluster; KV_LIMIT. */
enum kv_status mirror_start(const struct mirror_options *options, struct kvstore *store,
                            struct mirror **mirror, struct kv_error *error);

/* Ends it: what the copy lacks then, it gets from the next one. NULL is harmless. */
void mirror_stop(struct mirror *mirror);

/* After mirror_stop, when the store calls the listener no more. NULL is harmless. */
void mirror_free(struct mirror *mirror);

/* A kvstore_change_listener, of the mirror. */
void mirror_note_change(void *mirror, uint32_t file);

/* How long a write is to wait, in milliseconds; MIRROR_REFUSES: it is to fail. Until the first copy
 * is complete it is 0. For every write: two loads as long as nothing is behind. */
#define MIRROR_REFUSES UINT32_MAX
uint32_t mirror_hold_up(void *mirror);

void mirror_numbers(const struct mirror *mirror, engine_number_visit visit, void *context);

#endif
