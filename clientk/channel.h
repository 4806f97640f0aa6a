/*
 * channel: a session that any number of threads share by flat combining (Hendler, Incze, Shavit,
 * Tzafrir: Flat combining and the synchronization-parallelism tradeoff, SPAA 2010): a thread puts its
 * request on the channel's list; one of them, the leader, packs the operations of all into one message,
 * sends it, receives the reply, and hands the results out; when its own request is finished it passes
 * the lead to the next. A thread that is alone leads at once, and pays two atomic operations for it.
 *
 * The channel connects by itself when it is first used, and again when the server was restarted.
 */
#ifndef MQKV_CLIENTK_CHANNEL_H
#define MQKV_CLIENTK_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/company.h"
#include "clientk/connection.h"
#include "clientk/request.h"
#include "clientk/round.h"
#include "clientk/settings.h"
#include "wire/wait.h"

#define CACHE_LINE_BYTES 64

#define CHANNEL_WAKE_WORDS 4u

struct channel {
    /* Of all threads. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t led; /* 1: some thread leads */
    _Atomic(struct request *) arrivals;              /* a stack: the last to come is on top */

    /* What threads sleep on that wait for the leader; counters of wake-ups. On one word sleep 32, each
     * known by a bit (futex(2), FUTEX_WAIT_BITSET): one call wakes all whose requests are finished. More
     * than 32 * CHANNEL_WAKE_WORDS threads share bits, and are woken in vain now and then. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t wakes[CHANNEL_WAKE_WORDS];

    /* Of the leader. */
    _Alignas(CACHE_LINE_BYTES) const struct settings *settings;
    struct connection connection;
    struct request *first, *last; /* requests in the order of arrival; the leader's own too */
    unsigned request_count;       /* of that list */
    struct round round;
    struct company company;

    /* Written by the leader, read by anybody. */
    _Atomic uint64_t messages, operations, reconnects;
    _Atomic bool connected;
    pthread_mutex_t facts_lock;
    struct clientk_info facts; /* guarded by facts_lock; of the last session, without counters */
};

void channel_init(struct channel *channel, const struct settings *settings);

/* Closes the session and frees; no thread may be in a call. */
void channel_free(struct channel *channel, bool say_goodbye);

/* Executes the request. Returns its status; the results of single operations are in request->results.
 * waiter: of the calling thread, as is request->sleeper, which the caller sets: different numbers for
 * different threads are best, but not needed. */
enum kv_status channel_execute(struct channel *channel, struct request *request,
                               struct wire_waiter *waiter);

/* Connects, if it is not (connection_ensure). For the one thread that opens the handle. */
enum kv_status channel_connect(struct channel *channel, uint64_t deadline_ms,
                               struct kv_error *error);

/* Closes the session if no thread is using it; it is opened again when it is next used. */
void channel_retire(struct channel *channel);

/* Adds its counters to *info; fills in the facts about the session if no other channel did. */
void channel_add_info(struct channel *channel, struct clientk_info *info);

#endif
