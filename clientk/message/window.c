#include "clientk/message/window.h"

#include <stdlib.h>

#include "clientk/message/key_hash.h"
#include "clientk/message/translate.h"
#include "clientk/session/segment_growth.h"
#include "clientk/session/connect.h"

#define FIRST_TASKS 16u

bool window_init(struct window *window, const struct client_settings *settings,
                 const struct wire_geometry *ladder, unsigned limit)
{
    *window = (struct window){.limit = limit};
    connection_init(&window->connection, settings, ladder);
    window->messages = calloc(limit, sizeof *window->messages);
    return window->messages != NULL;
}

static void free_messages(struct window *window)
{
    for (unsigned i = 0; window->messages && i < window->limit; i++) {
        builder_free(&window->messages[i].request);
        exchange_free(&window->messages[i].exchange);
        free(window->messages[i].tasks);
    }
    free(window->messages);
}

bool window_set_limit(struct window *window, unsigned limit)
{
    struct inflight_message *messages = calloc(limit, sizeof *messages);
    if (!messages)
        return false;
    free_messages(window);
    window->messages = messages;
    window->limit = limit;
    return true;
}

void window_free(struct window *window, bool say_goodbye)
{
    connection_close(&window->connection, say_goodbye);
    free_messages(window);
    key_set_free(&window->keys);
}

/* Written by one thread. */
static void count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static uint64_t relaxed(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void window_add_info(const struct window *window, struct clientk_info *info)
{
    info->messages += relaxed(&window->messages_sent);
    info->operations += relaxed(&window->operations_sent);
    info->reconnects += relaxed(&window->reconnects);
}

enum kv_status window_connect(struct window *window, uint64_t deadline_ms, struct kv_error *error)
{
    struct connection *connection = &window->connection;
    uint32_t handshakes = connection->handshakes;
    enum kv_status status = connection_open(connection, deadline_ms, error);
    if (handshakes > 0 && connection->handshakes != handshakes)
        count(&window->reconnects, 1);
    return status;
}

/* Ends the message. Tasks that were not completed are due again, before those that were due
 * already. */
static void end_message(struct window *window, struct inflight_message *message);

/* Filling ----------------------------------------------------------------------------------- */

struct inflight_message *window_idle_message(struct window *window)
{
    for (unsigned i = 0; i < window->limit; i++)
        if (!window->messages[i].in_flight)
            return &window->messages[i];
    return NULL;
}

bool window_begin(struct window *window, struct inflight_message *message)
{
    if (message->unfinished > 0)
        end_message(window, message);
    uint64_t share = window->connection.values.bytes;
    if (window->limit > 1)
        share = share / window->limit & ~(uint64_t)7;
    uint64_t start = share * (uint64_t)(message - window->messages);
    message->has_refused = false;
    return builder_begin(&message->request, &window->connection, start, start + share);
}

static bool reserve_task(struct inflight_message *message)
{
    if (message->request.count < message->tasks_capacity)
        return true;
    uint32_t capacity = message->tasks_capacity ? message->tasks_capacity * 2 : FIRST_TASKS;
    struct task **tasks = realloc(message->tasks, capacity * sizeof(struct task *));
    if (!tasks)
        return false;
    message->tasks = tasks;
    message->tasks_capacity = capacity;
    return true;
}

/* Whether the task must wait for what is in flight. A task that was refused for lack of room is
 * sent again alone, since the server keeps only a few large replies per session. */
static bool must_wait(const struct window *window, struct task *task)
{
    if (window->limit == 1)
        return false;
    task->key_hash = key_hash(task->operation.key);
    if (window->in_flight == 0)
        return false;
    if (window->refused_in_flight || task->value_bytes > 0)
        return true;
    return key_set_conflicts(&window->keys, task->key_hash, operation_writes(&task->operation));
}

/* The task is in the message, behind all others. */
static void note_packed(struct inflight_message *message, struct task *task)
{
    const struct request_builder *builder = &message->request;
    message->tasks[builder->count - 1] = task;
    message->unfinished++;
    message->has_refused |= task->value_bytes > 0;
    if (!task->queue->lent_until_packed)
        return;
    free(task->own_bytes);
    task->own_bytes = NULL;
    task->operation.key.data = builder->key_at;
    task->operation.value.data = builder->value_at;
}

enum fill_verdict window_fill(struct window *window, struct inflight_message *message,
                              struct task_queue *queue, uint32_t limit)
{
    struct request_builder *builder = &message->request;
    while (queue->first) {
        struct task *task = queue->first;
        enum kv_status status =
            translate_check(&task->operation, window->connection.welcome.max_value_bytes);
        if (status != KV_OK) {
            task_answer(task_queue_pop(queue), status);
            continue;
        }
        if (must_wait(window, task))
            return FILL_WAITS;
        if (limit > 0 && builder->count >= limit)
            return FILL_FULL;
        if (!reserve_task(message))
            return FILL_NO_MEMORY;
        switch (builder_add(builder, &task->operation, task->value_bytes)) {
        case BUILDER_ADDED:
            note_packed(message, task_queue_pop(queue));
            break;
        case BUILDER_FULL:
            return FILL_FULL;
        case BUILDER_NEEDS_SEGMENT:
            return FILL_SEGMENT;
        case BUILDER_NO_MEMORY:
            return FILL_NO_MEMORY;
        }
    }
    return FILL_ALL;
}

enum kv_status window_grow(struct window *window, const struct inflight_message *message,
                           uint64_t deadline_ms)
{
    uint64_t share_bytes = (message->request.needed_bytes + 7) & ~(uint64_t)7;
    enum kv_status status =
        value_segment_grow(&window->connection, share_bytes * window->limit, deadline_ms);
    if (status != KV_OK)
        window_lose(window, status != KV_NO_SERVER);
    return status;
}

/* In flight, and no longer ------------------------------------------------------------------- */

/* Its keys come into the set. False: no memory. */
static bool enter_keys(struct window *window, const struct inflight_message *message)
{
    for (uint32_t i = 0; i < message->request.count; i++) {
        const struct task *task = message->tasks[i];
        if (key_set_add(&window->keys, task->key_hash, operation_writes(&task->operation)))
            continue;
        while (i-- > 0)
            key_set_remove(&window->keys, message->tasks[i]->key_hash,
                           operation_writes(&message->tasks[i]->operation));
        return false;
    }
    return true;
}

/* Takes the task, which is still in the message, out of it. */
static struct task *take_out(struct window *window, struct inflight_message *message,
                             uint32_t index)
{
    struct task *task = message->tasks[index];
    message->tasks[index] = NULL;
    message->unfinished--;
    if (window->limit > 1 && message->in_flight)
        key_set_remove(&window->keys, task->key_hash, operation_writes(&task->operation));
    return task;
}

/* Makes the tasks that are left in the message due again. */
__attribute__((noinline)) static void requeue(struct window *window,
                                              struct inflight_message *message)
{
    for (uint32_t i = message->request.count; i-- > 0;) {
        if (!message->tasks[i])
            continue;
        struct task *task = take_out(window, message, i);
        if (task->queue->lent_until_packed && !task_own_bytes(task))
            task_stop(task, KV_NO_MEMORY);
        else
            task_queue_push_front(task->queue, task);
    }
}

static void end_message(struct window *window, struct inflight_message *message)
{
    if (message->unfinished > 0)
        requeue(window, message);
    if (message->in_flight) {
        window->in_flight--;
        window->refused_in_flight &= !message->has_refused;
    }
    message->in_flight = false;
    message->request.count = 0;
}

/* Deals with the tasks of a message whose answer will not come. */
static void lose_message(struct window *window, struct inflight_message *message)
{
    bool repeat_writes = window->connection.settings->repeat_writes;
    bool executed = message->in_flight && message->exchange.delivered; /* perhaps */
    for (uint32_t i = 0; executed && i < message->request.count; i++) {
        struct task *task = message->tasks[i];
        if (!task)
            continue;
        task->uncertain |= operation_writes(&task->operation);
        if (!operation_repeatable(&task->operation, repeat_writes))
            task_stop(take_out(window, message, i), KV_OUTCOME_UNKNOWN);
    }
    end_message(window, message);
}

/* The message in flight that was sent last; NULL: none is. */
static struct inflight_message *last_sent(struct window *window)
{
    struct inflight_message *last = NULL;
    for (unsigned i = 0; i < window->limit; i++) {
        struct inflight_message *message = &window->messages[i];
        if (message->in_flight &&
            (!last || message->exchange.request_id > last->exchange.request_id))
            last = message;
    }
    return last;
}

/* Tasks return to their queues from the last message to the first, so that their order is kept. A
 * message that is being filled is younger than all in flight. */
void window_lose(struct window *window, bool say_goodbye)
{
    for (unsigned i = 0; i < window->limit; i++)
        if (!window->messages[i].in_flight)
            end_message(window, &window->messages[i]);
    struct inflight_message *message;
    while ((message = last_sent(window)))
        lose_message(window, message);
    connection_close(&window->connection, say_goodbye);
}

/* Whether the task is one of those to give up. */
static bool is_given_up(const struct task *task, const struct task_queue *queue)
{
    return task && (!queue || task->queue == queue);
}

static void give_up_message(struct window *window, struct inflight_message *message,
                            const struct task_queue *queue)
{
    bool concerned = false, wanted = false;
    for (uint32_t i = 0; i < message->request.count; i++) {
        struct task *task = message->tasks[i];
        bool given_up = is_given_up(task, queue);
        concerned |= given_up;
        wanted |= task && !given_up;
        if (given_up && message->exchange.delivered) {
            struct outcome outcome = {.status = KV_TIMEOUT};
            task_complete(take_out(window, message, i), &outcome);
        }
    }
    /* A message that the server does not have completely is withdrawn as a whole: if the rest were
     * sent for the sake of its other tasks, all of them would be executed. */
    if (!concerned || (wanted && message->exchange.delivered))
        return;
    window->connection.suspect |= message->exchange.sent_bytes > 0;
    end_message(window, message);
}

void window_give_up(struct window *window, const struct task_queue *queue)
{
    const struct client_settings *settings = window->connection.settings;
    for (unsigned i = 0; i < window->limit; i++) {
        struct inflight_message *message = &window->messages[i];
        if (message->in_flight &&
            (queue || client_settings_time_is_over(settings, message->deadline_ms)))
            give_up_message(window, message, queue);
    }
}

/* Answers ----------------------------------------------------------------------------------- */

/* The task was sent before, and its result is of the second time. */
__attribute__((noinline)) static void judge_repeat(const struct task *task,
                                                   struct wire_result *result)
{
    enum kv_status status = operation_status_of_repeat(&task->operation, result->status);
    if (status != result->status)
        *result = (struct wire_result){.status = status};
}

/* One result. False: it is malformed. */
static bool take_result(struct window *window, struct inflight_message *message, uint32_t index)
{
    struct wire_result result;
    if (wire_get_result(&message->exchange.body, &result) != KV_OK)
        return false;
    struct task *task = message->tasks[index];
    /* A server without short replies executes the first operation, and says so of those that were
     * left when the message had used its time. */
    if (!task || (result.status == KV_OVERLOADED && index > 0))
        return true;
    struct large_values *values = &window->connection.values;
    if (operation_gives_value(task->operation.opcode)) {
        if (operation_reads_entry(task->operation.opcode))
            large_values_expect(values, result.value.size);
        if (result.status == KV_BUFFER_TOO_SMALL &&
            (task->value_bytes == 0 || builder_lacked_room(&message->request, result.value.size))) {
            task->value_bytes = result.value.size > 0 ? result.value.size : 1;
            return true;
        }
    }
    if (task->uncertain)
        judge_repeat(task, &result);
    struct outcome outcome = {.status = result.status, .result = &result, .values = values};
    task_complete(take_out(window, message, index), &outcome);
    return true;
}

static bool answer_is_possible(const struct window *window, const struct inflight_message *message)
{
    uint32_t results = message->exchange.answer.count, operations = message->request.count;
    bool may_be_short = window->connection.welcome.flags & WIRE_WELCOME_SHORT_REPLIES;
    return results == operations || (may_be_short && results > 0 && results < operations);
}

/* The server refused the message as a whole: nothing of it was executed. */
__attribute__((noinline)) static void take_refusal(struct window *window,
                                                   struct inflight_message *message)
{
    enum kv_status status = message->exchange.answer.status;
    struct read_cursor *body = &message->exchange.body;
    size_t size = read_cursor_left(body);
    struct kv_slice sentence = kv_slice(read_bytes(body, size), size);
    for (uint32_t i = 0; i < message->request.count; i++)
        if (message->tasks[i])
            task_refuse(take_out(window, message, i), status, sentence);
}

static enum kv_status take_answer(struct window *window, struct inflight_message *message)
{
    const struct wire_header *answer = &message->exchange.answer;
    if (answer->status == KV_NO_SESSION) {
        message->exchange.delivered = false; /* it surely was not executed */
        return KV_NO_SESSION;
    }
    if (answer->status != KV_OK) {
        take_refusal(window, message);
    } else {
        if (!answer_is_possible(window, message))
            return KV_IO;
        for (uint32_t i = 0; i < answer->count; i++)
            if (!take_result(window, message, i))
                return KV_IO;
    }
    end_message(window, message);
    return KV_OK;
}

/* Sending and receiving --------------------------------------------------------------------- */

/* Sends the due part of the message, if there is a credit. Returns as send_due. */
static enum kv_status send_message(struct window *window, struct inflight_message *message,
                                   uint64_t deadline_ms)
{
    struct connection *connection = &window->connection;
    enum kv_status status = KV_OK;
    if (connection->unanswered < connection->welcome.credits)
        status = exchange_send(&message->exchange, connection, deadline_ms);
    window->to_send |= message->exchange.to_send;
    return status;
}

/* Sends the due parts of the messages in flight, as far as there are credits. KV_OK; KV_TIMEOUT:
 * the lane was full until the deadline; KV_NO_SERVER, KV_IO. */
static enum kv_status send_due(struct window *window, uint64_t deadline_ms)
{
    enum kv_status status = KV_OK;
    window->to_send = false;
    for (unsigned i = 0; i < window->limit; i++) {
        struct inflight_message *message = &window->messages[i];
        if (!message->in_flight || !message->exchange.to_send)
            continue;
        if (status == KV_OK)
            status = send_message(window, message, deadline_ms);
        else
            window->to_send = true;
    }
    return status;
}

static struct inflight_message *message_of(struct window *window, uint64_t request_id)
{
    for (unsigned i = 0; i < window->limit; i++)
        if (window->messages[i].in_flight && window->messages[i].exchange.request_id == request_id)
            return &window->messages[i];
    return NULL;
}

/* A message that answers no request: the server's owner may have ended the session. */
__attribute__((noinline)) static enum kv_status take_stray(const struct wire_header *header)
{
    bool ended = header->kind == WIRE_REFUSED && header->status == KV_NO_SESSION;
    return ended ? KV_NO_SESSION : KV_OK;
}

static inline enum kv_status lose_unless_late(struct window *window, enum kv_status status)
{
    if (status != KV_OK && status != KV_TIMEOUT)
        window_lose(window, status != KV_NO_SERVER && status != KV_NO_SESSION);
    return status;
}

enum kv_status window_receive(struct window *window, uint64_t deadline_ms)
{
    struct wire_header header;
    struct read_cursor body;
    enum kv_status status = window->to_send ? send_due(window, deadline_ms) : KV_OK;
    if (status == KV_OK)
        status = connection_receive(&window->connection, deadline_ms, &header, &body);
    struct inflight_message *message =
        status == KV_OK ? message_of(window, header.request_id) : NULL;
    if (message) {
        status = exchange_take(&message->exchange, &header, &body);
        window->to_send |= message->exchange.to_send;
        if (status == KV_OK && message->exchange.answered)
            status = take_answer(window, message);
    } else if (status == KV_OK) {
        status = take_stray(&header);
    }
    return lose_unless_late(window, status);
}

enum kv_status window_poll(struct window *window)
{
    bool to_send = window->to_send;
    window->to_send = false; /* a lane that is full is no reason not to receive */
    enum kv_status received = window_receive(window, 0);
    window->to_send |= to_send;
    if ((received != KV_OK && received != KV_TIMEOUT) || !window->to_send)
        return received;
    enum kv_status sent = lose_unless_late(window, send_due(window, 0));
    return sent == KV_OK || sent == KV_TIMEOUT ? received : sent;
}

enum kv_status window_send(struct window *window, struct inflight_message *message,
                           uint64_t deadline_ms)
{
    if (window->limit > 1 && !enter_keys(window, message)) {
        end_message(window, message);
        return KV_NO_MEMORY;
    }
    uint64_t request_id;
    size_t size =
        builder_finish(&message->request, &window->connection, message->deadline_ms, &request_id);
    exchange_begin(&message->exchange, message->request.message, size, request_id,
                   message->deadline_ms);
    message->in_flight = true;
    window->in_flight++;
    window->refused_in_flight |= message->has_refused;
    count(&window->messages_sent, 1);
    count(&window->operations_sent, message->request.count);
    enum kv_status status = window->to_send ? send_due(window, deadline_ms)
                                            : send_message(window, message, deadline_ms);
    return lose_unless_late(window, status);
}
