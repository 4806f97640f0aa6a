/*
 * writes: the operations that change the store, and SYNC. After a write, the context's commit waits
 * tell what must be on disk before the reply is sent.
 */
#ifndef MQKV_SERVERK_EXECUTE_WRITES_H
#define MQKV_SERVERK_EXECUTE_WRITES_H

#include "mqkv/kvstore.h"

struct execution;
struct wire_operation;

/* What a PUT or EXCHANGE, and an ADD, ask of an engine. */
struct kvstore_put_options operation_put_options(const struct wire_operation *operation);
struct kvstore_add_options operation_add_options(const struct wire_operation *operation);

void execute_put(struct execution *execution);
void execute_delete(struct execution *execution);
void execute_add(struct execution *execution);
void execute_append(struct execution *execution);
void execute_exchange(struct execution *execution);
void execute_touch(struct execution *execution);
void execute_sync(struct execution *execution);

#endif
