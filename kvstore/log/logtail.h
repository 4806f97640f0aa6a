/*
 * logtail: the end of a log file where it grows: appending, and the room ahead of the tail, disk
 * blocks and pages.
 *
 * With a mapping small records are written into it, whose pages are brought in ahead of the tail,
 * and large ones with calls. Many small ones can be bundled for one call.
 *
 * Threads: none of its own; the caller holds the data file's lock for writing, or is alone with the
 * file.
 */
#ifndef MQKV_KVSTORE_LOG_LOGTAIL_H
#define MQKV_KVSTORE_LOG_LOGTAIL_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/log/logfile.h"

/* Writes of data leave this much of the disk free: a compaction needs room for what a file holds
 * before it gives back the rest, and on a full disk begins with the files that are nearly dead. */
#define LOGTAIL_SPARE_BYTES (2 * LOGFILE_UNIT_BYTES)

/* Makes sure that `bytes` after the tail are allocated: KV_OK or KV_NO_SPACE, KV_IO, ... */
enum kv_status logtail_ensure_room(struct logfile *log, uint64_t bytes);

/* The same, but KV_NO_SPACE also if the disk had less than LOGTAIL_SPARE_BYTES free afterwards. */
enum kv_status logtail_ensure_room_for_data(struct logfile *log, uint64_t bytes);

/* Appends at the tail; the caller has ensured the room. KV_IO, KV_NO_SPACE, KV_NO_MEMORY (never of
 * a record below 16 KiB with a mapping): the tail is where it was, and so, as far as the disk takes
 * it, are the zeros behind it. */
enum kv_status logtail_append(struct logfile *log, const struct record *record,
                              struct kv_slice value_tail);

/* From here to logtail_close_bundle appends, of whole values, lie in the thread's memory until they
 * are enough for a call: none of them may be read meanwhile. Without memory for that nothing
 * changes. KV_IO, KV_NO_SPACE, of the closing or an append: the tail is back where the bundle, or
 * its part that could not be written, began, and the log is of no use any more to who noted other
 * offsets. */
void logtail_open_bundle(struct logfile *log);
enum kv_status logtail_close_bundle(struct logfile *log);

/* What is appended from here on will be synced a few records at a time. What the kernel reads ahead
 * of a fault comes in folios of many pages, and a store to one page makes all of its folio dirty,
 * so that each sync would write it whole: now it reads nothing ahead after the tail, and small
 * records are not stored to large folios. (Where syncs are rare, those are less work.) */
void logtail_expect_syncs(struct logfile *log);

/* Gives up everything from `tail` on, for good: what is allocated there again reads as zeros. */
enum kv_status logtail_cut(struct logfile *log, uint64_t tail);

/* After an open whose log is sound: makes sure that what the file has after its tail are disk
 * blocks and not holes (a copied file may have some), or else is not used. */
void logtail_claim_room(struct logfile *log);

#endif
