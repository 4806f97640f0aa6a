/*
 * order_check: whether the order of a data file's keys that a daemon keeps in shared memory
 * (kvstore/shared/shared_order.h) has each key of the index once, in its place, and nothing else.
 * It looks while others write, without a lock; what is wrong counts if it stays so.
 */
#ifndef MQKV_KVSTORE_KVCHECK_ORDER_CHECK_H
#define MQKV_KVSTORE_KVCHECK_ORDER_CHECK_H

#include <stdint.h>

#include "kvstore/kvcheck/findings.h"
#include "kvstore/kvcheck/running_store.h"
#include "kvstore/kvcheck/source.h"

enum order_state {
    ORDER_NONE,        /* the daemon keeps none, or its memory cannot be read */
    ORDER_UNFINISHED,  /* it is being built */
    ORDER_CHECKED,     /* *keys is how many keys it has */
    ORDER_REPLACED,    /* a compaction has replaced the file: nothing counts */
    ORDER_LACKS_MEMORY /* of this process */
};

/* Checks the order of the source's file, whose header is sound. */
enum order_state order_check(struct running_store *live, const struct source *source,
                             struct findings *findings, uint64_t *keys);

#endif
