/*
 * sync_state: what the files of this room share: the state of the syncs of a store, and the steps
 * that a sync of one file and a commit of several have in common. sync.h is for others.
 */
#ifndef MQKV_KVSTORE_SYNC_SYNC_STATE_H
#define MQKV_KVSTORE_SYNC_SYNC_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvstore/core/context.h"
#include "kvstore/core/eventcount.h"
#include "kvstore/core/file_ring.h"
#include "kvstore/log/commit_log.h"
#include "kvstore/table/datafile.h"

#define SYNC_MAX_THREADS 8u

/* What sync knows of one data file. Covered by sync.mutex; what is atomic is written under it and
 * read by anybody. */
struct sync_file {
    bool queued;               /* in the ready queue */
    bool busy;                 /* somebody has the slot, or it was handed over */
    bool handed_over;          /* to one of the slot's waiters, who has not taken it yet */
    bool again;                /* to be queued when the slot is free */
    bool note_lags;            /* the timed pass that is to come shall note what is on disk */
    bool in_log_only;          /* some of what is durable is so by the commit log */
    bool apart;                /* the file itself is to be synced next */
    uint64_t due_ns;           /* while timed */
    uint64_t covered_position; /* of the last snapshot that a sync was started for */
    uint32_t started;          /* syncs; the number of the one under way, or of the last */
    uint32_t slot_waiters;
    uint64_t settled_salt;  /* of the physical file ... */
    uint64_t settled_bytes; /* ... so many bytes of whose size are on disk; covered by the slot */
    atomic_uint_fast64_t synced_position;
    uint64_t covered_since_ms; /* likewise, of what the snapshots since the last success cover */
    uint64_t syncs;
    uint64_t failures;
    /* Apart from what no writer touches: compilers read neighbours together. */
    atomic_bool timed;  /* in the timed queue, or about to be; written by writers too */
    atomic_bool failed; /* for good */
    _Atomic uint64_t written_since_ms; /* the first write after the last snapshot; 0: none */
    struct eventcount waiters; /* for a durable position; by sync_group_of the sync that will do */
    pthread_cond_t slot_free;
};

/* Of the commit log (commit_together.h). */
struct commit_state {
    struct commit_log *log; /* NULL: not yet, or none could be had; whoever commits uses it */
    bool wanted;            /* may be made, or used */
    bool busy;              /* somebody commits, and will look at the ready queue afterwards */
    bool draining;      /* what is only in the log goes to the data files, then it begins anew */
    uint32_t only_here; /* files whose in_log_only is set */
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
    bool timer_watched; /* an idle thread will wake up for the first of the timed */
    bool stop;
    bool signalled; /* a thread that was asleep will look at the ready queue */
    struct commit_state commit;
    kvstore_sync_listener listener;
    void *listener_context;
};

/* What a sync is about to make durable. */
struct sync_snapshot {
    struct generation *generation; /* stays while the slot is held */
    uint64_t position;
    uint64_t tail;
    uint64_t allocated_bytes;
    uint64_t max_version;
    bool failed;
};

/* Waiters fall into two groups: those of the sync that is under way, and those of the next. */
static inline uint32_t sync_group_of(uint32_t sync_number)
{
    return 1u << sync_number % 2;
}

/* Holds: mutex. */
static inline bool commit_is_possible(const struct sync *sync)
{
    return sync->commit.wanted && !sync->commit.draining;
}

/* Holds: the slot. */
struct sync_snapshot sync_take_snapshot(struct sync *sync, uint32_t file);

/* Notes that a sync of what lies before the position begins: the number of those who wait for it.
 * Holds: the slot, mutex. */
void sync_announce(struct sync_file *file, uint64_t position);

/* Starts one more thread, or wakes one, if there is more to do than threads that wait for work.
 * Holds: mutex. */
void sync_wake_thread(struct sync *sync);

/* Queues the file. Holds: mutex. */
void sync_enqueue(struct sync *sync, uint32_t file);

#endif
