/*
 * mirror_mark: what a bucket says of the copy in it, in the metadata of each of its streams: to
 * which copying of everything it belongs, and whether that was completed. So a mirror recognises a
 * bucket that was made anew, or that is the copy of another time; and somebody who has lost the
 * store knows whether the bucket has all of it.
 *
 * Threads: one; each call waits for the cluster.
 */
#ifndef MQKV_MIRROR_MIRROR_MARK_H
#define MQKV_MIRROR_MIRROR_MARK_H

#include "engine/store_engine.h"
#include "bridges/cluster/mirror/mirror_state.h"

/* Marks the bucket: the state's copy is begun, or complete. Errors: those of natskv_mark_copy. */
enum kv_status mirror_mark_set(struct store_engine *engine, const struct mirror_state *state,
                               bool complete, struct kv_error *error);

/* *holds: the bucket has the whole copy that the state describes. Errors: those of natskv_copy. */
enum kv_status mirror_mark_look(struct store_engine *engine, const struct mirror_state *state,
                                bool *holds, struct kv_error *error);

/* Checks that the bucket's copy was completed; if not, KV_MISMATCH. Errors: those of
 * natskv_copy. */
enum kv_status mirror_mark_check_complete(struct store_engine *engine, struct kv_error *error);

#endif
