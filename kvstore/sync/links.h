/*
 * links: what is durable of several files together or not at all. A transaction of several files
 * links its parts; after a power failure recovery drops the parts of one that is not whole, and all
 * that stands behind them (whole_transactions.h). So what stands behind a part in one file is
 * durable when all parts of the link are on disk, and all links before it in these files are closed
 * too. A link is open until then.
 *
 * The numbers of transactions ascend in the order in which links are opened. When all up to one are
 * closed, that number is *settled* (shared_store.h), and noted in the headers of files with what
 * else is noted of syncs. A transaction that was refused half-way, and taken back, is not settled
 * before a sync of each of its files has put zeros in the place of its parts: the disk may have
 * some of them, which recovery drops only as long as it asks for the others.
 *
 * Threads: any. The calls for transactions take sync.mutex; the others hold it.
 */
#ifndef MQKV_KVSTORE_SYNC_LINKS_H
#define MQKV_KVSTORE_SYNC_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/kvstore.h"

struct link;
struct sync;

#define LINKS_NO_FILE UINT32_MAX
#define LINKS_NO_END  UINT64_MAX

/* Makes a link with room for `count` parts, for link_open. NULL: no memory. */
struct link *link_create(uint32_t count);

/* Adds a part in `file`, whose records will begin at `position`. */
void link_add_part(struct link *link, uint32_t file, uint64_t position);

/* Opens the link, which belongs to `sync` from now on, and returns the number of its transaction.
 * Holds: the locks of the files, for writing. */
uint64_t link_open(struct sync *sync, struct link *link);

/* Tells where the part in `file` ends. Holds: as link_open. */
void link_end_part(struct link *link, uint32_t file, uint64_t position);

/* Takes the link out and frees it: the transaction was taken back, as far as the disk allowed. The
 * caller has its files synced. Holds: as link_open. */
void link_drop(struct sync *sync, struct link *link);

/* After the last link_end_part, still under the locks. True: so many links are open that the caller
 * should wait for a sync when it has released the locks. */
bool link_is_written(struct sync *sync, struct link *link);

/* Links all files that were taken over from a process that had not synced all it wrote, and may
 * have had open links. False: no memory. No other thread knows the files yet. */
bool links_take_over(struct sync *sync);

/* Notes that `file` is on disk up to its synced_position: closes links, not too many at once. True:
 * there may be more to close; call it again. Other files may then be durable further than their
 * waiters know: links_take_to_tell. Holds: mutex. */
bool links_note_synced(struct sync *sync, uint32_t file);

/* Takes a file of which more is durable than was told; LINKS_NO_FILE: there is none. Takes
 * mutex. */
uint32_t links_take_to_tell(struct sync *sync);

/* Has all files synced without which `position` of `file` is not durable. Holds: mutex. */
void links_want(struct sync *sync, uint32_t file, uint64_t position);

/* Sets *ticket to the end of a part of the first link that is open, if its number is not above
 * `transaction`: the link is closed when that is durable. Position LINKS_NO_END: it is being
 * written. False: there is no such link. Takes mutex. */
bool links_first_open(struct sync *sync, uint64_t transaction, struct kvstore_ticket *ticket);

/* Notes that the sync of `file` that has just succeeded was one of the file itself, which had zeros
 * for what it had of refused transactions up to `transaction`. Holds: the slot. Takes mutex. */
void links_note_erased(struct sync *sync, uint32_t file, uint64_t transaction);

/* A file that needs such a sync, and a number up to which no refused transaction is in it without
 * one; that number itself may be. */
struct refused_part {
    uint32_t file;
    uint64_t transaction;
};

/* Finds one without whose sync `transaction` is not settled. False: there is none. Takes mutex. */
bool links_first_refused(struct sync *sync, uint64_t transaction, struct refused_part *part);

/* Notes that the syncs of `file` have failed for good: those of files that are linked with what was
 * not on disk are to fail, too. Holds: mutex. */
void links_note_failed(struct sync *sync, uint32_t file);

/* Frees the links that are open. No thread syncs any more. */
void links_free(struct sync *sync);

#endif
