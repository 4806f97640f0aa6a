/*
 * combiner: a session that any number of threads share by flat combining (Hendler, Incze, Shavit,
 * Tzafrir: Flat combining and the synchronization-parallelism tradeoff, SPAA 2010). A thread puts
 * its call on the combiner's list. One of them, the leader, packs the operations of all calls into
 * one combined message of a window of one (window.h), sends it, and receives the reply, which
 * completes the calls. When the leader's own call is finished, it passes the lead to the next
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

#include "common/memory/machine_sizes.h"
#include "clientk/combining/call.h"
#include "clientk/combining/linger.h"
#include "clientk/combining/turn.h"
#include "clientk/direct/direct.h"
#include "clientk/base/client_settings.h"
#include "clientk/message/window.h"
#include "wire/wait.h"

struct combiner {
    /* Of all threads. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t led; /* 1: some thread leads */
    _Atomic(struct call *) arrivals;                 /* a stack: the last to come is on top */

    /* Followers sleep on these words. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t wakes[TURN_WAKE_WORDS];

    /* Of the leader. */
    _Alignas(CACHE_LINE_BYTES) const struct client_settings *settings;
    struct direct *direct;     /* is told of each session */
    struct window window;      /* of one message */
    struct call *first, *last; /* calls in the order of arrival; the leader's own too */
    unsigned call_count;       /* of that list */
    unsigned packed_calls;     /* with operations in the last message */
    bool packed_full;          /* the last message took no more */
    struct linger linger;

    /* Written by the leader, read by anybody. */
    _Atomic bool connected;
    pthread_mutex_t facts_lock;
    struct clientk_info facts; /* guarded by facts_lock; about the last session, without counters */
};

/* False: no memory. */
bool combiner_init(struct combiner *combiner, const struct client_settings *settings,
                   struct direct *direct);

/* Closes the session and frees; no thread may be in a call. */
void combiner_free(struct combiner *combiner, bool say_goodbye);

/* Executes the call until it is finished. waiter and call->sleeper, which the caller sets, belong
 * to the calling thread. Each thread should have a number of its own, but need not. */
void combiner_execute(struct combiner *combiner, struct call *call, struct wire_waiter *waiter);

/* Connects, if it is not (window_connect). For the one thread that opens the handle. */
enum kv_status combiner_connect(struct combiner *combiner, uint64_t deadline_ms,
                                struct kv_error *error);

/* Closes the session if no thread is using it; it is opened again when it is next used. */
void combiner_retire(struct combiner *combiner);

/* Adds its counters to *info; fills in the facts about the session if no other combiner did. */
void combiner_add_info(struct combiner *combiner, struct clientk_info *info);

#endif
