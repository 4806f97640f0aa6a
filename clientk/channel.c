#include "clientk/channel.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"

/* Where a request stands that is not led by its own thread. */
enum request_turn {
    TURN_WAITING,  /* its thread looks at this word now and then */
    TURN_SLEEPING, /* its thread sleeps on a word of the channel */
    TURN_FINISHED,
    TURN_TO_LEAD /* its thread is the leader now */
};

void channel_init(struct channel *channel, const struct settings *settings)
{
    *channel = (struct channel){.settings = settings};
    connection_init(&channel->connection, settings, wire_reply_ladder);
    pthread_mutex_init(&channel->facts_lock, NULL);
}

void channel_free(struct channel *channel, bool say_goodbye)
{
    connection_close(&channel->connection, say_goodbye);
    round_free(&channel->round);
    pthread_mutex_destroy(&channel->facts_lock);
}

/* Only the leader writes them. */
static void count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* Connecting -------------------------------------------------------------------------------- */

static void disconnect(struct channel *channel, bool say_goodbye)
{
    connection_close(&channel->connection, say_goodbye);
    atomic_store_explicit(&channel->connected, false, memory_order_relaxed);
}

/* Notes for clientk_info what the new session is like. */
static void publish_facts(struct channel *channel)
{
    const struct connection *connection = &channel->connection;
    const struct wire_welcome *welcome = &connection->welcome;
    pthread_mutex_lock(&channel->facts_lock);
    channel->facts = (struct clientk_info){.server_pid = welcome->server_pid,
                                           .max_value_bytes = welcome->max_value_bytes,
                                           .reply_depth = connection->reply_geometry.depth,
                                           .reply_bytes = connection->reply_geometry.message_bytes,
                                           .lane_bytes = welcome->lane_bytes,
                                           .bulk_bytes = welcome->bulk_bytes};
    pthread_mutex_unlock(&channel->facts_lock);
    atomic_store_explicit(&channel->connected, true, memory_order_relaxed);
    atomic_store_explicit(&channel->reconnects, connection->handshakes - 1u, memory_order_relaxed);
}

enum kv_status channel_connect(struct channel *channel, uint64_t deadline_ms,
                               struct kv_error *error)
{
    uint32_t handshakes = channel->connection.handshakes;
    enum kv_status status = connection_ensure(&channel->connection, deadline_ms, error);
    if (channel->connection.handshakes != handshakes)
        publish_facts(channel);
    else if (status != KV_OK)
        disconnect(channel, false);
    return status;
}

static uint64_t relaxed(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void channel_add_info(struct channel *channel, struct clientk_info *info)
{
    info->messages += relaxed(&channel->messages);
    info->operations += relaxed(&channel->operations);
    info->reconnects += relaxed(&channel->reconnects);
    info->sessions += atomic_load_explicit(&channel->connected, memory_order_relaxed);
    pthread_mutex_lock(&channel->facts_lock);
    if (info->reply_depth == 0) {
        info->server_pid = channel->facts.server_pid;
        info->max_value_bytes = channel->facts.max_value_bytes;
        info->reply_depth = channel->facts.reply_depth;
        info->reply_bytes = channel->facts.reply_bytes;
        info->lane_bytes = channel->facts.lane_bytes;
        info->bulk_bytes = channel->facts.bulk_bytes;
    }
    pthread_mutex_unlock(&channel->facts_lock);
}

/* Leading ----------------------------------------------------------------------------------- */

/* The look at the word must not be made before the request was put on the list of arrivals (a relaxed one
 * may be, on a CPU that reorders more than x86): or a leader that saw an empty list and left was seen as
 * leading still, and nobody leads. */
static bool try_lead(struct channel *channel)
{
    uint32_t nobody = 0;
    return atomic_load(&channel->led) == 0 &&
           atomic_compare_exchange_strong(&channel->led, &nobody, 1);
}

static void enqueue(struct channel *channel, struct request *request)
{
    request->following = NULL;
    if (channel->last)
        channel->last->following = request;
    else
        channel->first = request;
    channel->last = request;
    channel->request_count++;
}

/* Moves the arrivals to the leader's list, in the order in which they came. */
static void collect_arrivals(struct channel *channel)
{
    if (!atomic_load_explicit(&channel->arrivals, memory_order_relaxed))
        return;
    struct request *stack = atomic_exchange(&channel->arrivals, NULL);
    struct request *in_order = NULL;
    while (stack) {
        struct request *below = stack->following;
        stack->following = in_order;
        in_order = stack;
        stack = below;
    }
    while (in_order) {
        struct request *following = in_order->following;
        enqueue(channel, in_order);
        in_order = following;
    }
}

/* Threads to wake: their bits in each of channel->wakes. Woken together, none of them can take the CPU
 * from the leader before the last is. */
struct wake_list {
    uint32_t bits[CHANNEL_WAKE_WORDS];
    bool any;
};

static unsigned word_of(unsigned sleeper)
{
    return sleeper / 32 % CHANNEL_WAKE_WORDS;
}

static uint32_t bit_of(unsigned sleeper)
{
    return UINT32_C(1) << sleeper % 32;
}

/* Empties the list. */
static void wake(struct channel *channel, struct wake_list *list)
{
    if (!list->any)
        return;
    list->any = false;
    for (unsigned i = 0; i < CHANNEL_WAKE_WORDS; i++) {
        if (list->bits[i] == 0)
            continue;
        atomic_fetch_add(&channel->wakes[i], 1);
        syscall(SYS_futex, &channel->wakes[i], FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL,
                list->bits[i]);
        list->bits[i] = 0;
    }
}

/* The request belongs to its thread again, which must be woken if it comes on the list: it must not be
 * touched afterwards. */
static void give_turn(struct request *request, enum request_turn turn, struct wake_list *to_wake)
{
    unsigned sleeper = request->sleeper;
    if (atomic_exchange(&request->turn, turn) != TURN_SLEEPING)
        return;
    to_wake->bits[word_of(sleeper)] |= bit_of(sleeper);
    to_wake->any = true;
}

/* Takes finished requests off the list and lets their threads go. */
static void dismiss_finished(struct channel *channel, const struct request *own,
                             struct wake_list *to_wake)
{
    struct request *request = channel->first;
    channel->first = NULL;
    channel->last = NULL;
    channel->request_count = 0;
    while (request) {
        struct request *following = request->following;
        if (!request->finished)
            enqueue(channel, request);
        else if (request != own)
            give_turn(request, TURN_FINISHED, to_wake);
        request = following;
    }
}

static uint64_t earliest_deadline_ms(const struct channel *channel)
{
    uint64_t earliest_ms = UINT64_MAX;
    for (const struct request *request = channel->first; request; request = request->following)
        if (request->deadline_ms < earliest_ms)
            earliest_ms = request->deadline_ms;
    return earliest_ms;
}

/* Stops the requests whose time is over. */
static void expire(struct channel *channel)
{
    for (struct request *request = channel->first; request; request = request->following)
        if (!request->finished && settings_time_is_over(channel->settings, request->deadline_ms))
            round_expire(&channel->round, &channel->connection, request);
}

/* Stops all requests, of which nothing is on its way. */
static void stop_all(struct channel *channel, enum kv_status status, const struct kv_error *error)
{
    for (struct request *request = channel->first; request; request = request->following) {
        if (request->finished)
            continue;
        *request->error = *error;
        request_stop(request, status, status);
    }
}

/* The connection can not be had: the requests whose time is over, or all, are stopped. */
static void no_connection(struct channel *channel, enum kv_status status,
                          const struct kv_error *error)
{
    bool may_come = status == KV_NO_SERVER && !channel->settings->fail_fast;
    if (!may_come && status != KV_TIMEOUT) {
        stop_all(channel, status, error);
        return;
    }
    for (struct request *request = channel->first; request; request = request->following) {
        if (!settings_time_is_over(channel->settings, request->deadline_ms))
            continue;
        *request->error = *error;
        request_stop(request, status, status == KV_TIMEOUT ? KV_DEADLINE : status);
    }
}

/* What stopped the message that was on its way, or that was to be packed. */
static void message_failed(struct channel *channel, enum kv_status status)
{
    if (status == KV_TIMEOUT) {
        expire(channel);
        return;
    }
    round_lost(&channel->round, channel->settings->repeat_writes);
    disconnect(channel, status != KV_NO_SERVER);
    if (status != KV_NO_SERVER && status != KV_NO_SESSION) {
        struct kv_error error;
        kv_error_set(&error, status, "the conversation with the server of %s failed: %s",
                     channel->settings->queue, kv_status_text(status));
        stop_all(channel, status, &error);
    }
}

/* Packs a message if none is on its way. round->in_flight then tells whether there was one to pack. */
static enum kv_status prepare_message(struct channel *channel, uint64_t deadline_ms)
{
    struct round *round = &channel->round;
    if (round->in_flight)
        return KV_OK;
    enum kv_status status = round_pack(round, &channel->connection, channel->first, deadline_ms);
    if (status != KV_OK)
        return status;
    if (round->in_flight) {
        count(&channel->messages, 1);
        count(&channel->operations, round->batch.count);
    }
    return KV_OK;
}

/* Puts the first request behind the others: it had its share of a message, and must not have the next
 * ones all for itself if it is a long one. */
static void rotate(struct channel *channel)
{
    struct request *first = channel->first;
    if (!first->following)
        return;
    channel->first = first->following;
    channel->request_count--;
    enqueue(channel, first);
}

/* Gives those that were just served a moment to come back. Polling is what `--spin off` forbids, and does
 * harm where yields go to other programs. */
static void await_company(struct channel *channel)
{
    uint64_t patience_ns = company_patience_ns(&channel->company, channel->request_count);
    if (patience_ns == 0 || channel->settings->spin.mode == WIRE_SPIN_OFF ||
        wire_yielding_is_muted())
        return;
    uint64_t until_ns = clock_monotonic_ns() + patience_ns;
    do {
        sched_yield();
        collect_arrivals(channel);
    } while (channel->request_count < channel->company.expected && clock_monotonic_ns() < until_ns);
}

/* Sends the message that was packed, or goes on with it, until it is answered. */
static enum kv_status see_through(struct channel *channel, uint64_t deadline_ms)
{
    struct round *round = &channel->round;
    bool timed = company_matters(&channel->company, channel->request_count);
    uint64_t began_ns = timed ? clock_monotonic_ns() : 0;
    enum kv_status status = round_complete(round, &channel->connection, deadline_ms);
    if (status != KV_OK)
        return status; /* which is not that of requests that come now */
    collect_arrivals(channel);
    company_note(&channel->company, round->full ? round->part_count : channel->request_count,
                 timed ? clock_monotonic_ns() - began_ns : 0);
    return status;
}

/* Packs a message, if none is on its way, and sees it through, until the earliest deadline. */
static void advance(struct channel *channel)
{
    uint64_t deadline_ms = earliest_deadline_ms(channel);
    struct kv_error error;
    enum kv_status status =
        channel->round.in_flight ? KV_OK : channel_connect(channel, deadline_ms, &error);
    if (status != KV_OK) {
        no_connection(channel, status, &error);
        return;
    }
    status = prepare_message(channel, deadline_ms);
    if (status == KV_OK && channel->round.in_flight)
        status = see_through(channel, deadline_ms);
    if (status == KV_OK)
        rotate(channel);
    else
        message_failed(channel, status);
}

/* Passes the lead to the next in the list, or to whoever comes, and wakes those on the list. */
static void pass_lead(struct channel *channel, struct wake_list *to_wake)
{
    do {
        collect_arrivals(channel);
        if (channel->first) {
            give_turn(channel->first, TURN_TO_LEAD, to_wake);
            break;
        }
        atomic_store(&channel->led, 0);
        /* Who came between the two steps above found the channel led, and waits to be seen. */
    } while (atomic_load(&channel->arrivals) && try_lead(channel));
    wake(channel, to_wake);
}

static void lead(struct channel *channel, struct request *own)
{
    struct wake_list to_wake = {.any = false};
    while (!own->finished) {
        wake(channel, &to_wake);
        collect_arrivals(channel);
        if (!channel->round.in_flight)
            await_company(channel);
        advance(channel);
        dismiss_finished(channel, own, &to_wake);
    }
    pass_lead(channel, &to_wake);
}

/* Following --------------------------------------------------------------------------------- */

static void arrive(struct channel *channel, struct request *request)
{
    struct request *top = atomic_load_explicit(&channel->arrivals, memory_order_relaxed);
    do
        request->following = top;
    while (!atomic_compare_exchange_weak(&channel->arrivals, &top, request));
}

/* A wire_attempt: 1 once the leader has said something. */
static ssize_t look_at_turn(void *context)
{
    struct request *request = context;
    return atomic_load_explicit(&request->turn, memory_order_acquire) != TURN_WAITING;
}

/* Sleeps until the leader has said something. The word is read before the turn is looked at: when the
 * leader changes the turn after that, it changes the word too, and the kernel sees it. */
static void sleep_for_turn(struct channel *channel, struct request *request)
{
    _Atomic uint32_t *wakes = &channel->wakes[word_of(request->sleeper)];
    uint32_t seen = atomic_load(wakes);
    uint32_t turn = TURN_WAITING;
    if (!atomic_compare_exchange_strong(&request->turn, &turn, TURN_SLEEPING))
        return;
    while (atomic_load(&request->turn) == TURN_SLEEPING) {
        syscall(SYS_futex, wakes, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL,
                bit_of(request->sleeper));
        seen = atomic_load(wakes);
    }
}

/* Waits until the leader has finished the request, or made its thread the leader. */
static enum request_turn await_turn(struct channel *channel, struct request *request,
                                    struct wire_waiter *waiter)
{
    if (wire_wait(waiter, look_at_turn, request) == 0)
        sleep_for_turn(channel, request);
    return (enum request_turn)atomic_load(&request->turn);
}

enum kv_status channel_execute(struct channel *channel, struct request *request,
                               struct wire_waiter *waiter)
{
    atomic_init(&request->turn, TURN_WAITING);
    if (try_lead(channel)) {
        enqueue(channel, request);
        lead(channel, request);
        return request->status;
    }
    arrive(channel, request);
    if (try_lead(channel) || await_turn(channel, request, waiter) == TURN_TO_LEAD)
        lead(channel, request);
    return request->status;
}

void channel_retire(struct channel *channel)
{
    if (!try_lead(channel))
        return;
    if (channel->connection.open && !channel->first)
        disconnect(channel, true);
    struct wake_list nobody = {.any = false};
    pass_lead(channel, &nobody);
}
