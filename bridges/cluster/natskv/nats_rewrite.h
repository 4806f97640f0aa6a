/*
 * nats_rewrite: executes the writes that wait for one key, in their order, on the entry as it was
 * read. The result is one message to be written, and an outcome for each operation that holds if
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
    struct kv_slice value; /* lies in the entry, in an operation, or in `own` */
    unsigned changes; /* number of operations that changed the entry; 0: nothing must be written */
    uint8_t *own;     /* malloc'ed, or NULL */
    size_t own_bytes;
};

/* Executes the operations, a list. entry NULL: it is not known and not needed: either all
 * operations are puts without a condition, or the only one is a put if absent, which the server
 * checks. The result borrows slices of entry and operations. */
void nats_rewrite_run(struct nats_rewrite *rewrite, const struct nats_entry *entry,
                      struct engine_operation *operations, uint32_t max_value_bytes);

/* Gives the operations that changed the entry their versions, after it was written with that
 * sequence. */
void nats_rewrite_tell_versions(const struct nats_rewrite *rewrite,
                                struct engine_operation *operations, uint64_t sequence);

/* Ends the operations of an entry that was not written, or perhaps not (KV_OUTCOME_UNKNOWN). The
 * first operation that changed the entry, and all behind, which saw that change, get that status
 * and no other outcome. With KV_OUTCOME_UNKNOWN, however, those behind that changed nothing get
 * KV_NO_SERVER, since they surely did nothing. Operations before the first change keep their
 * outcomes. */
void nats_rewrite_fail(struct engine_operation *operations, enum kv_status status,
                       const char *sentence);

void nats_rewrite_free(struct nats_rewrite *rewrite);

#endif
