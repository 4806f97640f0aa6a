/*
 * combiner: a session that any number of threads share by flat combining (Hendler, Incze, Shavit,
 * Tzafrir: Flat combining and the synchronization-parallelism tradeoff, SPAA 2010): a thread puts its
 * call on the combiner's list; one of them, the leader, packs the operations of all into one message
 * of a window of one (window.h), sends it, and receives the reply, which completes the calls; when its own is
 * finished it passes the lead to the next. A thread that is alone leads at once, and pays two atomic
 * operations for it.
 *
 * The combiner connects by itself when it is first used, and again when the server was restarted.
 */
#ifndef MQKV_CLIENTK_COMBINING_COMBINER_H
#define MQKV_CLIENTK_COMBINING_COMBINER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/machine_sizes.h"
#include "clientk/combining/call.h"
#include "clientk/combining/linger.h"
#include "clientk/base/client_settings.h"
#include "clientk/message/window.h"
#include "wire/wait.h"

#define COMBINER_WAKE_WORDS 4u

struct combiner {
    /* Of all threads. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t led; /* 1: some thread leads */
    _Atomic(struct call *) arrivals;                 /* a stack: the last to come is on top */

    /* What threads sleep on that wait for the leader; counters of wake-ups. On one word sleep 32, each
     * known by a bit (futex(2), FUTEX_WAIT_BITSET): one call wakes all whose calls are finished. More
     * than 32 * COMBINER_WAKE_WORDS threads share bits, and are woken in vain now and then. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t wakes[COMBINER_WAKE_WORDS];

    /* Of the leader. */
    _Alignas(CACHE_LINE_BYTES) const struct client_settings *settings;
    struct window window;      /* of one message */
    struct call *first, *last; /* calls in the order of arrival; the leader's own too */
    unsigned call_count;       /* of that list */
    unsigned packed_calls;     /* that the last message has operations of */
    bool packed_full;          /* and it took no more */
    struct linger linger;

    /* Written by the leader, read by anybody. */
    _Atomic bool connected;
    pthread_mutex_t facts_lock;
    struct clientk_info facts; /* guarded by facts_lock; of the last session, without counters */
};

/* False: no memory. */
bool combiner_init(struct combiner *combiner, const struct client_settings *settings);

/* Closes the session and frees; no thread may be in a call. */
void combiner_free(struct combiner *combiner, bool say_goodbye);

/* Executes the call until it is finished. waiter: of the calling thread, as is call->sleeper, which the
 * caller sets: different numbers for different threads are best, but not needed. */
void combiner_execute(struct combiner *combiner, struct call *call, struct wire_waiter *waiter);

/* Connects, if it is not (window_connect). For the one thread that opens the handle. */
enum kv_status combiner_connect(struct combiner *combiner, uint64_t deadline_ms,
                                struct kv_error *error);

/* Closes the session if no thread is using it; it is opened again when it is next used. */
void combiner_retire(struct combiner *combiner);

/* Adds its counters to *info; fills in the facts about the session if no other combiner did. */
void combiner_add_info(struct combiner *combiner, struct clientk_info *info);

#endif
