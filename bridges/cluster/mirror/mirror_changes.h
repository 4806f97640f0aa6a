/*
 * mirror_changes: reads the changes of a data file, page by page, on their way to a copy.
 *
 * Threads: one for each page.
 */
#ifndef MQKV_MIRROR_MIRROR_CHANGES_H
#define MQKV_MIRROR_MIRROR_CHANGES_H

#include "bridges/cluster/mirror/copy_page.h"
#include "bridges/cluster/mirror/mirror_state.h"

/* Finds the place behind all that was written so far. Errors: those of kvstore_changes_now. */
enum kv_status mirror_changes_now(struct kvstore *store, uint32_t file, struct mirror_place *place);

/* Adds the changes behind `place` to the page, and moves `place` behind them; the store's listener
 * is called for the next change. *more: there are more changes, or may be. Errors: those of
 * kvstore_changes; then `place` is before what cannot be read. *spoiled is set if the file lost
 * bytes meanwhile, so that a value in the page may be zeros. */
enum kv_status mirror_changes_read(struct kvstore *store, uint32_t file, struct copy_page *page,
                                   struct mirror_place *place, bool *more, bool *spoiled);

#endif
