/*
 * submitted_transaction: a TRANSACT that an engine elsewhere executes, as part of a
 * submitted_operation.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMITTED_TRANSACTION_H
#define MQKV_SERVERK_EXECUTE_SUBMITTED_TRANSACTION_H

#include "serverk/execute/submitted_operation.h"

struct submitted_transaction;

/* Reads the operation's value, and fills in what the engine needs. KV_OK, or why there is nothing
 * for it to do. */
enum kv_status submitted_transaction_begin(struct submitted_operation *submitted);

/* Adds the outcome to the reply as the value of the result, whose status is filled in. False: it is
 * not in the reply. */
bool submitted_transaction_add(struct submitted_operation *submitted, struct wire_result *result);

/* Frees what the transaction has. NULL is harmless. */
void submitted_transaction_drop(struct submitted_operation *submitted);

#endif
