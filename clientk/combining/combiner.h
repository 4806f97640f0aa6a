/*
 * combiner: a session that any number of threads share by flat combining (Hendler, Incze, Shavit,
 * Tzafrir: Flat combining and the synchronization-parallelism tradeoff, SPAA 2010). A thread puts
 * its call on the combiner's list. One of the threads, the leader, packs the operations of all
 * calls into one message of a window of one (window.h), sends it, and receives the reply, which
 * completes the operations. When its own call is finished, the leader passes the lead to the next
 * thread. A thread that is alone leads at once, which costs it two atomic operations.
 *
 * The combiner connects by itself when it is first used, and again when the server was restarted.
 */
#ifndef MQKV_CLIENTK_COMBINING_COMBINER_H
#define MQKV_CLIENTK_COMBINING_COMBINER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/base/client_settings.h"
#include "clientk/combining/linger.h"
#include "clientk/combining/turn.h"
#include "clientk/direct/direct.h"
#include "clientk/message/window.h"
#include "common/memory/machine_sizes.h"
#include "mqkv/clientk.h"
#include "mqkv/error.h"
#include "wire/wait.h"

/* What one call of a thread asks for: tasks (task.h), whose results go to the caller, and the
 * progress made. The call lives on the stack of its thread, which waits until the call is finished;
 * meanwhile the leader works on it. */
struct call {
    struct task_queue queue; /* first: the tasks that are due */
    size_t unfinished;       /* tasks that are not complete */
    enum kv_status status;   /* KV_OK, or the error that stopped the call */
    bool sent;               /* some of its tasks were packed into a message */
    uint64_t deadline_ms;
    struct kv_error *error; /* of the calling thread */

    /* While the call waits in a combiner. */
    struct call *following;
    struct turn turn;
};

struct combiner {
    /* Used by all threads. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t led; /* 1: some thread leads */
    _Atomic(struct call *) arrivals;                 /* a stack: the last to come is on top */

    /* The threads that wait for their turns sleep on these words. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t wakes[TURN_WAKE_WORDS];

    /* Used by the leader only. */
    _Alignas(CACHE_LINE_BYTES) const struct client_settings *settings;
    struct direct *direct; /* is told of each session */
    struct direct_listener listener;
    struct window window;      /* of one message */
    struct call *first, *last; /* the list: calls in the order of arrival, also the leader's own */
    unsigned call_count;       /* calls on the list */
    unsigned packed_calls;     /* calls with operations in the last message */
    bool packed_full;          /* the last message took no more */
    struct linger linger;

    /* Written by the leader, read by any thread. */
    _Atomic bool connected;
    pthread_mutex_t facts_lock;
    struct clientk_info facts; /* guarded by facts_lock; about the last session, without counters */
};

/* Prepares a combiner without a session. `settings` and `direct`, which is told of each session,
 * stay with the caller. False: no memory. */
bool combiner_init(struct combiner *combiner, const struct client_settings *settings,
                   struct direct *direct);

/* Closes the session, after BYE if `say_goodbye`, and frees the combiner. No thread may be in a
 * call. */
void combiner_free(struct combiner *combiner, bool say_goodbye);

/* The `complete` of the queue of a call. */
void call_complete_task(struct task_queue *queue, struct task *task, const struct outcome *outcome);

/* Begins a call without tasks, which is to be finished by deadline_ms. error: of the calling
 * thread. */
static inline void call_init(struct call *call, uint64_t deadline_ms, struct kv_error *error)
{
    call->queue.first = NULL;
    call->queue.lent_until_packed = false;
    call->queue.complete = call_complete_task;
    call->unfinished = 0;
    call->status = KV_OK;
    call->sent = false;
    call->deadline_ms = deadline_ms;
    call->error = error;
}

/* Adds a task of which only the operation is filled in. Its result goes to *result. The task, its
 * key and its value stay until the call is finished. */
static inline void call_add(struct call *call, struct task *task, struct clientk_result *result)
{
    task->queue = &call->queue;
    task->target = result;
    task->value_bytes = 0;
    task->own_bytes = NULL;
    task->uncertain = false;
    task_queue_push(&call->queue, task);
    call->unfinished++;
}

static inline bool call_finished(const struct call *call)
{
    return call->unfinished == 0;
}

/* Stops the due tasks of a call, unless that is finished. The call gets `status`, or
 * KV_OUTCOME_UNKNOWN; the results of the tasks get status_of_rest, which must say that they were
 * not executed, or KV_OUTCOME_UNKNOWN if they may have been. */
void call_stop(struct call *call, enum kv_status status, enum kv_status status_of_rest);

/* Executes the call until it is finished, also for other threads. `waiter` and call->turn.sleeper,
 * which the caller sets, belong to the calling thread. Threads of one combiner should have
 * different sleeper numbers, but need not. */
void combiner_execute(struct combiner *combiner, struct call *call, struct wire_waiter *waiter);

/* Connects unless the combiner is connected. For the one thread that opens the handle. Returns as
 * window_connect does. */
enum kv_status combiner_connect(struct combiner *combiner, uint64_t deadline_ms,
                                struct kv_error *error);

/* Closes the session if no thread is using it. It is opened again when the combiner is next
 * used. */
void combiner_retire(struct combiner *combiner);

/* Adds the counters of the combiner to *info, and the facts about its session unless they are
 * filled in already. Any thread. */
void combiner_add_info(struct combiner *combiner, struct clientk_info *info);

#endif
