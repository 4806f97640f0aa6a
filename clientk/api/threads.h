/*
 * threads: which thread uses which combiner of a handle. Up to combine_above threads have a
 * combiner each; when there are more, all of them share combine_groups of them. They return to
 * combiners of their own when half of combine_above threads are left, so that a pool whose size
 * varies does not reconnect all the time.
 *
 * A thread is attached to a handle by its first call, and detached when it ends or the handle is
 * closed.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_API_THREADS_H
#define MQKV_CLIENTK_API_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/api/handle.h"
#include "clientk/combining/combiner.h"
#include "mqkv/error.h"
#include "wire/wait.h"

/* Prepares this module and base/handles; harmless when repeated. KV_OK; KV_LIMIT, KV_NO_MEMORY: the
 * next call tries again. */
enum kv_status threads_setup(struct kv_error *error);

/* What one thread has in one handle. Its thread frees it; the handle only sets `client` to NULL. */
struct attachment {
    struct clientk *_Atomic client; /* NULL: the handle was closed */
    struct attachment *next_of_thread;
    struct wire_waiter waiter;
    struct direct_reader reader;
    struct combiner *combiner; /* as of `epoch` */
    uint32_t epoch;            /* the layout_epoch of the handle */
    /* The thread's number in the order of the first calls, which picks its group, and its number
     * among the threads of that group; with gaps where threads have ended. Both constant. */
    unsigned number, number_in_group;

    /* Guarded by handles_lock. */
    struct attachment *next_of_client, **link_of_client;
    int slot;    /* the combiner that is its own, or NO_SLOT */
    bool no_own; /* the kernel's limits did not allow for a session of its own */
};

/* The attachments of the calling thread, in no order. Private to this module. */
extern _Thread_local struct attachment *thread_attachments __attribute__((visibility("hidden")));

/* Like thread_attachment, for one that is not the first of the list, or whose combiner may have
 * changed. */
struct attachment *thread_find_attachment(struct clientk *client);

/* Returns the calling thread's attachment to `client`, which is made at its first call; its
 * combiner is the one to use now. NULL: no memory. */
static inline struct attachment *thread_attachment(struct clientk *client)
{
    struct attachment *first = thread_attachments;
    if (first && atomic_load_explicit(&first->client, memory_order_relaxed) == client &&
        first->epoch == atomic_load_explicit(&client->layout_epoch, memory_order_relaxed))
        return first;
    return thread_find_attachment(client);
}

/* Makes the thread of `attachment`, which could not get a session of its own, use the first
 * combiner from now on. False: it used that already. */
bool thread_share_first_combiner(struct attachment *attachment);

/* Detaches all threads from `client`, which is about to be freed. */
void threads_detach_all(struct clientk *client);

#endif
