/*
 * compaction_queue: which data files are to be compacted, and when: those that writers and the
 * sweeper find worth it, those that a caller of kvstore_compact waits for. Files take turns. After
 * a compaction a file is left alone for a while, after a failure longer each time.
 *
 * How much a log must have, and how much of it dead, is an option of the store; where a write finds
 * no room, the share of dead bytes alone decides.
 *
 * Threads: any; a mutex of its own, taken last, so that a caller may hold a file's lock.
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

/* NULL: out of memory. */
struct compaction_queue *compaction_queue_create(const struct store_context *context);
void compaction_queue_free(struct compaction_queue *queue);

/* Queues the file. */
void compaction_queue_want(struct compaction_queue *queue, uint32_t file);

/* The same, however short a rest it has had. */
void compaction_queue_want_now(struct compaction_queue *queue, uint32_t file);

/* Queues the file if enough of its log is dead, and the log has min_bytes, so that it is worth the
 * while. Inline: it follows every write. Holds: the file's lock for writing. */
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

/* A write has found no room, or little: considers every file, however small its log is, once a
 * second at most, in the thread of compaction_queue_next. Where entries can be evicted, the one
 * with most dead bytes is queued, if there are enough (compaction_gain). */
void compaction_queue_want_room(struct compaction_queue *queue);

/* What a compaction of the file gives back on a full disk, where entries can be evicted; 0: less
 * than a quarter of it, which is not worth it. *copy_bytes: what it takes before. Takes the file's
 * lock. */
uint64_t compaction_gain(const struct store_context *context, uint32_t file, uint64_t *copy_bytes);

/* Has the file compacted next, and waits. KV_BUSY: the store is being closed. Holds no lock. */
enum kv_status compaction_queue_call(struct compaction_queue *queue, uint32_t file,
                                     struct kv_error *error);

/* Has compaction_queue_next give out none, so that its caller looks at what else there is. */
void compaction_queue_wake(struct compaction_queue *queue);

/* If a compaction is under way, waits until it has ended; false: none is. Holds no lock. */
bool compaction_queue_await(struct compaction_queue *queue);

/* For the compactor --------------------------------------------------------------------------- */

/* A compaction that is due. */
struct compaction {
    uint32_t number;                    /* of the data file */
    struct compaction_request *request; /* the call that waits for it; NULL: none */
    bool is_none;                       /* none is due */
};

/* Sleeps until one is due, which it takes out of the queue, or until that time
 * (clock_monotonic_ns), or until room was wanted, or it is woken: then next->is_none. False: the
 * queue was stopped; waiting callers got KV_BUSY. */
bool compaction_queue_next(struct compaction_queue *queue, uint64_t until_ns,
                           struct compaction *next);

/* After compaction_queue_next gave one out. Notes how it ended: puts the file to rest, unless it
 * was wanted again meanwhile. */
void compaction_queue_finish(struct compaction_queue *queue, uint32_t file, enum kv_status status,
                             uint64_t took_ns);

/* Wakes the call that waits. */
void compaction_queue_answer(struct compaction_queue *queue, struct compaction_request *request,
                             enum kv_status status, const struct kv_error *error);

/* The queue gives no further compaction out. */
void compaction_queue_stop(struct compaction_queue *queue);
bool compaction_queue_is_stopped(struct compaction_queue *queue);

#endif
