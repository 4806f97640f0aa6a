/*
 * transact_body: what a TRANSACT carries, for the engine, and what the engine says of it, for the
 * reply: wherever the engine is.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_SERVERK_EXECUTE_TRANSACT_BODY_H
#define MQKV_SERVERK_EXECUTE_TRANSACT_BODY_H

#include "common/memory/cursor.h"
#include "mqkv/kvstore.h"
#include "wire/transact_value.h"

struct transact_body {
    struct wire_transaction counts;
    bool writes; /* one of the lists does */
    struct kvstore_guard guards[WIRE_MAX_TRANSACTION_STEPS];
    struct kvstore_step steps[WIRE_MAX_TRANSACTION_STEPS]; /* `then`, behind it `otherwise` */
    struct kvstore_step_result results[WIRE_MAX_TRANSACTION_STEPS];

    /* Values that were read, of the steps of the list that is done. */
    uint8_t *found[WIRE_MAX_TRANSACTION_STEPS];
    size_t found_bytes[WIRE_MAX_TRANSACTION_STEPS];

    /* What is told beside the results. */
    struct wire_outcome outcome;
};

/* Begins an empty one. */
void transact_body_begin(struct transact_body *body);

/* Reads the value of a TRANSACT, of which the body borrows. KV_OK, or what is wrong; the outcome
 * tells where. */
enum kv_status transact_body_decode(struct transact_body *body, struct kv_slice value,
                                    uint64_t max_value_bytes);

static inline unsigned transact_body_steps(const struct transact_body *body)
{
    return (unsigned)body->counts.then + body->counts.otherwise;
}

static inline bool transact_step_writes(const struct kvstore_step *step)
{
    return step->kind != KVSTORE_STEP_GET && step->kind != KVSTORE_STEP_EXISTS;
}

/* The transaction for the engine; its `place` and `context` are the caller's. */
struct kvstore_transaction transact_body_transaction(const struct transact_body *body);

/* Have the outcome tell that this guard, or this step of either list, is to blame. Return
 * status. */
enum kv_status transact_body_blame_guard(struct transact_body *body, unsigned at,
                                         enum kv_status status);
enum kv_status transact_body_blame_step(struct transact_body *body, unsigned index,
                                        enum kv_status status);

/* Takes what the engine has told; status is that of the transaction. */
void transact_body_take(struct transact_body *body, enum kv_status status,
                        const struct kvstore_transacted *transacted);

/* Returns the steps of the list that the outcome is about. */
const struct kvstore_step *transact_body_list(const struct transact_body *body);

/* Returns how many bytes the outcome takes at most with the results of the first `count` steps of
 * the list, and the values that they have found. */
size_t transact_body_bytes(const struct transact_body *body, unsigned count);

/* Returns true if values of the list that is done had no place. *bytes: what the outcome needs. */
bool transact_body_lacks_room(const struct transact_body *body, uint64_t *bytes);

/* Writes the outcome of a transaction that was done, and the results of its steps; or, if status is
 * not KV_OK, that of one that was not, and the result of the step that is to blame. */
void transact_body_put(struct transact_body *body, enum kv_status status,
                       struct write_cursor *cursor);

#endif
