/*
 * nats_rewrite: writes that wait for one key, executed in their order on the entry as it was read.
 * What comes of it is one message to be written, and an outcome for each operation that holds if
 * that write succeeds.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_NATSKV_NATS_REWRITE_H
#define MQKV_NATSKV_NATS_REWRITE_H

#include "engine/store_engine.h"
#include "bridges/cluster/natskv/nats_entry.h"

struct nats_rewrite {
    bool present; /* there is a value after the operations */
    uint64_t expiry_ms;
    struct kv_slice value; /* of the entry, of an operation, or in `own` */
    unsigned changes;      /* operations that changed it; 0: there is nothing to write */
    uint8_t *own;          /* malloc'ed */
    size_t own_bytes;
};

/* Executes the operations, a list. entry NULL: it is not known and not needed: all of them are
 * puts without a condition, or the one is a put if absent, for the server to look at. Keeps
 * slices of entry and operations. */
void nats_rewrite_run(struct nats_rewrite *rewrite, const struct nats_entry *entry,
                      struct engine_operation *operations, uint32_t max_value_bytes);

/* Gives those that changed the entry their versions: it was written with that sequence. */
void nats_rewrite_tell_versions(const struct nats_rewrite *rewrite,
                                struct engine_operation *operations, uint64_t sequence);

/* The entry was not written, or perhaps not (KV_OUTCOME_UNKNOWN). The first operation that changed
 * it, and all behind, which saw that change, get that status and no other outcome; but for
 * KV_OUTCOME_UNKNOWN, those behind that changed nothing get KV_NO_SERVER: they surely did nothing.
 * Those before the first change keep their outcomes. */
void nats_rewrite_fail(struct engine_operation *operations, enum kv_status status,
                       const char *sentence);

void nats_rewrite_free(struct nats_rewrite *rewrite);

#endif
