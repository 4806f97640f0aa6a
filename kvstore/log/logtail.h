/*
 * logtail: the end of a log file, where the log grows: appending, and the room ahead of the tail,
 * which is disk blocks and pages.
 *
 * With a mapping, small records are stored into the mapping, whose pages are brought in ahead of
 * the tail. Large records are written with calls. Many small records can be bundled for one call.
 *
 * Threads: none of its own; the caller holds the data file's lock for writing, or is alone with the
 * file.
 */
#ifndef MQKV_KVSTORE_LOG_LOGTAIL_H
#define MQKV_KVSTORE_LOG_LOGTAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/log/logfile.h"

/* The least that writes of data leave free of the disk. A compaction needs room for the live
 * records of a file before it gives back the rest; on a full disk it begins with files that are
 * mostly dead. */
#define LOGTAIL_SPARE_BYTES (2 * LOGFILE_UNIT_BYTES)

/* What writes of data keep allocated after the tail, beyond what deletions need: on a disk that
 * others have filled, giving it back makes room for the copy of a file in which nothing lives. */
#define LOGTAIL_GIVEN_BYTES (FILE_HEADER_BYTES + 2 * (uint64_t)PAGE_BYTES)

/* Gives back to the disk what is allocated after the tail, but for keep_bytes. False: nothing. */
bool logtail_give_room(struct logfile *log, uint64_t keep_bytes);

/* For the copy of a compaction writes leave no more than this part of the disk, nor more than these
 * bytes: what a file has alive after deletions is to fit, not all of it. */
#define LOGTAIL_LEAVE_SHARE 16u
#define LOGTAIL_LEAVE_BYTES (UINT64_C(1) << 30)

/* Returns how many bytes that is at most, on the disk of the log. */
uint64_t logtail_most_to_leave(const struct logfile *log);

/* Ensures that `bytes` after the tail are allocated: KV_OK, KV_NO_SPACE, KV_IO, ... */
enum kv_status logtail_ensure_room(struct logfile *log, uint64_t bytes);

/* Like logtail_ensure_room, but returns KV_NO_SPACE also if less than leave_bytes of the disk would
 * stay free. */
enum kv_status logtail_ensure_room_for_data(struct logfile *log, uint64_t bytes,
                                            uint64_t leave_bytes);

/* Returns by how much the log grows at most when `bytes` of room are needed that are not there. */
uint64_t logtail_growth_bytes(const struct logfile *log, uint64_t bytes);

/* Appends `record`, whose value continues in `value_tail`, at the tail; the caller has ensured the
 * room. KV_IO, KV_NO_SPACE, KV_NO_MEMORY (none of them for a record below 16 KiB with a mapping
 * that is not broken): the tail has not moved, and bytes that were written behind it are zeroed
 * again; what the disk refuses to zero stays as with logtail_take_back. */
enum kv_status logtail_append(struct logfile *log, const struct record *record,
                              struct kv_slice value_tail);

/* Takes back what was appended from `tail` on, which nobody was told of: zeros it and moves the
 * tail. What the disk refuses to zero stays, from there on without a gap, until the next append,
 * which zeros it or fails. No bundle is open. */
void logtail_take_back(struct logfile *log, uint64_t tail);

/* Zeros what is left so. KV_IO, KV_NO_SPACE: it stays. Of the data file's lock that for reading is
 * enough if the caller holds the slot of its syncs, too. */
enum kv_status logtail_erase_remains(struct logfile *log);

/* Appends `size` bytes as they are, which were a record and are damaged. The caller has ensured the
 * room, and no bundle is open. Fails as logtail_append does. */
enum kv_status logtail_append_damaged(struct logfile *log, const uint8_t *bytes, uint64_t size);

/* Between these two calls, appends (without a value_tail) stay in the thread's memory until there
 * are enough for one write; none of the records may be read meanwhile. Without memory for a bundle,
 * appends are written as ever. If logtail_close_bundle or an append fails with KV_IO or
 * KV_NO_SPACE, the tail is back where the bundle, or its unwritten part, began: offsets behind it
 * are void. */
void logtail_open_bundle(struct logfile *log);
enum kv_status logtail_close_bundle(struct logfile *log);

/* Prepares the log for a sync every few records, from here on. The kernel reads ahead of a fault in
 * folios of many pages, and a store to one page makes its whole folio dirty, all of which each sync
 * would write. So the kernel is told to read nothing ahead after the tail, and small records are
 * not stored to large folios. (Where syncs are rare, large folios are less work.) */
void logtail_expect_syncs(struct logfile *log);

/* Takes a place at the end of the log: appends an extent, with a version of its own, for
 * content_bytes, which come later. On failure nothing has changed: KV_IO ... */
enum kv_status logtail_append_extent(struct logfile *log, uint64_t version, uint64_t content_bytes);

/* Writes `content`, a put whose value continues in `value_tail`, to its place at `offset` in a
 * extent that was appended, without its version. Needs no lock: nobody else writes there, and
 * nobody reads there yet. KV_IO, KV_NO_MEMORY. */
enum kv_status logtail_fill_extent(const struct logfile *log, uint64_t offset,
                                   const struct record *content, struct kv_slice value_tail);

/* The same for an extent that had another content before, whose pages are there: where the log is
 * mapped, one copy into the mapping, instead of one to a buffer and one by the kernel. Not for a
 * log that is synced: the kernel would have to find out of each page anew that it is dirty. */
enum kv_status logtail_refill_extent(const struct logfile *log, uint64_t offset,
                                     const struct record *content, struct kv_slice value_tail);

/* Before an extent gets another content, at `offset`: takes the version of the one that is there,
 * so that who reads it without the lock finds out. KV_IO ... */
enum kv_status logtail_empty_extent(const struct logfile *log, uint64_t offset);

/* Gives `content`, which was written, its version. It counts when a value pointer that names it was
 * appended. KV_IO ... */
enum kv_status logtail_number_extent(const struct logfile *log, uint64_t offset,
                                     const struct record *content);

/* Drops everything from `tail` on, for good: bytes that are allocated there again read as zeros.
 * KV_OK, KV_IO ... */
enum kv_status logtail_cut(struct logfile *log, uint64_t tail);

/* After the open of a sound log: ensures that the file has disk blocks after its tail and no holes
 * (a copied file may have some). If that fails, the room is not used. */
void logtail_allocate_room(struct logfile *log);

#endif
