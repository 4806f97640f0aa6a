/*
 * order_filler: the thread that fills the orderings of an ordered store from its indexes, data file
 * by data file, while others read and write. When all are whole it sleeps without wake-ups, until
 * somebody finds one that had to be emptied.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_ORDER_FILLER_H
#define MQKV_KVSTORE_MAINTENANCE_ORDER_FILLER_H

#include "kvstore/core/context.h"
#include "mqkv/error.h"

struct order_filler;

/* Gives each data file an ordering and starts the thread. KV_NO_MEMORY, KV_LIMIT with a sentence.
 * The context outlives it. */
enum kv_status order_filler_create(const struct store_context *context,
                                   struct order_filler **filler, struct kv_error *error);

/* Ends the thread. NULL is harmless. */
void order_filler_free(struct order_filler *filler);

/* In a forked child, which has no such thread: others are not told any more. */
void order_filler_in_child(struct order_filler *filler);

/* Has the thread look for orderings that are not whole. Holds no lock of a file. */
void order_filler_wake(struct order_filler *filler);

#endif
