/*
 * log_ends: where the logs of a store that was not closed end before a transaction that is not
 * whole, as at the next open (recovery.h, whole_transactions.h): its last records were never
 * written, or a part of it in another file was not. What is there of it counts no more than a torn
 * tail does.
 *
 * Where it is damage that took what is missing, nothing ends: what is intact of such a transaction
 * may have been acknowledged.
 */
#ifndef MQKV_KVSTORE_KVCHECK_LOG_ENDS_H
#define MQKV_KVSTORE_KVCHECK_LOG_ENDS_H

#include <stdint.h>

#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/source.h"
#include "mqkv/error.h"

/* Reads the data files, unless all of them were closed, and gives *ends a number for each file: of
 * the byte before which its log ends, UINT64_MAX if it ends for no transaction. The caller frees
 * it. KV_NO_MEMORY, and what source_open fails with. */
enum kv_status log_ends_find(int dir_fd, const struct layout *layout, uint64_t **ends,
                             struct kv_error *error);

#endif
