/*
 * mirror_changes: pages of the changes of a data file, on their way to a copy.
 *
 * Threads: one for each page.
 */
#ifndef MQKV_MIRROR_MIRROR_CHANGES_H
#define MQKV_MIRROR_MIRROR_CHANGES_H

#include "bridges/cluster/mirror/copy_page.h"
#include "bridges/cluster/mirror/mirror_state.h"

/* The place behind all that was written so far. Errors: those of kvstore_changes_now. */
enum kv_status mirror_changes_now(struct kvstore *store, uint32_t file, struct mirror_place *place);

/* Adds to the page what was changed behind the place, and moves it on; the store's listener is told
 * of the next change. *more: there is more, or may be. Errors: those of kvstore_changes; the place
 * is before what cannot be read. *spoiled is set: the file lost bytes meanwhile, and the page may
 * have zeros for a value. */
enum kv_status mirror_changes_read(struct kvstore *store, uint32_t file, struct copy_page *page,
                                   struct mirror_place *place, bool *more, bool *spoiled);

#endif
