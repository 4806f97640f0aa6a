/*
 * compaction_queue: which data files must be compacted, and when: those that writers and the
 * sweeper find worth it, and those that a caller of kvstore_compact waits for. Files are given out
 * in rotation. After a compaction a file is left alone for a while, after a failure longer each
 * time.
 *
 * The least size of a log, and the part of it that must be dead, are options of the store; when a
 * write finds no room, the part of dead bytes alone decides.
 *
 * Threads: any; the queue has a mutex, which is taken last, so that a caller may hold a file's
 * lock.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_COMPACTION_QUEUE_H
#define MQKV_KVSTORE_MAINTENANCE_COMPACTION_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/core/context.h"
#include "kvstore/table/datafile.h"
#include "mqkv/error.h"

struct compaction_queue;
struct compaction_request;

/* Makes the queue. NULL: out of memory. */
struct compaction_queue *compaction_queue_create(const struct store_context *context);
void compaction_queue_free(struct compaction_queue *queue);

/* Queues `file`. */
void compaction_queue_want(struct compaction_queue *queue, uint32_t file);

/* Queues `file`, however short a rest it has had. */
void compaction_queue_want_now(struct compaction_queue *queue, uint32_t file);

/* Queues `file` if its log has min_bytes and enough of it is dead, so that a compaction is worth
 * its time. Inline, since every write calls it. Holds: the file's lock for writing. */
static inline void compaction_queue_consider(struct compaction_queue *queue, struct datafile *file,
                                             const struct kvstore_options *options,
                                             uint64_t min_bytes)
{
    uint64_t percent = options->compact_dead_percent;
    uint64_t log_bytes = file->current->log.tail - FILE_HEADER_BYTES;
    if (log_bytes < min_bytes || file->compaction_wanted || percent >= 100 ||
        generation_dead_bytes(file->current) * 100 < log_bytes * percent ||
        datafile_is_read_only(file))
        return;
    file->compaction_wanted = true;
    compaction_queue_want(queue, file->number);
}

/* Called after a write has found no room, or little: has every file considered, however small its
 * log is, at most once a second, in the thread of compaction_queue_next. If entries can be evicted,
 * the file with most dead bytes is queued, if it has enough (compaction_gain). */
void compaction_queue_want_room(struct compaction_queue *queue);

/* Returns the bytes that a compaction of `file` gives back on a full disk if entries can be
 * evicted; 0: less than a quarter of the log, which is not worth it. *copy_bytes: the bytes that
 * the compaction takes first. Takes the file's lock. */
uint64_t compaction_gain(const struct store_context *context, uint32_t file, uint64_t *copy_bytes);

/* Has `file` compacted next, and waits for the result. KV_BUSY: the store is being closed. The
 * caller holds no lock. */
enum kv_status compaction_queue_call(struct compaction_queue *queue, uint32_t file,
                                     struct kv_error *error);

/* Has compaction_queue_next return without a file, so that its caller looks for other work. */
void compaction_queue_wake(struct compaction_queue *queue);

/* If a compaction is under way, waits until it has ended. False: none is. The caller holds no lock.
 * */
bool compaction_queue_await(struct compaction_queue *queue);

/* For the compactor --------------------------------------------------------------------------- */

/* A compaction that is due. */
struct compaction {
    uint32_t number;                    /* number of the data file */
    struct compaction_request *request; /* the call that waits for it; NULL: none */
    bool is_none;                       /* none is due */
};

/* Sleeps until a compaction is due, and takes it out of the queue. Returns with next->is_none at
 * `until_ns` (clock_monotonic_ns), when room was wanted, and after compaction_queue_wake. False:
 * the queue was stopped; waiting callers got KV_BUSY. */
bool compaction_queue_next(struct compaction_queue *queue, uint64_t until_ns,
                           struct compaction *next);

/* Called after the compaction of `file`, which compaction_queue_next gave out, ended with `status`:
 * puts the file to rest, unless it was wanted again meanwhile. */
void compaction_queue_finish(struct compaction_queue *queue, uint32_t file, enum kv_status status,
                             uint64_t took_ns);

/* Gives the result to the call that waits, and wakes it. */
void compaction_queue_answer(struct compaction_queue *queue, struct compaction_request *request,
                             enum kv_status status, const struct kv_error *error);

/* Makes the queue give out no further compaction. */
void compaction_queue_stop(struct compaction_queue *queue);
bool compaction_queue_is_stopped(struct compaction_queue *queue);

#endif
