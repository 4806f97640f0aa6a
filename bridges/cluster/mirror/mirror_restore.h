/*
 * mirror_restore: builds a store from a bucket of a mirror or of an engine nats.
 *
 * Threads: the caller's, and those of the engine.
 */
#ifndef MQKV_MIRROR_MIRROR_RESTORE_H
#define MQKV_MIRROR_MIRROR_RESTORE_H

#include <stdbool.h>

#include "mqkv/error.h"
#include "mqkv/kvstore.h"
#include "bridges/cluster/natskv/natskv_options.h"

struct mirror_restored {
    uint64_t keys;
};

/* Makes the store in the directory, which is not there yet or empty, from all entries of the
 * bucket, with their expiries; versions are given anew. It is built in DIR.restoring, and gets its
 * name when it is complete and on disk. A copy that was not completed is taken only with
 * `unfinished`, else it is KV_MISMATCH. Errors: those of natskv_open and kvstore_open; KV_EXISTS:
 * there is something in the directory, or an earlier try in DIR.restoring; KV_NO_SPACE. */
enum kv_status mirror_restore(const struct natskv_options *nats,
                              const struct kvstore_options *options, const char *dir,
                              bool unfinished, struct mirror_restored *restored,
                              struct kv_error *error);

#endif
