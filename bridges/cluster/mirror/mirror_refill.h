/*
 * mirror_refill: copies a whole store: puts what it has, then deletes from the bucket what it does
 * not have. The caller follows the changes that are made meanwhile, from positions that it took
 * before.
 *
 * Threads: the mirror's.
 */
#ifndef MQKV_MIRROR_MIRROR_REFILL_H
#define MQKV_MIRROR_MIRROR_REFILL_H

#include "bridges/cluster/mirror/copy_page.h"

/* Copies the store. KV_BUSY: the mirror must end. KV_NO_MEMORY; other errors: the bucket cannot be
 * read now. What cannot be read in the store is logged and left out. */
enum kv_status mirror_refill(struct kvstore *store, struct store_engine *engine,
                             struct copy_page *page, const atomic_bool *stop);

#endif
