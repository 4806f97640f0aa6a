/*
 * direct_range: pages of ranges, keys in the order of their bytes, without messages
 * (kvstore/shared/shared_order.h has how an order is read).
 *
 * A page has each key that is there during the whole call, once and in order, and no key that
 * never was. It is no one moment of the store, but sees all of a transaction, or nothing.
 *
 * Of each data file the leaf is copied in which the range goes on, and its keys are found by their
 * hashes, some at once. If a log was replaced meanwhile, or a transaction done, the page ends where
 * it was last sure that none was; one that has no more than 8 KiB there begins anew. After a few
 * attempts, and where something makes no sense or there is no order to read, the page has to go by
 * message; beside many transactions that is tried less and less often.
 *
 * Threads: any, with a reader of its own each.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_RANGE_H
#define MQKV_CLIENTK_DIRECT_DIRECT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/direct/direct.h"
#include "mqkv/clientk.h"

struct direct_range {
    struct kv_slice from;   /* the first key; empty: from the first one that there is */
    struct kv_slice to;     /* behind the last key, itself not meant; empty: to the end */
    struct kv_slice prefix; /* of the keys */
    bool behind_from;       /* `from` itself is not meant */
    bool reverse;           /* the last one first */
    bool keys_only;
    uint32_t limit; /* entries of the page, at most 4,096; 0: 1,000 */
};

/* Fills result->value with the entries at the beginning of *range, as clientk_read_page reads them;
 * result->number: 1 if the range goes on behind the last one, else 0. True: KV_OK or KV_NO_MEMORY,
 * in result->status; false: the page has to go by message. */
bool direct_range_page(struct direct *direct, struct direct_reader *reader,
                       const struct direct_range *range, struct clientk_result *result);

#endif
