/*
 * mirror_refill: copies a whole store: puts what it has, then deletes from the bucket what it does
 * not have. Changes made meanwhile are for who follows from positions taken before.
 *
 * Threads: the mirror's.
 */
#ifndef MQKV_MIRROR_MIRROR_REFILL_H
#define MQKV_MIRROR_MIRROR_REFILL_H

#include "bridges/cluster/mirror/copy_page.h"

/* KV_BUSY: the mirror is to end. KV_NO_MEMORY; other errors: the bucket cannot be read now. What
 * cannot be read in the store is logged, and left out. */
enum kv_status mirror_refill(struct kvstore *store, struct store_engine *engine,
                             struct copy_page *page, const atomic_bool *stop);

#endif
