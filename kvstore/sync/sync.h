/*
 * sync: group commit. Whoever wrote says what shall be on disk (a ticket), and one fdatasync at a
 * time per data file covers everything appended before it began. Sync threads call it, so that who
 * only asks (kvstore_request_sync) never sleeps; who waits (kvstore_wait_durable) calls it itself
 * if the file is at rest, and else sleeps until the sync that covers its write, and no earlier one,
 * wakes it. As many files are synced in parallel as there are threads; threads are started when
 * there is work for them and sleep without wake-ups when there is none.
 *
 * With KVSTORE_SYNC_ALWAYS what several files wait for goes to one more file, whose sync counts for
 * all of them (commit_together.h).
 *
 * The note in the file's header of what is on disk (logfile_note_progress) is made with the syncs
 * of the interval. Those in between, of writes that somebody waits for, leave it as it is, up to a
 * megabyte: it is a second page for each sync to write, and nothing that was promised rests on it.
 *
 * After a failed fdatasync the kernel may have dropped the pages it could not write, and a second
 * call would report success (P. Rebello et al., "Can Applications Recover from fsync Failures?",
 * USENIX ATC 2020). So it is not repeated: the file takes no writes any more, and what was not
 * durable by then never is.
 */
#ifndef MQKV_KVSTORE_SYNC_SYNC_H
#define MQKV_KVSTORE_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/core/context.h"

struct sync;

/* The store's files must be open. */
enum kv_status sync_create(const struct store_context *context, struct sync **sync,
                           struct kv_error *error);

/* Finishes what was asked for, then ends the threads. NULL is harmless. */
void sync_free(struct sync *sync);

/* Sees to it that the file is synced within the store's sync_interval_ms. Any thread; may hold the
 * file's lock. */
void sync_within_interval(struct sync *sync, uint32_t file);

/* The first write since the last sync began. Cheap; any thread; holds the file's lock. */
void sync_note_written(struct sync *sync, uint32_t file);

/* After a record was appended: a sync within the interval, unless one is coming or the store asks
 * for none. Holds: the file's lock for writing. */
void sync_after_append(struct sync *sync, const struct store_context *context,
                       struct datafile *file);

/* The interval has changed, or there is one now: what was written before is synced within it too.
 * Any thread; holds no lock. */
void sync_hasten(struct sync *sync);

/* kvstore_request_sync, kvstore_is_durable and kvstore_wait_durable of a file that there is, and
 * kvstore_set_sync_listener. */
void sync_request(struct sync *sync, struct kvstore_ticket ticket);
bool sync_is_durable(const struct sync *sync, struct kvstore_ticket ticket);
enum kv_status sync_wait(struct sync *sync, struct kvstore_ticket ticket);
void sync_set_listener(struct sync *sync, kvstore_sync_listener listener, void *context);

struct sync_counts {
    uint64_t synced_bytes;
    uint64_t syncs;
    uint64_t failures;
    uint64_t unsynced_ms; /* since the oldest write that is not known to be on disk; 0: none */
};
struct sync_counts sync_counts(struct sync *sync, uint32_t file);

#endif
