/*
 * mirror: a second copy of a store, in a bucket of a NATS cluster, which follows the store's
 * changes. The store stays what it is, and as fast as it is; the copy is behind it by some
 * milliseconds, or by as long as the cluster is away.
 *
 * A bucket is the copy of one store, whose name it has (mirror_state.h); serverk with the engine
 * nats can read it. Its entries have the values and expiries of the store, not the versions. Each
 * change reaches the bucket at least once, those of a key in their order; after a crash the copying
 * continues where it was or, if changes were missed, everything is copied again.
 *
 * Threads: any; the mirror has one of its own, and there are those of the engine.
 */
#ifndef MQKV_MIRROR_MIRROR_H
#define MQKV_MIRROR_MIRROR_H

#include "engine/store_engine.h"
#include "bridges/cluster/mirror/mirror_options.h"

struct mirror;

/* Begins to copy the store, which outlives the mirror. Waits two seconds for the cluster; if it is
 * away, the mirror goes on trying as long as it lives. Errors: those of natskv_open but
 * KV_NO_SERVER; KV_MISMATCH: the bucket is no copy of this store; KV_CORRUPT: the file `mirror`
 * makes no sense; KV_USAGE: the store takes larger values than the cluster; KV_LIMIT. */
enum kv_status mirror_start(const struct mirror_options *options, struct kvstore *store,
                            struct mirror **mirror, struct kv_error *error);

/* Ends the mirror; the next one copies what is missing then. NULL is harmless. */
void mirror_stop(struct mirror *mirror);

/* Frees the mirror, after mirror_stop, when the store calls the listener no more. NULL is
 * harmless. */
void mirror_free(struct mirror *mirror);

/* The kvstore_change_listener of the mirror. */
void mirror_note_change(void *mirror, uint32_t file);

/* Returns how many milliseconds a write must wait; MIRROR_REFUSES: it must fail. 0 until the first
 * copy is complete. Called for every write: two loads while nothing is behind. */
#define MIRROR_REFUSES UINT32_MAX
uint32_t mirror_hold_up(void *mirror);

void mirror_numbers(const struct mirror *mirror, engine_number_visit visit, void *context);

#endif
