/*
 * quotas: gives a store the quotas of its options, and other quotas while it is open. The entries
 * of a data file are counted under the file's lock, so that each write is charged once.
 */
#ifndef MQKV_KVSTORE_API_QUOTAS_H
#define MQKV_KVSTORE_API_QUOTAS_H

#include "kvstore/api/store.h"

/* Gives the store the quotas of its options, at the open. Fails with a sentence in `error`. */
enum kv_status quotas_begin(struct kvstore *store, struct kv_error *error);

#endif
