/*
 * quotas: gives an open store the quotas of its options, and others while it is open. What the
 * entries of a data file have is counted under the file's lock, so that each write is charged once.
 */
#ifndef MQKV_KVSTORE_API_QUOTAS_H
#define MQKV_KVSTORE_API_QUOTAS_H

#include "kvstore/api/store.h"

/* Those of the options, at the start. */
enum kv_status quotas_begin(struct kvstore *store, struct kv_error *error);

#endif
