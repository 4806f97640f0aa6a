#include "clientk/combining/combiner.h"

#include <sched.h>

#include "clientk/message/translate.h"
#include "clientk/session/reply_path.h"
#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"

/* What holds while a thread leads; for assertions. */
static bool list_is_consistent(const struct combiner *combiner)
{
    unsigned count = 0;
    const struct call *last = NULL;
    for (const struct call *call = combiner->first; call; call = call->following) {
        last = call;
        count++;
    }
    return count == combiner->call_count && last == combiner->last &&
           atomic_load(&combiner->led) == 1;
}

bool combiner_init(struct combiner *combiner, const struct client_settings *settings,
                   struct direct *direct)
{
    *combiner = (struct combiner){.settings = settings, .direct = direct};
    pthread_mutex_init(&combiner->facts_lock, NULL);
    return window_init(&combiner->window, settings, wire_reply_ladder, 1);
}

void combiner_free(struct combiner *combiner, bool say_goodbye)
{
    direct_telling_tell(&combiner->direct->telling, &combiner->direct->readers);
    window_free(&combiner->window, say_goodbye);
    pthread_mutex_destroy(&combiner->facts_lock);
}

/* Connecting -------------------------------------------------------------------------------- */

static void combiner_disconnect(struct combiner *combiner, bool say_goodbye)
{
    direct_telling_leave(&combiner->direct->telling, &combiner->listener);
    window_lose(&combiner->window, say_goodbye);
    atomic_store_explicit(&combiner->connected, false, memory_order_relaxed);
}

/* Tells clientk_info and the direct reads of the new session. */
static void publish_facts(struct combiner *combiner)
{
    const struct connection *connection = &combiner->window.connection;
    const struct wire_welcome *welcome = &connection->welcome;
    pthread_mutex_lock(&combiner->facts_lock);
    combiner->facts =
        (struct clientk_info){.server_pid = welcome->server_pid,
                              .max_value_bytes = welcome->max_value_bytes,
                              .reply_depth = connection->reply_geometry.depth,
                              .reply_bytes = connection->reply_geometry.message_bytes,
                              .lane_bytes = welcome->lane_bytes,
                              .bulk_bytes = welcome->bulk_bytes,
                              .read_only = (welcome->flags & WIRE_WELCOME_READ_ONLY) != 0,
                              .in_cluster = (welcome->flags & WIRE_WELCOME_NETWORK) != 0,
                              .replies = connection->ring ? "shared" : "queue",
                              .replies_reason = ring_hindrance_explain(connection->hindrance)};
    pthread_mutex_unlock(&combiner->facts_lock);
    atomic_store_explicit(&combiner->connected, true, memory_order_relaxed);
    struct direct_server server = {.fd = connection->pidfd};
    if (server.fd < 0)
        server = (struct direct_server){.fd = (int)connection->lane, .is_lane = true};
    direct_welcome(combiner->direct, welcome, connection->server_uid, server);
    direct_telling_join(&combiner->direct->telling, &combiner->listener,
                        connection->ring ? (int)connection->reply_queue : -1);
}

enum kv_status combiner_connect(struct combiner *combiner, uint64_t deadline_ms,
                                struct kv_error *error)
{
    uint32_t handshakes = combiner->window.connection.handshakes;
    enum kv_status status = window_connect(&combiner->window, deadline_ms, error);
    if (combiner->window.connection.handshakes != handshakes)
        publish_facts(combiner);
    else if (status != KV_OK)
        combiner_disconnect(combiner, false);
    return status;
}

void combiner_add_info(struct combiner *combiner, struct clientk_info *info)
{
    window_add_info(&combiner->window, info);
    info->sessions += atomic_load_explicit(&combiner->connected, memory_order_relaxed);
    pthread_mutex_lock(&combiner->facts_lock);
    if (info->reply_depth == 0) {
        info->server_pid = combiner->facts.server_pid;
        info->max_value_bytes = combiner->facts.max_value_bytes;
        info->reply_depth = combiner->facts.reply_depth;
        info->reply_bytes = combiner->facts.reply_bytes;
        info->lane_bytes = combiner->facts.lane_bytes;
        info->bulk_bytes = combiner->facts.bulk_bytes;
        info->replies = combiner->facts.replies;
        info->replies_reason = combiner->facts.replies_reason;
        info->read_only = combiner->facts.read_only;
        info->in_cluster = combiner->facts.in_cluster;
    }
    pthread_mutex_unlock(&combiner->facts_lock);
}

/* A call ------------------------------------------------------------------------------------ */

void call_complete_task(struct task_queue *queue, struct task *task, const struct outcome *outcome)
{
    struct call *call = (struct call *)queue;
    struct clientk_result *result = task->target;
    KV_ASSERT(call->unfinished > 0);
    call->unfinished--;
    if (outcome->result) {
        translate_result(outcome->result, outcome->values,
                         operation_gives_value(task->operation.opcode), result);
        return;
    }
    result_clear(result, outcome->status);
    if (call->status == KV_OK || outcome->status == KV_OUTCOME_UNKNOWN)
        call->status = outcome->status;
    if (outcome->sentence.size > 0 && call->status == outcome->status)
        kv_error_set(call->error, outcome->status, "server refused: %.*s",
                     (int)outcome->sentence.size, (const char *)outcome->sentence.data);
}

void call_stop(struct call *call, enum kv_status status, enum kv_status status_of_rest)
{
    if (call_finished(call))
        return;
    if (call->status == KV_OK)
        call->status = status;
    task_queue_stop(&call->queue, status_of_rest);
}

/* Leading ----------------------------------------------------------------------------------- */

/* Takes the lead if no thread has it. The word must not be read before the call is on the list of
 * arrivals, as a relaxed load may be on a CPU that reorders more than x86: a leader that found the
 * list empty and stepped down could still be seen as leading, and no thread would lead. */
static bool try_lead(struct combiner *combiner)
{
    uint32_t nobody = 0;
    return atomic_load(&combiner->led) == 0 &&
           atomic_compare_exchange_strong(&combiner->led, &nobody, 1);
}

static void append_call(struct combiner *combiner, struct call *call)
{
    call->following = NULL;
    if (combiner->last)
        combiner->last->following = call;
    else
        combiner->first = call;
    combiner->last = call;
    combiner->call_count++;
}

/* Moves the arrivals to the list, in the order in which they came. */
static void collect_arrivals(struct combiner *combiner)
{
    if (!atomic_load_explicit(&combiner->arrivals, memory_order_relaxed))
        return;
    struct call *stack = atomic_exchange(&combiner->arrivals, NULL);
    struct call *in_order = NULL;
    while (stack) {
        struct call *below = stack->following;
        stack->following = in_order;
        in_order = stack;
        stack = below;
    }
    while (in_order) {
        struct call *following = in_order->following;
        append_call(combiner, in_order);
        in_order = following;
    }
}

/* Takes finished calls off the list and releases their threads. */
static void dismiss_finished(struct combiner *combiner, const struct call *own,
                             struct wake_list *to_wake)
{
    struct call *call = combiner->first;
    combiner->first = NULL;
    combiner->last = NULL;
    combiner->call_count = 0;
    while (call) {
        struct call *following = call->following;
        if (!call_finished(call))
            append_call(combiner, call);
        else if (call != own)
            turn_give(&call->turn, TURN_FINISHED, to_wake);
        call = following;
    }
    KV_ASSERT(list_is_consistent(combiner));
}

static uint64_t earliest_deadline_ms(const struct combiner *combiner)
{
    uint64_t earliest_ms = UINT64_MAX;
    for (const struct call *call = combiner->first; call; call = call->following)
        if (call->deadline_ms < earliest_ms)
            earliest_ms = call->deadline_ms;
    return earliest_ms;
}

/* Stops the calls whose deadline has passed. */
static void expire_calls(struct combiner *combiner)
{
    for (struct call *call = combiner->first; call; call = call->following) {
        if (call_finished(call) ||
            !client_settings_time_is_over(combiner->settings, call->deadline_ms))
            continue;
        window_give_up(&combiner->window, &call->queue);
        call_stop(call, KV_DEADLINE, KV_DEADLINE);
    }
}

/* Stops all calls. Nothing may be in flight. */
static void stop_all(struct combiner *combiner, enum kv_status status, const struct kv_error *error)
{
    KV_ASSERT(combiner->window.in_flight == 0);
    for (struct call *call = combiner->first; call; call = call->following) {
        if (call_finished(call))
            continue;
        *call->error = *error;
        call_stop(call, status, status);
    }
}

/* Deals with the `status` of an attempt to connect: stops the calls whose deadline has passed, or,
 * if the reason will not pass, all. */
static void connecting_failed(struct combiner *combiner, enum kv_status status,
                              const struct kv_error *error)
{
    bool may_pass = status == KV_NO_SERVER && !combiner->settings->fail_fast;
    if (!may_pass && status != KV_TIMEOUT) {
        stop_all(combiner, status, error);
        return;
    }
    for (struct call *call = combiner->first; call; call = call->following) {
        if (!client_settings_time_is_over(combiner->settings, call->deadline_ms))
            continue;
        *call->error = *error;
        call_stop(call, status, status == KV_TIMEOUT ? KV_DEADLINE : status);
    }
}

/* Deals with the `status` that stopped the message in flight, or the one that was to be packed. */
static void message_failed(struct combiner *combiner, enum kv_status status)
{
    if (status == KV_TIMEOUT) {
        expire_calls(combiner);
        return;
    }
    combiner_disconnect(combiner, true); /* unless the window did that already */
    if (status == KV_NO_SERVER || status == KV_NO_SESSION) {
        expire_calls(
            combiner); /* else a server that welcomes and then ends would be met for ever */
        return;
    }
    struct kv_error error;
    kv_error_set(&error, status, "the conversation with the server of %s failed: %s",
                 combiner->settings->queue, kv_status_text(status));
    stop_all(combiner, status, &error);
}

/* Stops the due tasks of calls that were stopped in part. */
static void stop_rest_of_stopped_calls(struct combiner *combiner)
{
    for (struct call *call = combiner->first; call; call = call->following) {
        enum kv_status status = call->status;
        if (status == KV_OUTCOME_UNKNOWN)
            status = KV_NO_SERVER;
        else if (status == KV_TIMEOUT)
            status = KV_DEADLINE;
        if (status != KV_OK)
            task_queue_stop(&call->queue, status);
    }
}

/* Fills the message with tasks of the calls, in their order. */
static enum fill_verdict fill_from_calls(struct combiner *combiner,
                                         struct inflight_message *message)
{
    KV_ASSERT(combiner->window.in_flight == 0 && list_is_consistent(combiner));
    combiner->packed_calls = 0;
    message->deadline_ms = 0;
    for (struct call *call = combiner->first; call; call = call->following) {
        uint32_t packed_before = message->request.count;
        enum fill_verdict verdict = window_fill(&combiner->window, message, &call->queue, 0);
        if (message->request.count > packed_before) {
            call->sent = true;
            combiner->packed_calls++;
            /* The latest deadline: until then some call waits for a part of the message. */
            if (call->deadline_ms > message->deadline_ms)
                message->deadline_ms = call->deadline_ms;
        }
        if (verdict != FILL_ALL)
            return verdict;
    }
    return FILL_ALL;
}

/* Packs a message, which stays empty if no call needs one; lets the segment grow, until
 * deadline_ms, if that is necessary. */
static enum kv_status pack_calls(struct combiner *combiner, struct inflight_message *message,
                                 uint64_t deadline_ms)
{
    struct window *window = &combiner->window;
    for (;;) {
        if (!window_begin(window, message))
            return KV_NO_MEMORY;
        enum fill_verdict verdict = fill_from_calls(combiner, message);
        if (verdict == FILL_NO_MEMORY)
            return KV_NO_MEMORY;
        combiner->packed_full = verdict == FILL_FULL;
        if (verdict != FILL_SEGMENT)
            return KV_OK;
        enum kv_status status = window_grow(window, message, deadline_ms);
        if (status != KV_OK)
            return status;
    }
}

/* Gives the threads that were just served a moment to come back (linger.h). `--spin off` forbids
 * polling, and if yields go to other programs, polling does harm. */
static void linger_for_calls(struct combiner *combiner)
{
    uint64_t linger_ns = linger_time_ns(&combiner->linger, combiner->call_count);
    if (linger_ns == 0 || combiner->settings->spin.mode == WIRE_SPIN_OFF ||
        wire_yielding_is_muted())
        return;
    uint64_t until_ns = clock_monotonic_ns() + linger_ns;
    do {
        sched_yield();
        collect_arrivals(combiner);
    } while (combiner->call_count < combiner->linger.expected && clock_monotonic_ns() < until_ns);
}

/* Sends the message and waits for its answer, or, if it is NULL, for that of the one in flight. */
static enum kv_status send_and_receive(struct combiner *combiner, struct inflight_message *message,
                                       uint64_t deadline_ms)
{
    struct window *window = &combiner->window;
    bool timed = linger_matters(&combiner->linger, combiner->call_count);
    KV_ASSERT(message || window->in_flight > 0);
    uint64_t began_ns = timed ? clock_monotonic_ns() : 0;
    enum kv_status status = message ? window_send(window, message, deadline_ms) : KV_OK;
    while (status == KV_OK && window->in_flight > 0)
        status = window_receive(window, deadline_ms);
    if (status != KV_OK)
        return status; /* of no concern to calls that arrive now */
    collect_arrivals(combiner);
    linger_note(&combiner->linger,
                combiner->packed_full ? combiner->packed_calls : combiner->call_count,
                timed ? clock_monotonic_ns() - began_ns : 0);
    return KV_OK;
}

/* Packs a message, if none is in flight, sends it and waits for the answer, until the earliest
 * deadline of a call. */
static void execute_one_message(struct combiner *combiner)
{
    uint64_t deadline_ms = earliest_deadline_ms(combiner);
    struct inflight_message *message = window_idle_message(&combiner->window);
    if (message) {
        struct kv_error error;
        enum kv_status status = combiner_connect(combiner, deadline_ms, &error);
        if (status != KV_OK) {
            connecting_failed(combiner, status, &error);
            return;
        }
    }
    enum kv_status status = message ? pack_calls(combiner, message, deadline_ms) : KV_OK;
    if (status == KV_OK && (!message || message->request.count > 0))
        status = send_and_receive(combiner, message, deadline_ms);
    if (status != KV_OK) {
        message_failed(combiner, status);
    } else if (combiner->first->following) {
        /* The first call had its part of a message: it goes behind the others, so that a long call
         * does not have the next messages to itself. */
        struct call *first = combiner->first;
        combiner->first = first->following;
        combiner->call_count--;
        append_call(combiner, first);
    }
    stop_rest_of_stopped_calls(combiner);
}

/* Passes the lead to the first call on the list, or to the next one to arrive, and wakes the
 * threads on *to_wake. */
static void pass_lead_and_wake(struct combiner *combiner, struct wake_list *to_wake)
{
    do {
        collect_arrivals(combiner);
        if (combiner->first) {
            turn_give(&combiner->first->turn, TURN_TO_LEAD, to_wake);
            break;
        }
        atomic_store(&combiner->led, 0);
        /* A call that arrived between the two steps found the combiner led, and waits. */
    } while (atomic_load(&combiner->arrivals) && try_lead(combiner));
    turn_wake(combiner->wakes, to_wake);
}

__attribute__((noinline)) static void pass_lead(struct combiner *combiner)
{
    struct wake_list nobody = {.any = false};
    pass_lead_and_wake(combiner, &nobody);
}

/* Executes the first message of a leader that is alone, without anything that only several calls
 * need. Its call is not on the list, and stays unfinished if the leader is not alone, or if one
 * message was not enough. Returns the error that stopped the message. */
static enum kv_status lead_alone(struct combiner *combiner, struct call *own)
{
    if (combiner->first || combiner->window.in_flight > 0 || combiner->linger.expected > 1)
        return KV_OK;
    enum kv_status status =
        window_execute(&combiner->window, &own->queue, own->deadline_ms, &own->sent);
    combiner->packed_calls = 1;
    combiner->packed_full = own->queue.first != NULL;
    return status;
}

/* Gives up the lead of a leader that has nothing on its list. */
static void step_down(struct combiner *combiner)
{
    if (!atomic_load_explicit(&combiner->arrivals, memory_order_relaxed)) {
        atomic_store(&combiner->led, 0);
        /* A call that arrived before the store found the combiner led, and waits. */
        if (!atomic_load(&combiner->arrivals) || !try_lead(combiner))
            return;
    }
    pass_lead(combiner);
}

/* Leads until the leader's own call, which is on the list, is finished. */
static void lead_others(struct combiner *combiner, struct call *own)
{
    struct wake_list to_wake = {.any = false};
    while (!call_finished(own)) {
        turn_wake(combiner->wakes, &to_wake);
        collect_arrivals(combiner);
        if (combiner->window.in_flight == 0)
            linger_for_calls(combiner);
        execute_one_message(combiner);
        dismiss_finished(combiner, own, &to_wake);
    }
    pass_lead_and_wake(combiner, &to_wake);
}

/* Continues after lead_alone, which returned `status`. */
__attribute__((noinline)) static void lead_on(struct combiner *combiner, struct call *own,
                                              enum kv_status status)
{
    if (!call_finished(own)) {
        if (status == KV_OK && own->sent)
            collect_arrivals(combiner); /* they go first: this call had its part of a message */
        append_call(combiner, own);
        if (status != KV_OK)
            message_failed(combiner, status);
        stop_rest_of_stopped_calls(combiner);
        if (call_finished(own)) {
            struct wake_list nobody = {.any = false};
            dismiss_finished(combiner, own, &nobody);
        }
    } else if (status != KV_OK) {
        message_failed(combiner, status);
    }
    lead_others(combiner, own);
}

/* Following --------------------------------------------------------------------------------- */

/* Waits until another thread has executed the call, or leads. */
__attribute__((noinline)) static void follow_leader(struct combiner *combiner, struct call *call,
                                                    struct wire_waiter *waiter)
{
    struct call *top = atomic_load_explicit(&combiner->arrivals, memory_order_relaxed);
    do
        call->following = top;
    while (!atomic_compare_exchange_weak(&combiner->arrivals, &top, call));
    if (try_lead(combiner) || turn_await(&call->turn, combiner->wakes, waiter) == TURN_TO_LEAD)
        lead_others(combiner, call);
}

void combiner_execute(struct combiner *combiner, struct call *call, struct wire_waiter *waiter)
{
    KV_ASSERT(!call_finished(call) && call->queue.first);
    atomic_init(&call->turn.state, TURN_WAITING);
    if (!try_lead(combiner)) {
        follow_leader(combiner, call, waiter);
        return;
    }
    enum kv_status status = lead_alone(combiner, call);
    if (status == KV_OK && call_finished(call) && !combiner->first)
        step_down(combiner);
    else
        lead_on(combiner, call, status);
}

void combiner_retire(struct combiner *combiner)
{
    if (!try_lead(combiner))
        return;
    if (combiner->window.connection.open && !combiner->first)
        combiner_disconnect(combiner, true);
    pass_lead(combiner);
}
