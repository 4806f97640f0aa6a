/*
 * disk_fit: how many bytes of live records the file system of a store has room for, with the dead
 * records that there are between two compactions, and what a compaction needs.
 */
#ifndef MQKV_KVSTORE_TABLE_DISK_FIT_H
#define MQKV_KVSTORE_TABLE_DISK_FIT_H

#include <stdint.h>

#include "kvstore/core/context.h"
#include "kvstore/table/bound.h"

/* The bytes that fit, for a store of `datafiles` files, which is in the directory of `dir_fd` or is
 * to be made there. UINT64_MAX: not known. Any thread. */
uint64_t disk_fit_bytes(int dir_fd, uint32_t datafiles);

/* With eviction: brings the bound's max_bytes and reserve up to date with the disk and the files.
 * Any thread; takes the locks of the files, one after the other. */
void disk_fit_bound(struct bound *bound, const struct store_context *context);

#endif
