/*
 * nats_plan: what a transaction comes to on the entries of its keys as they were read: whether its
 * guards hold, what the list that is to be done writes, and the results of its steps, which hold if
 * all of that is written and nothing has changed since it was read.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_NATSKV_NATS_PLAN_H
#define MQKV_NATSKV_NATS_PLAN_H

#include "bridges/cluster/natskv/nats_entry.h"
#include "bridges/cluster/natskv/nats_rewrite.h"
#include "engine/store_engine.h"

/* A key that the transaction names. */
struct planned_key {
    struct kv_slice key;
    bool is_read;            /* what is done depends on its entry */
    struct nats_entry entry; /* of one that is: filled in before nats_plan_judge */

    /* What the plan has for it: */
    bool matters;    /* it is read, and not only for the list that is not done */
    bool is_written; /* with what `rewrite` has */
    struct nats_rewrite rewrite;
    struct kvstore_step_result *result; /* of the step that writes it */
};

struct nats_plan {
    const struct kvstore_transaction *asked;
    struct kvstore_step_result *results;
    struct kvstore_transacted *told;
    uint32_t max_value_bytes;
    bool after_reading; /* of the operation: every write counts as a read of its key */
    uint32_t key_count, writes;
    struct planned_key keys[KVSTORE_MAX_TRANSACTION_STEPS];
    uint8_t key_of[KVSTORE_MAX_TRANSACTION_STEPS]; /* of guards, of `then`, of `otherwise` */
};

/* Begins a plan: checks the transaction, as kvstore_transact does, and finds its keys, whose slices
 * are borrowed, as are the other arguments; plan->after_reading is set. KV_OK, or what
 * kvstore_transact refuses it with. */
enum kv_status nats_plan_begin(struct nats_plan *plan, const struct kvstore_transaction *asked,
                               struct kvstore_step_result *results, struct kvstore_transacted *told,
                               uint32_t max_value_bytes);

/* Tells in *told which guard or step names the key first. */
void nats_plan_blame_key(struct nats_plan *plan, uint32_t key);

/* Judges the entries that were read; may be called again when they were read again. Values that
 * were found are copied to their places. KV_OK: the keys that are to be written, if any are, have
 * is_written. Else nothing is to be done, and told->at tells why, as of kvstore_transact;
 * KV_BUFFER_TOO_SMALL: as engine_operation says. */
enum kv_status nats_plan_judge(struct nats_plan *plan);

void nats_plan_free(struct nats_plan *plan);

#endif
