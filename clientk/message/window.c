#include "clientk/message/window.h"

#include <stdlib.h>

#include "clientk/message/translate.h"
#include "clientk/session/connect.h"
#include "clientk/session/segment_growth.h"
#include "common/assert/assert.h"

/* Tasks for which a message has room at first. */
#define FIRST_TASKS 16u

/* What holds between the calls; for assertions. */
static bool window_is_consistent(const struct window *window)
{
    unsigned in_flight = 0;
    for (unsigned i = 0; i < window->limit; i++) {
        const struct inflight_message *message = &window->messages[i];
        uint32_t unfinished = 0;
        for (uint32_t task = 0; task < message->request.count; task++)
            unfinished += message->tasks[task] != NULL;
        if (unfinished != message->unfinished || (message->in_flight && unfinished == 0))
            return false;
        in_flight += message->in_flight;
    }
    return in_flight == window->in_flight && (window->connection.open || in_flight == 0) &&
           (!window->refused_in_flight || in_flight > 0);
}

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
        round_trip_free(&window->messages[i].round_trip);
        free(window->messages[i].tasks);
    }
    free(window->messages);
}

bool window_set_limit(struct window *window, unsigned limit)
{
    struct inflight_message *messages = calloc(limit, sizeof *messages);
    if (!messages)
        return false;
    KV_ASSERT(limit > 0 && window->in_flight == 0 && window_is_consistent(window));
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

/* Adds `more` to a counter that only the thread of the window writes. */
static void window_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static uint64_t window_read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void window_add_info(const struct window *window, struct clientk_info *info)
{
    info->messages += window_read_counter(&window->messages_sent);
    info->operations += window_read_counter(&window->operations_sent);
    info->reconnects += window_read_counter(&window->reconnects);
}

enum kv_status window_connect(struct window *window, uint64_t deadline_ms, struct kv_error *error)
{
    struct connection *connection = &window->connection;
    uint32_t handshakes = connection->handshakes;
    KV_ASSERT(window->in_flight == 0);
    enum kv_status status = connection_open(connection, deadline_ms, error);
    if (handshakes > 0 && connection->handshakes != handshakes)
        window_count(&window->reconnects, 1);
    return status;
}

/* Ends the message. Tasks that are not complete are due again, before those that are due
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
    KV_ASSERT(!message->in_flight);
    if (message->unfinished > 0)
        end_message(window, message);
    uint64_t share = window->connection.values.bytes;
    if (window->limit > 1)
        share = share / window->limit & ~(uint64_t)7;
    uint64_t start = share * (uint64_t)(message - window->messages);
    message->has_refused = false;
    return builder_begin(&message->request, &window->connection, start, start + share);
}

/* Makes room for one more task. False: no memory. */
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

/* Returns true if the task must wait for an operation in flight. A task that was refused for lack
 * of room is sent again alone, since the server keeps only a few large replies for a session. */
static bool task_must_wait(const struct window *window, struct task *task)
{
    if (window->limit == 1)
        return false;
    task->key_hash = key_set_hash(task->operation.key);
    if (window->in_flight == 0)
        return false;
    if (window->refused_in_flight || task->value_bytes > 0)
        return true;
    return key_set_conflicts(&window->keys, task->key_hash, operation_writes(&task->operation));
}

/* Takes in the task whose operation was added last to the request. */
static void enter_task(struct inflight_message *message, struct task *task)
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
    KV_ASSERT(!message->in_flight);
    while (queue->first) {
        struct task *task = queue->first;
        enum kv_status status =
            translate_check(&task->operation, window->connection.welcome.max_value_bytes);
        if (status != KV_OK) {
            task_answer(task_queue_pop(queue), status);
            continue;
        }
        if (task_must_wait(window, task))
            return FILL_WAITS;
        if (limit > 0 && builder->count >= limit)
            return FILL_FULL;
        if (!reserve_task(message))
            return FILL_NO_MEMORY;
        switch (builder_add(builder, &task->operation, task->value_bytes)) {
        case BUILDER_ADDED:
            enter_task(message, task_queue_pop(queue));
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
    KV_ASSERT(window->in_flight == 0 && message->request.count == 0 && share_bytes > 0);
    enum kv_status status =
        value_segment_grow(&window->connection, share_bytes * window->limit, deadline_ms);
    if (status != KV_OK)
        window_lose(window, status != KV_NO_SERVER);
    return status;
}

/* In flight, and no longer ------------------------------------------------------------------- */

/* Adds the keys of the message to the set. False: no memory, and nothing was added. */
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

/* Takes the task of that index, which is not complete, out of the message. */
static struct task *take_task_out(struct window *window, struct inflight_message *message,
                                  uint32_t index)
{
    struct task *task = message->tasks[index];
    KV_ASSERT(task && index < message->request.count && message->unfinished > 0);
    message->tasks[index] = NULL;
    message->unfinished--;
    if (window->limit > 1 && message->in_flight)
        key_set_remove(&window->keys, task->key_hash, operation_writes(&task->operation));
    return task;
}

/* Makes the tasks that are not complete due again. */
__attribute__((noinline)) static void requeue_tasks(struct window *window,
                                                    struct inflight_message *message)
{
    for (uint32_t i = message->request.count; i-- > 0;) {
        if (!message->tasks[i])
            continue;
        struct task *task = take_task_out(window, message, i);
        if (task->queue->lent_until_packed && !task_own_bytes(task))
            task_stop(task, KV_NO_MEMORY);
        else
            task_queue_push_front(task->queue, task);
    }
}

static void end_message(struct window *window, struct inflight_message *message)
{
    if (message->unfinished > 0)
        requeue_tasks(window, message);
    if (message->in_flight) {
        window->in_flight--;
        window->refused_in_flight &= !message->has_refused;
    }
    message->in_flight = false;
    message->request.count = 0;
    KV_ASSERT(message->unfinished == 0 && window_is_consistent(window));
}

/* Ends a message whose answer will not come. */
static void lose_message(struct window *window, struct inflight_message *message)
{
    bool repeat_writes = window->connection.settings->repeat_writes;
    bool may_be_executed = message->in_flight && message->round_trip.delivered;
    for (uint32_t i = 0; may_be_executed && i < message->request.count; i++) {
        struct task *task = message->tasks[i];
        if (!task)
            continue;
        task->uncertain |= operation_writes(&task->operation);
        if (!operation_repeatable(&task->operation, repeat_writes))
            task_stop(take_task_out(window, message, i), KV_OUTCOME_UNKNOWN);
    }
    end_message(window, message);
}

/* Returns the message in flight that was sent last; NULL: none is in flight. */
static struct inflight_message *last_sent(struct window *window)
{
    struct inflight_message *last = NULL;
    for (unsigned i = 0; i < window->limit; i++) {
        struct inflight_message *message = &window->messages[i];
        if (message->in_flight &&
            (!last || message->round_trip.request_id > last->round_trip.request_id))
            last = message;
    }
    return last;
}

/* Tasks return to their queues from the last message to the first, so that they keep their order. A
 * message that is being filled comes after all in flight. */
void window_lose(struct window *window, bool say_goodbye)
{
    for (unsigned i = 0; i < window->limit; i++)
        if (!window->messages[i].in_flight)
            end_message(window, &window->messages[i]);
    struct inflight_message *message;
    while ((message = last_sent(window)))
        lose_message(window, message);
    connection_close(&window->connection, say_goodbye);
    KV_ASSERT(window->in_flight == 0 && !window->connection.open);
}

static void give_up_message(struct window *window, struct inflight_message *message,
                            const struct task_queue *queue)
{
    bool concerned = false, wanted = false; /* a task that is given up; one that is not */
    for (uint32_t i = 0; i < message->request.count; i++) {
        struct task *task = message->tasks[i];
        bool given_up = task && (!queue || task->queue == queue);
        concerned |= given_up;
        wanted |= task && !given_up;
        if (given_up && message->round_trip.delivered) {
            struct outcome outcome = {.status = KV_TIMEOUT};
            task_complete(take_task_out(window, message, i), &outcome);
        }
    }
    /* A message that the server has only in part is withdrawn as a whole: if the rest were sent for
     * the sake of its other tasks, the server would execute all of them. */
    if (!concerned || (wanted && message->round_trip.delivered))
        return;
    window->connection.suspect |= message->round_trip.sent_bytes > 0;
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

/* Changes the result of a task that was sent before to what both times together mean. */
__attribute__((noinline)) static void judge_repeat(const struct task *task,
                                                   struct wire_result *result)
{
    enum kv_status status = operation_status_of_repeat(&task->operation, result->status);
    if (status != result->status)
        *result = (struct wire_result){.status = status};
}

/* Takes in the next result, which is that of task `index`. False: it is malformed. */
static bool window_take_result(struct window *window, struct inflight_message *message,
                               uint32_t index)
{
    struct wire_result result;
    KV_ASSERT(index < message->request.count && message->in_flight);
    if (wire_get_result(&message->round_trip.body, &result) != KV_OK)
        return false;
    struct task *task = message->tasks[index];
    /* A server without short replies answers KV_OVERLOADED for the operations that were left when
     * the message had used its time; the first one it always executes. */
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
    task_complete(take_task_out(window, message, index), &outcome);
    return true;
}

/* Refuses the tasks of a message that the server has refused as a whole: it executed none of
 * them. */
__attribute__((noinline)) static void window_take_refusal(struct window *window,
                                                          struct inflight_message *message)
{
    enum kv_status status = message->round_trip.answer.status;
    struct read_cursor *body = &message->round_trip.body;
    size_t size = read_cursor_left(body);
    struct kv_slice sentence = kv_slice(read_bytes(body, size), size);
    for (uint32_t i = 0; i < message->request.count; i++)
        if (message->tasks[i])
            task_refuse(take_task_out(window, message, i), status, sentence);
}

/* Completes the tasks of the message, which is answered, and ends it. */
static enum kv_status window_take_answer(struct window *window, struct inflight_message *message)
{
    const struct wire_header *answer = &message->round_trip.answer;
    if (answer->status == KV_NO_SESSION) {
        message->round_trip.delivered = false; /* surely it was not executed */
        return KV_NO_SESSION;
    }
    if (answer->status != KV_OK) {
        window_take_refusal(window, message);
    } else {
        uint32_t results = answer->count, operations = message->request.count;
        bool may_be_short = window->connection.welcome.flags & WIRE_WELCOME_SHORT_REPLIES;
        bool is_short = results > 0 && results < operations;
        if (results != operations && !(may_be_short && is_short))
            return KV_IO;
        for (uint32_t i = 0; i < results; i++)
            if (!window_take_result(window, message, i))
                return KV_IO;
    }
    end_message(window, message);
    return KV_OK;
}

/* Sending and receiving --------------------------------------------------------------------- */

/* Sends the due part of the message, if there is a credit. Returns as send_due_messages does. */
static enum kv_status send_message(struct window *window, struct inflight_message *message,
                                   uint64_t deadline_ms)
{
    struct connection *connection = &window->connection;
    enum kv_status status = KV_OK;
    if (connection->unanswered < connection->welcome.credits)
        status = round_trip_send(&message->round_trip, connection, deadline_ms);
    window->to_send |= message->round_trip.to_send;
    return status;
}

/* Sends the due parts of all messages in flight, as far as there are credits. KV_OK; KV_TIMEOUT:
 * the lane was full until deadline_ms; KV_NO_SERVER, KV_IO. */
static enum kv_status send_due_messages(struct window *window, uint64_t deadline_ms)
{
    enum kv_status status = KV_OK;
    window->to_send = false;
    for (unsigned i = 0; i < window->limit; i++) {
        struct inflight_message *message = &window->messages[i];
        if (!message->in_flight || !message->round_trip.to_send)
            continue;
        if (status == KV_OK)
            status = send_message(window, message, deadline_ms);
        else
            window->to_send = true;
    }
    return status;
}

static struct inflight_message *find_message(struct window *window, uint64_t request_id)
{
    for (unsigned i = 0; i < window->limit; i++)
        if (window->messages[i].in_flight &&
            window->messages[i].round_trip.request_id == request_id)
            return &window->messages[i];
    return NULL;
}

/* Decides on a message that answers no request: the server's owner may have ended the session. */
__attribute__((noinline)) static enum kv_status judge_stray(const struct wire_header *header)
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
    enum kv_status status = window->to_send ? send_due_messages(window, deadline_ms) : KV_OK;
    if (status == KV_OK)
        status = connection_receive(&window->connection, deadline_ms, &header, &body);
    struct inflight_message *message =
        status == KV_OK ? find_message(window, header.request_id) : NULL;
    if (message) {
        status = round_trip_take(&message->round_trip, &header, &body);
        window->to_send |= message->round_trip.to_send;
        if (status == KV_OK && message->round_trip.answered)
            status = window_take_answer(window, message);
    } else if (status == KV_OK) {
        status = judge_stray(&header);
    }
    status = lose_unless_late(window, status);
    KV_ASSERT(window_is_consistent(window));
    return status;
}

enum kv_status window_poll(struct window *window)
{
    bool to_send = window->to_send;
    window->to_send = false; /* even while a lane is full, there may be something to receive */
    enum kv_status received = window_receive(window, 0);
    window->to_send |= to_send;
    if ((received != KV_OK && received != KV_TIMEOUT) || !window->to_send)
        return received;
    enum kv_status sent = lose_unless_late(window, send_due_messages(window, 0));
    return sent == KV_OK || sent == KV_TIMEOUT ? received : sent;
}

enum kv_status window_send(struct window *window, struct inflight_message *message,
                           uint64_t deadline_ms)
{
    KV_ASSERT(!message->in_flight && message->request.count > 0 && window->connection.open);
    if (window->limit > 1 && !enter_keys(window, message)) {
        end_message(window, message);
        return KV_NO_MEMORY;
    }
    uint64_t request_id;
    size_t size =
        builder_finish(&message->request, &window->connection, message->deadline_ms, &request_id);
    round_trip_begin(&message->round_trip, message->request.message, size, request_id,
                     message->deadline_ms);
    message->in_flight = true;
    window->in_flight++;
    window->refused_in_flight |= message->has_refused;
    window_count(&window->messages_sent, 1);
    window_count(&window->operations_sent, message->request.count);
    enum kv_status status = window->to_send ? send_due_messages(window, deadline_ms)
                                            : send_message(window, message, deadline_ms);
    return lose_unless_late(window, status);
}

/* Flattened, since this is the way of every lone call: its steps are called in one function. */
__attribute__((flatten)) enum kv_status
window_execute(struct window *window, struct task_queue *queue, uint64_t deadline_ms, bool *sent)
{
    struct inflight_message *message = &window->messages[0];
    KV_ASSERT(window->limit == 1 && window->in_flight == 0);
    if (!connection_usable(&window->connection) || !window_begin(window, message))
        return KV_OK;
    enum fill_verdict filled = window_fill(window, message, queue, 0);
    if ((filled != FILL_ALL && filled != FILL_FULL) || message->request.count == 0)
        return KV_OK;
    *sent = true;
    message->deadline_ms = deadline_ms;
    enum kv_status status = window_send(window, message, deadline_ms);
    while (status == KV_OK && window->in_flight > 0)
        status = window_receive(window, deadline_ms);
    return status;
}
