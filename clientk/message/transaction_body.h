/*
 * transaction_body: a transaction of clientk.h becomes the value of a TRANSACT, and the value of
 * its result becomes what the caller gets.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_MESSAGE_TRANSACTION_BODY_H
#define MQKV_CLIENTK_MESSAGE_TRANSACTION_BODY_H

#include "mqkv/clientk.h"
#include "wire/transact_value.h"

/* Writes *transaction to new memory, *bytes, which is to be freed, of *size bytes. KV_OK; KV_USAGE,
 * KV_UNSUPPORTED, KV_BAD_KEY, KV_VALUE_TOO_BIG, KV_NO_MEMORY: *transacted tells where, and the
 * thread's last error why. */
enum kv_status transaction_body_write(const struct clientk_transaction *transaction,
                                      struct clientk_transacted *transacted, uint8_t **bytes,
                                      size_t *size);

/* Reads what a server has answered with `status`, and fills in results and *transacted. Returns
 * `status`, as the thread's last error explains, or KV_IO: the answer makes no sense; or
 * KV_NO_MEMORY. */
enum kv_status transaction_body_read(const struct clientk_transaction *transaction,
                                     enum kv_status status, struct kv_slice answer,
                                     struct clientk_result *results,
                                     struct clientk_transacted *transacted);

#endif
