#include "clientk/pipeline/event_loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clientk/base/last_error.h"
#include "clientk/message/translate.h"
#include "clientk/session/connect.h"
#include "clientk/session/segment_growth.h"
#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"

/* How often to look for what no descriptor tells: the end of a server without a pidfd, or of its
 * queue before it has answered; and the program's wish to interrupt. */
#define LOOK_EVERY_MS  100u
/* How far the coarse clock may be behind the timer. */
#define COARSE_LAG_MS  10u
#define FLUSH_SLICE_MS 1000
#define EVENTS_AT_ONCE 4
#define NEVER_MS       UINT64_MAX

struct event_loop {
    int epoll, timer;
    uint64_t armed_ms;              /* when the timer fires; 0: it does not */
    struct session_attempt attempt; /* to connect; phase SESSION_TO_BEGIN: none is under way */
    uint64_t retry_ms;              /* when the next attempt may begin */
    enum kv_status connect_status;  /* of the last attempt, with its sentence */
    struct kv_error connect_error;
    struct segment_offer offer; /* under way if it has a segment; then nothing is in flight */
    bool in_fragments;          /* the only message in flight is one in fragments */
};

/* Opening and freeing ------------------------------------------------------------------------ */

static void free_event_loop(struct event_loop *events)
{
    if (events->timer >= 0)
        close(events->timer);
    if (events->epoll >= 0)
        close(events->epoll);
    free(events);
}

/* Makes the epoll set with its timer. NULL with errno. */
static struct event_loop *new_event_loop(void)
{
    struct event_loop *events = calloc(1, sizeof *events);
    if (!events)
        return NULL;
    events->epoll = epoll_create1(EPOLL_CLOEXEC);
    events->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = events->timer};
    if (events->epoll >= 0 && events->timer >= 0 &&
        epoll_ctl(events->epoll, EPOLL_CTL_ADD, events->timer, &event) == 0)
        return events;
    int failure = errno;
    free_event_loop(events);
    errno = failure;
    return NULL;
}

/* Replaces a session with a ring, which has no descriptor that tells of messages, by one with a
 * reply queue. */
static enum kv_status leave_ring(struct clientk_pipeline *pipeline, struct kv_error *error)
{
    struct window *window = &pipeline->window;
    struct connection *connection = &window->connection;
    if (!connection->ring)
        return KV_OK;
    pipeline->filling = NULL; /* it is empty */
    connection_close(connection, true);
    uint64_t deadline_ms = clock_monotonic_coarse_ms() + pipeline->settings.timeout_ms;
    enum kv_status status = connection_open(connection, deadline_ms, error);
    unsigned credits = connection->welcome.credits;
    if (status == KV_OK && window->limit > credits && !window_set_limit(window, credits))
        status = kv_error_set(error, KV_NO_MEMORY, "no memory for a pipeline");
    return status;
}

enum kv_status event_loop_open(struct clientk_pipeline *pipeline, struct kv_error *error)
{
    if (pipeline->events)
        return KV_OK;
    struct connection *connection = &pipeline->window.connection;
    pipeline->events = new_event_loop();
    if (pipeline->events) {
        connection->epoll = pipeline->events->epoll;
        wire_waiter_init(&connection->waiter, (struct wire_spin){.mode = WIRE_SPIN_OFF});
        enum kv_status status = leave_ring(pipeline, error);
        if (status == KV_OK && connection_join_epoll(connection))
            return KV_OK;
        if (status != KV_OK) {
            event_loop_free(pipeline, true);
            return status;
        }
    }
    int failure = errno;
    kv_error_set_errno(error, "cannot watch the queues of a pipeline");
    event_loop_free(pipeline, true);
    bool is_limit = failure == EMFILE || failure == ENFILE || failure == ENOSPC;
    error->status = is_limit ? KV_LIMIT : failure == ENOMEM ? KV_NO_MEMORY : KV_IO;
    return error->status;
}

void event_loop_free(struct clientk_pipeline *pipeline, bool say_goodbye)
{
    struct event_loop *events = pipeline->events;
    struct connection *connection = &pipeline->window.connection;
    if (!events)
        return;
    if (!say_goodbye)
        connection->epoll = -1;
    else if (events->attempt.phase != SESSION_TO_BEGIN)
        session_attempt_drop(connection, &events->attempt);
    if (say_goodbye)
        segment_offer_drop(&events->offer);
    round_trip_free(&events->attempt.round_trip);
    connection_close(connection, say_goodbye);
    connection->epoll = -1;
    free_event_loop(events);
    pipeline->events = NULL;
}

int event_loop_descriptor(const struct clientk_pipeline *pipeline)
{
    return pipeline->events->epoll;
}

/* What cannot continue ----------------------------------------------------------------------- */

/* Stops the tasks that are due now, but not those that `complete` submits meanwhile. */
static void stop_due_tasks(struct clientk_pipeline *pipeline, enum kv_status status)
{
    size_t count = 0;
    for (const struct task *task = pipeline->due.first; task; task = task->next)
        count++;
    while (count-- > 0)
        task_stop(task_queue_pop(&pipeline->due), status);
}

static void loop_lose_session(struct clientk_pipeline *pipeline, bool say_goodbye)
{
    window_lose(&pipeline->window, say_goodbye);
    pipeline->filling = NULL;
}

/* Why a due task has not been sent; the thread's last error explains that. open: the session is. */
static enum kv_status explain_delay(const struct event_loop *events, bool open)
{
    if (open || events->connect_status == KV_OK || events->connect_status == KV_TIMEOUT)
        return KV_DEADLINE;
    struct kv_error *error = last_error_of_thread();
    *error = events->connect_error;
    error->status = events->connect_status == KV_NO_SESSION ? KV_DEADLINE : events->connect_status;
    return error->status;
}

/* Connecting --------------------------------------------------------------------------------- */

/* Notes that an attempt has failed; stops the due tasks if the reason will not pass. */
static void connect_failed(struct clientk_pipeline *pipeline, enum kv_status status)
{
    struct event_loop *events = pipeline->events;
    const struct connection *connection = &pipeline->window.connection;
    events->connect_status = status;
    events->retry_ms = clock_monotonic_coarse_ms() + connection->backoff_ms;
    /* The kernel gives back the bytes of queues that were just closed a moment later. */
    if (session_failure_may_pass(connection, status) || status == KV_LIMIT)
        return;
    *last_error_of_thread() = events->connect_error;
    stop_due_tasks(pipeline, status == KV_TIMEOUT ? KV_DEADLINE : status);
}

/* Continues an attempt to connect, or begins one if tasks are due. ended: the server of the attempt
 * has ended. */
static void continue_connecting(struct clientk_pipeline *pipeline, bool ended)
{
    struct event_loop *events = pipeline->events;
    struct window *window = &pipeline->window;
    bool is_under_way = events->attempt.phase != SESSION_TO_BEGIN;
    KV_ASSERT(!(is_under_way && window->connection.open) && !(is_under_way && window->in_flight));
    if (window->connection.open ||
        (!is_under_way && (!pipeline->due.first || clock_monotonic_coarse_ms() < events->retry_ms)))
        return;
    enum kv_status status =
        session_attempt_continue(&window->connection, &events->attempt, &events->connect_error);
    if (status == KV_OK && events->attempt.waits && is_under_way && ended) {
        session_attempt_drop(&window->connection, &events->attempt);
        status =
            kv_error_set(&events->connect_error, KV_NO_SERVER,
                         "the server of %s ended during the handshake", pipeline->settings.queue);
    }
    if (status != KV_OK) {
        connect_failed(pipeline, status);
    } else if (window->connection.open) {
        events->connect_status = KV_OK;
        uint64_t reconnects = atomic_load_explicit(&window->reconnects, memory_order_relaxed);
        atomic_store_explicit(&window->reconnects, reconnects + 1, memory_order_relaxed);
    }
}

/* The segment -------------------------------------------------------------------------------- */

/* Continues the offer of a segment. ended: the server has ended. */
static void continue_growing(struct clientk_pipeline *pipeline, bool ended)
{
    struct event_loop *events = pipeline->events;
    if (!events->offer.segment)
        return;
    enum kv_status status = segment_offer_continue(&pipeline->window.connection, &events->offer, 0);
    if (status == KV_OK || (status == KV_TIMEOUT && events->offer.segment && !ended))
        return;
    segment_offer_drop(&events->offer);
    loop_lose_session(pipeline, status != KV_NO_SERVER && !ended);
}

/* Begins to make the segment as large as the message, which is empty, needs it. False: that is
 * under way, or the connection is lost. */
static bool begin_to_grow(struct clientk_pipeline *pipeline, const struct inflight_message *message)
{
    struct window *window = &pipeline->window;
    uint64_t share_bytes = (message->request.needed_bytes + 7) & ~(uint64_t)7;
    uint64_t deadline_ms = clock_monotonic_coarse_ms() + pipeline->settings.timeout_ms;
    if (!segment_offer_begin(&window->connection, share_bytes * window->limit, deadline_ms,
                             &pipeline->events->offer))
        return true;
    continue_growing(pipeline, false);
    return !pipeline->events->offer.segment && window->connection.open; /* answered at once */
}

/* Packing and sending ------------------------------------------------------------------------ */

/* Returns true if a message may begin. Replaces a suspect session as soon as nothing is in
 * flight. */
static bool may_begin_message(struct clientk_pipeline *pipeline)
{
    struct event_loop *events = pipeline->events;
    struct connection *connection = &pipeline->window.connection;
    KV_ASSERT(!events->offer.segment || pipeline->window.in_flight == 0);
    if (!connection->open || events->offer.segment)
        return false;
    if (pipeline->window.in_flight > 0)
        return !connection->suspect && !events->in_fragments;
    events->in_fragments = false;
    if (connection_usable(connection))
        return true;
    loop_lose_session(pipeline, !connection_server_gone(connection));
    return false;
}

/* Provides pipeline->filling. False: that is impossible now. */
static bool loop_begin_filling(struct clientk_pipeline *pipeline)
{
    if (pipeline->filling && pipeline->filling->request.count > 0)
        return true;
    pipeline->filling = NULL;
    if (!may_begin_message(pipeline))
        return false;
    struct inflight_message *idle = window_idle_message(&pipeline->window);
    if (!idle)
        return false;
    if (!window_begin(&pipeline->window, idle)) {
        stop_due_tasks(pipeline, KV_NO_MEMORY);
        return false;
    }
    pipeline->filling = idle;
    return true;
}

/* Sends the message that is being filled. False: that is impossible now. */
static bool loop_send_filling(struct clientk_pipeline *pipeline)
{
    struct window *window = &pipeline->window;
    struct inflight_message *message = pipeline->filling;
    if (!message || message->request.count == 0)
        return true;
    bool in_fragments = message->request.in_fragments;
    /* Fragments of two messages must not be in flight at once. */
    if (window->in_flight > 0 && (in_fragments || !may_begin_message(pipeline)))
        return false;
    if (window->in_flight == 0 && !may_begin_message(pipeline))
        return false;
    KV_ASSERT(!pipeline->events->offer.segment);
    pipeline->filling = NULL;
    pipeline->events->in_fragments = in_fragments;
    message->deadline_ms = clock_monotonic_coarse_ms() + pipeline->settings.timeout_ms;
    enum kv_status status = window_send(window, message, 0);
    if (status == KV_NO_MEMORY && window->connection.open)
        stop_due_tasks(pipeline, KV_NO_MEMORY);
    return status == KV_OK || status == KV_TIMEOUT;
}

void event_loop_send(struct clientk_pipeline *pipeline)
{
    loop_send_filling(pipeline);
}

/* Packs due tasks into a message. False: no more can be packed now. */
static bool loop_pack_message(struct clientk_pipeline *pipeline)
{
    struct inflight_message *message = pipeline->filling;
    uint32_t limit = pipeline->batch_limit;
    switch (window_fill(&pipeline->window, message, &pipeline->due, limit)) {
    case FILL_ALL:
        return limit > 0 && message->request.count >= limit && loop_send_filling(pipeline);
    case FILL_FULL:
        return loop_send_filling(pipeline);
    case FILL_WAITS:
        return false;
    case FILL_SEGMENT:
        pipeline->filling = NULL;
        return pipeline->window.in_flight == 0 && begin_to_grow(pipeline, message);
    case FILL_NO_MEMORY:
        break;
    }
    stop_due_tasks(pipeline, KV_NO_MEMORY);
    return false;
}

/* Packs the due tasks, as far as that goes now. */
static void loop_pack_due(struct clientk_pipeline *pipeline)
{
    bool more = true;
    while (more && pipeline->due.first)
        more = loop_begin_filling(pipeline) && loop_pack_message(pipeline);
}

/* Returns the due task whose key and value are borrowed still; NULL: there is none. It need not be
 * the last one: if the connection is lost while it is packed, other tasks are due before it, with
 * copies, and those that `complete` submits then come behind it. */
static struct task *find_lent(const struct clientk_pipeline *pipeline)
{
    struct task *task = pipeline->due.first;
    while (task && task->own_bytes)
        task = task->next;
    return task;
}

enum kv_status event_loop_submit(struct clientk_pipeline *pipeline,
                                 const struct wire_operation *operation, void *tag)
{
    const struct connection *connection = &pipeline->window.connection;
    enum kv_status status = translate_check(
        operation, connection->open ? connection->welcome.max_value_bytes : UINT64_MAX);
    if (status != KV_OK)
        return status;
    struct task *task = pipeline_take_task(pipeline);
    if (!task)
        return KV_NO_MEMORY;
    *task =
        (struct task){.queue = &pipeline->due,
                      .operation = *operation,
                      .target = tag,
                      .deadline_ms = clock_monotonic_coarse_ms() + pipeline->settings.timeout_ms};
    bool may_pack = !pipeline->due.first && !pipeline->completing;
    task_queue_push(&pipeline->due, task);
    if (may_pack) {
        loop_pack_due(pipeline); /* a packed task needs no copy */
        task = find_lent(pipeline);
    }
    if (!task || task_own_bytes(task))
        return KV_OK;
    pipeline_take_back(pipeline, task);
    return KV_NO_MEMORY;
}

/* Events ------------------------------------------------------------------------------------- */

static bool is_connecting(const struct event_loop *events)
{
    return events->attempt.phase != SESSION_TO_BEGIN;
}

/* Returns true if the server must send something. */
static bool loop_is_waiting(const struct clientk_pipeline *pipeline)
{
    return pipeline->window.in_flight > 0 || pipeline->events->offer.segment ||
           is_connecting(pipeline->events);
}

/* Takes in the events. True: the server has ended, though it may have answered before. */
static bool loop_take_events(struct clientk_pipeline *pipeline)
{
    struct event_loop *events = pipeline->events;
    const struct connection *connection = &pipeline->window.connection;
    struct epoll_event happened[EVENTS_AT_ONCE];
    bool ended = false;
    int count = epoll_wait(events->epoll, happened, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        uint64_t expirations;
        if (happened[i].data.fd == events->timer &&
            read(events->timer, &expirations, sizeof expirations) > 0)
            events->armed_ms = 0;
        ended |= happened[i].data.fd == connection->pidfd;
    }
    if (connection->pidfd < 0 && loop_is_waiting(pipeline))
        ended |= connection_server_gone(connection);
    return ended;
}

/* Takes in what the server has sent: no more messages than can be in flight, so that a server that
 * answers at once leaves the program time for its other descriptors. ended: the server has
 * ended. */
static void loop_receive(struct clientk_pipeline *pipeline, bool ended)
{
    struct window *window = &pipeline->window;
    enum kv_status status = KV_OK;
    for (unsigned i = 0; i <= window->limit && status == KV_OK && window->connection.open; i++)
        status = window_poll(window);
    if (status != KV_OK && status != KV_TIMEOUT)
        pipeline->filling = NULL; /* the connection is lost, and its tasks are due again */
    else if (window->connection.open &&
             ((status == KV_TIMEOUT && ended) || connection_stays_filled(&window->connection)))
        loop_lose_session(pipeline, false);
}

/* When there is something to do even if nothing comes. */
static uint64_t next_time_ms(const struct clientk_pipeline *pipeline)
{
    const struct event_loop *events = pipeline->events;
    const struct window *window = &pipeline->window;
    const struct connection *connection = &window->connection;
    uint64_t now_ms = clock_monotonic_coarse_ms(), next_ms = NEVER_MS;
    for (unsigned i = 0; i < window->limit; i++)
        if (window->messages[i].in_flight && window->messages[i].deadline_ms < next_ms)
            next_ms = window->messages[i].deadline_ms;
    if (pipeline->due.first && pipeline->due.first->deadline_ms < next_ms)
        next_ms = pipeline->due.first->deadline_ms;
    if (pipeline->due.first && !connection->open && !is_connecting(events) &&
        events->retry_ms < next_ms)
        next_ms = events->retry_ms;
    if (events->offer.segment && events->offer.deadline_ms < next_ms)
        next_ms = events->offer.deadline_ms;
    bool must_look = is_connecting(events) || connection->filled_ms > 0 || connection->pidfd < 0 ||
                     pipeline->settings.interrupted;
    if (must_look && loop_is_waiting(pipeline) && now_ms + LOOK_EVERY_MS < next_ms)
        next_ms = now_ms + LOOK_EVERY_MS;
    return next_ms;
}

/* Lets the timer fire at next_ms; it may fire too early, which costs little, but never too late. */
static void arm_timer(struct event_loop *events, uint64_t next_ms)
{
    if (next_ms == NEVER_MS ||
        (events->armed_ms != 0 && events->armed_ms <= next_ms + COARSE_LAG_MS))
        return;
    events->armed_ms = next_ms + COARSE_LAG_MS;
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(events->armed_ms / 1000),
                                           .tv_nsec = (long)(events->armed_ms % 1000) * 1000000}};
    timerfd_settime(events->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

enum kv_status event_loop_run(struct clientk_pipeline *pipeline)
{
    KV_ASSERT(!pipeline->completing && pipeline->events);
    bool ended = loop_take_events(pipeline);
    bool was_open = pipeline->window.connection.open;
    if (pipeline->events->offer.segment)
        continue_growing(pipeline, ended);
    else if (was_open)
        loop_receive(pipeline, ended);
    if (pipeline->window.in_flight > 0)
        window_give_up(&pipeline->window, NULL);
    uint64_t now_ms = clock_monotonic_coarse_ms();
    while (pipeline->due.first && pipeline->due.first->deadline_ms <= now_ms)
        task_stop(task_queue_pop(&pipeline->due),
                  explain_delay(pipeline->events, pipeline->window.connection.open));
    continue_connecting(pipeline, ended && !was_open);
    loop_pack_due(pipeline);
    loop_send_filling(pipeline);
    /* A connection that was lost meanwhile is opened again now: there may be no next event. */
    if (!pipeline->window.connection.open && !is_connecting(pipeline->events)) {
        continue_connecting(pipeline, false);
        loop_pack_due(pipeline);
        loop_send_filling(pipeline);
    }
    bool joined = connection_join_epoll(&pipeline->window.connection);
    int failure = errno;
    arm_timer(pipeline->events, next_time_ms(pipeline));
    if (joined)
        return KV_OK;
    return kv_error_set(last_error_of_thread(), failure == ENOSPC ? KV_LIMIT : KV_NO_MEMORY,
                        "cannot watch the queues of a pipeline");
}

void event_loop_wake(struct clientk_pipeline *pipeline)
{
    arm_timer(pipeline->events, clock_monotonic_coarse_ms());
}

void event_loop_flush(struct clientk_pipeline *pipeline)
{
    event_loop_run(pipeline);
    while (pipeline->pending > 0) {
        struct pollfd ready = {.fd = pipeline->events->epoll, .events = POLLIN};
        poll(&ready, 1, FLUSH_SLICE_MS);
        event_loop_run(pipeline);
    }
}
