/*
 * submitted_transaction: a TRANSACT that an engine elsewhere executes: from the wire to the engine,
 * and its outcome into the reply.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMITTED_TRANSACTION_H
#define MQKV_SERVERK_EXECUTE_SUBMITTED_TRANSACTION_H

#include "engine/store_engine.h"
#include "serverk/execute/reply.h"

struct submitted_transaction;

/* Memory for a value of that size, malloc'ed. NULL: *status says why. */
typedef uint8_t *(*value_reserver)(void *context, size_t size, enum kv_status *status);

/* Frees memory of the reserver, which was for a value of that size. */
typedef void (*value_releaser)(void *context, uint8_t *bytes, size_t size);

/* Reads the value of a TRANSACT, which is borrowed, and fills in what the engine needs. KV_OK, or
 * why there is nothing for the engine to do; *transaction is to be dropped in any case. */
enum kv_status submitted_transaction_begin(struct submitted_transaction **transaction,
                                           struct engine_operation *engine, struct kv_slice value,
                                           uint64_t max_value_bytes, struct reply *reply,
                                           value_reserver reserve, value_releaser release,
                                           void *context);

/* Adds the outcome to the reply as the value of the result, whose status is filled in. False: it is
 * not in the reply. transaction NULL: there is none. */
bool submitted_transaction_add(struct submitted_transaction *transaction,
                               struct wire_result *result);

/* NULL is harmless. */
void submitted_transaction_drop(struct submitted_transaction *transaction);

#endif
