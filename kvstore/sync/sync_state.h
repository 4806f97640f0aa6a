/*
 * sync_state: what the modules of this room share: the state of a store's syncs, and the steps that
 * a sync of one file and a commit of several files have in common. Other rooms include sync.h.
 */
#ifndef MQKV_KVSTORE_SYNC_SYNC_STATE_H
#define MQKV_KVSTORE_SYNC_SYNC_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/assert/assert.h"
#include "kvstore/core/context.h"
#include "kvstore/core/eventcount.h"
#include "kvstore/core/file_ring.h"
#include "kvstore/log/commit_log.h"
#include "kvstore/table/datafile.h"

#define SYNC_MAX_THREADS 8u

/* The syncs of one data file. Covered by sync.mutex; any thread reads the atomic fields, which are
 * written under the mutex unless they say otherwise. */
struct sync_file {
    bool queued;      /* in the ready queue */
    bool busy;        /* somebody has the slot, or the slot was handed over */
    bool handed_over; /* the slot, to one of its waiters, who has not taken it yet */
    bool again;       /* queue the file when its slot is free */
    bool note_lags;   /* the timed sync that is to come notes in the header what is on disk */
    bool in_log_only; /* some of what is durable is durable by the commit log alone */
    bool apart;       /* the next sync is one of the file itself */
    uint64_t due_ns;  /* while timed */
    uint64_t covered_position; /* of the last snapshot that a sync was started for */
    uint32_t started;          /* number of the sync under way, or else of the last one */
    uint32_t slot_waiters;
    uint64_t settled_salt; /* of the physical file ... */
    uint64_t
        settled_bytes;     /* ... whose size is on disk up to this; covered by the slot, like ... */
    uint64_t settled_tail; /* ... where it ended at the last sync of the file itself */
    atomic_uint_fast64_t synced_position; /* up to here the file itself is on disk, */
    atomic_uint_fast64_t
        durable_position;         /* and up to here with all that belongs to it (links.h) */
    struct link_part *first_part; /* of links that are open, in the order of positions */
    struct link_part *last_part;
    struct link_part *first_unwanted; /* of those, whose link nobody has asked for (links_want) */
    uint64_t first_refused, last_refused; /* transactions that were taken back, and of which the
                                             disk may have a part here; 0: none. Written with the
                                             file's lock, too, or by the slot's holder */
    bool doomed;         /* a link with a file whose syncs have failed cannot be closed any more */
    bool is_to_be_tried; /* in sync.links.to_try */
    bool is_to_be_told;  /* in sync.links.to_tell */
    uint32_t next_to_try, next_to_tell;
    uint64_t covered_since_ms; /* the oldest write that snapshots since the last success have */
    uint64_t syncs;
    uint64_t failures;
    /* Apart from what no writer touches: compilers read neighbours together. */
    atomic_bool timed;  /* in the timed queue, or about to be; written by writers too */
    atomic_bool failed; /* for good */
    _Atomic uint64_t written_since_ms; /* the first write after the last snapshot; 0: none */
    struct eventcount waiters; /* for a durable position; by sync_group_of the sync that will do */
    pthread_cond_t slot_free;
};

/* The commit log's (commit_together.h). Covered by sync.mutex, `log` by `busy`. */
struct commit_state {
    struct commit_log *log; /* NULL: not made yet, or it could not be made */
    bool wanted;            /* the log may be made, or used */
    bool busy;              /* a thread commits, and will look at the ready queue afterwards */
    bool draining;      /* files in the log are synced themselves, so that the log can begin anew */
    uint32_t only_here; /* number of files whose in_log_only is set */
};

/* The links that are open (links.h). Covered by sync.mutex. */
struct open_links {
    struct link *first, *last; /* by number */
    uint32_t count;
    uint32_t refused_files; /* number of files whose last_refused is set */
    uint32_t to_try; /* the first file whose first link may have been closed; LINKS_NO_FILE: none */
    uint32_t to_tell;    /* the first file of which more is durable than was told */
    uint32_t publishing; /* the file whose sync is noted */
};

struct sync {
    const struct store_context *context;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct file_ring ready;
    struct file_ring timed; /* by due time, since all wait equally long */
    struct sync_file *files;
    void *(*thread_main)(void *sync); /* constant */
    pthread_t threads[SYNC_MAX_THREADS];
    uint32_t max_threads;
    uint32_t thread_count;
    uint32_t idle_count;
    bool timer_watched; /* an idle thread will wake up when the first timed file is due */
    bool stop;
    bool signalled; /* a thread that was woken will look at the ready queue */
    struct commit_state commit;
    struct open_links links;
    kvstore_sync_listener listener;
    void *listener_context;
};

/* The state of a file that a sync is about to make durable. */
struct sync_snapshot {
    struct generation *generation; /* is not replaced while the slot is held */
    uint64_t position;
    uint64_t tail;
    uint64_t settled_end; /* what the header may say is on disk (placing_settled_end) */
    uint64_t extents_end;
    uint64_t allocated_bytes;
    uint64_t max_version;
    uint64_t refused; /* of transactions up to this one that were taken back the file has zeros; 0:
                         none were, or the disk refuses to erase them */
    bool failed;
};

/* The eventcount group of those who wait for the sync of that number: there are two, one of the
 * sync under way and one of the next sync. */
static inline uint32_t sync_group_of(uint32_t sync_number)
{
    return 1u << sync_number % 2;
}

/* Returns true if files can be committed by the commit log now. Holds: mutex. */
static inline bool commit_is_possible(const struct sync *sync)
{
    KV_ASSERT(mutex_is_held(&sync->mutex));
    return sync->commit.wanted && !sync->commit.draining;
}

/* The state of `file` now; a writer that comes later arms a later sync. Takes the file's lock.
 * Holds: the slot. */
struct sync_snapshot sync_take_snapshot(struct sync *sync, uint32_t file);

/* Notes that a sync of what lies before `position` begins: from now on those who wait for a
 * position up to there wait for this sync. Holds: the slot, mutex. */
void sync_announce(struct sync_file *file, uint64_t position);

/* Wakes a sync thread, and starts one more if there are more files to sync than idle threads.
 * Holds: mutex. */
void sync_wake_thread(struct sync *sync);

/* Queues the file, unless the sync that is under way covers `position`. A file whose position is
 * durable already is queued too: the listener is told again, without a sync. Returns the number of
 * the sync that covers the position. Holds: mutex. */
uint32_t sync_want(struct sync *sync, uint32_t file, uint64_t position);

/* Puts `file` into the ready queue: now, or when its slot is free. Holds: mutex. */
void sync_enqueue(struct sync *sync, uint32_t file);

#endif
