/*
 * disk_fit: how many bytes of live records the file system of a store has room for, with the dead
 * records that there are between two compactions, and what a compaction needs.
 */
#ifndef MQKV_KVSTORE_TABLE_DISK_FIT_H
#define MQKV_KVSTORE_TABLE_DISK_FIT_H

#include <stdint.h>

#include "kvstore/core/context.h"
#include "kvstore/table/bound.h"

/* Of a store with so many data files in the directory, or for one. UINT64_MAX: that cannot be
 * told. Any thread. */
uint64_t disk_fit_bytes(int dir_fd, uint32_t datafiles);

/* With eviction: brings the bound's max_bytes and reserve up to date with what fits and what there
 * is. Any thread; takes the locks of the files, one after the other. */
void disk_fit_bound(struct bound *bound, const struct store_context *context);

#endif
