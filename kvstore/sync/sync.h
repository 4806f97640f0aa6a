/*
 * sync: group commit. A writer says what shall be on disk (a ticket), and one fdatasync at a time
 * per data file covers everything that was appended before the call began. Sync threads make the
 * call, so that a thread which only asks (kvstore_request_sync) never sleeps. A thread that waits
 * (kvstore_wait_durable) makes the call itself if the file is at rest, and else sleeps until the
 * sync that covers its write, and no earlier one, wakes it. As many files are synced in parallel as
 * there are sync threads; these are started when there is work for them, and sleep without wake-ups
 * when there is none.
 *
 * With KVSTORE_SYNC_ALWAYS the bytes that several files wait for go to one more file, whose sync
 * counts for all of them (commit_together.h).
 *
 * The note in a file's header of what is on disk (logfile_note_progress) is made with the syncs of
 * the interval. Syncs in between, of writes that somebody waits for, leave the note as it is, up to
 * a megabyte behind: the note is a second page for each sync to write, and nothing that was
 * promised rests on it.
 *
 * After a failed fdatasync the kernel may have dropped the pages that it could not write, and a
 * second call would report success (P. Rebello et al., "Can Applications Recover from fsync
 * Failures?", USENIX ATC 2020). So the call is not repeated: the file takes no writes any more, and
 * what was not durable by then never is.
 */
#ifndef MQKV_KVSTORE_SYNC_SYNC_H
#define MQKV_KVSTORE_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/core/context.h"

struct sync;

/* Starts the first sync thread of the store of `context`, whose files are open. On failure, with a
 * sentence in `error`, *sync is not set: KV_NO_MEMORY, KV_LIMIT (no thread). */
enum kv_status sync_create(const struct store_context *context, struct sync **sync,
                           struct kv_error *error);

/* Finishes the syncs that were asked for, ends the threads and frees `sync`. NULL is harmless. */
void sync_free(struct sync *sync);

/* Has `file` synced within the store's sync_interval_ms, or, where the store asks for no syncs,
 * within half a minute. Any thread, which may hold the file's lock. */
void sync_within_interval(struct sync *sync, uint32_t file);

/* Notes the time of the first write to `file` since its last sync began. Any thread; holds the
 * file's lock. */
void sync_note_written(struct sync *sync, uint32_t file);

/* After a record was appended to `file`: has the file synced within the interval, unless a sync is
 * coming or the store asks for none. Holds: the file's lock for writing. */
void sync_after_append(struct sync *sync, const struct store_context *context,
                       struct datafile *file);

/* After a value was placed in `file`: has the file synced within half a minute where the store asks
 * for no syncs. A power failure may end the log at a content that no sync has promised and that was
 * overwritten (free_extents.h), however old that is. Holds: the file's lock for writing. */
void sync_after_placing(struct sync *sync, const struct store_context *context,
                        const struct datafile *file);

/* Has `file` be of the format whose records may be parts of transactions, on disk: what takes a
 * sync, once for each file. Does nothing if the file takes no writes any more; a sync that fails
 * here is one of the file like any other. Takes the slot and the file's lock; the caller holds
 * neither. */
void sync_raise_format(struct sync *sync, uint32_t file);

/* After the sync interval was changed: what was written before is synced within the new interval
 * too. Any thread; holds no lock. */
void sync_hasten(struct sync *sync);

/* The calls kvstore_request_sync, kvstore_is_durable, kvstore_wait_durable (the ticket's file is
 * one of the store) and kvstore_set_sync_listener. */
void sync_request(struct sync *sync, struct kvstore_ticket ticket);
bool sync_is_durable(const struct sync *sync, struct kvstore_ticket ticket);
uint64_t sync_durable_position(const struct sync *sync, uint32_t file); /* the highest such */
enum kv_status sync_wait(struct sync *sync, struct kvstore_ticket ticket);
void sync_set_listener(struct sync *sync, kvstore_sync_listener listener, void *context);

/* Has the transactions up to that number settled (links.h), and waits for it. KV_OK,
 * KV_NOT_DURABLE. The caller holds no lock. */
enum kv_status sync_settle(struct sync *sync, uint64_t transaction);

struct sync_counts {
    uint64_t synced_bytes;
    uint64_t syncs;
    uint64_t failures;
    uint64_t unsynced_ms; /* since the oldest write that is not known to be on disk; 0: none */
};
/* The counts of `file`. Any thread. */
struct sync_counts sync_counts(struct sync *sync, uint32_t file);

#endif
