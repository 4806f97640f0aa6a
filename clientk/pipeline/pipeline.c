#include "clientk/pipeline/pipeline.h"

#include <stdlib.h>

#include "clientk/base/handles.h"
#include "clientk/base/last_error.h"
#include "clientk/message/translate.h"
#include "clientk/message/window.h"
#include "clientk/pipeline/event_loop.h"
#include "clientk/pipeline/pipeline_state.h"
#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"

/* Pipelines of a handle --------------------------------------------------------------------- */

void pipelines_add_info(const struct pipeline_list *list, struct clientk_info *info)
{
    handles_lock();
    info->messages += list->closed.messages;
    info->operations += list->closed.operations;
    info->reconnects += list->closed.reconnects;
    for (const struct clientk_pipeline *pipeline = list->first; pipeline;
         pipeline = pipeline->next) {
        window_add_info(&pipeline->window, info);
        info->sessions++;
    }
    handles_unlock();
}

void pipelines_orphan(struct pipeline_list *list)
{
    handles_lock();
    for (struct clientk_pipeline *pipeline = list->first; pipeline; pipeline = pipeline->next)
        pipeline->list = NULL;
    list->first = NULL;
    handles_unlock();
}

static void pipeline_leave_list(struct clientk_pipeline *pipeline)
{
    handles_lock();
    if (pipeline->list) {
        struct clientk_pipeline **link = &pipeline->list->first;
        while (*link != pipeline)
            link = &(*link)->next;
        *link = pipeline->next;
        window_add_info(&pipeline->window, &pipeline->list->closed);
    }
    handles_unlock();
}

/* Sending and receiving --------------------------------------------------------------------- */

/* Waits until deadline_ms for one message of the server. KV_TIMEOUT: none came, and messages whose
 * deadline has passed were given up. Otherwise as window_receive. */
static enum kv_status pipeline_receive(struct clientk_pipeline *pipeline, uint64_t deadline_ms)
{
    enum kv_status status = window_receive(&pipeline->window, deadline_ms);
    if (status == KV_TIMEOUT)
        window_give_up(&pipeline->window, NULL);
    else if (status != KV_OK)
        pipeline->filling = NULL; /* its tasks are due again */
    return status;
}

/* Waits until nothing is in flight. */
static void pipeline_drain(struct clientk_pipeline *pipeline, uint64_t deadline_ms)
{
    while (pipeline->window.in_flight > 0)
        pipeline_receive(pipeline, deadline_ms);
}

static void pipeline_lose_session(struct clientk_pipeline *pipeline)
{
    window_lose(&pipeline->window, true);
    pipeline->filling = NULL;
}

/* Sends the message that is being filled, if there is one. */
static void pipeline_send_filling(struct clientk_pipeline *pipeline, uint64_t deadline_ms)
{
    struct window *window = &pipeline->window;
    struct inflight_message *message = pipeline->filling;
    if (message && message->request.count > 0) {
        /* Fragments of two messages must not be in flight at once. */
        if (message->request.in_fragments || window->connection.suspect)
            pipeline_drain(pipeline, deadline_ms);
        if (pipeline->filling && window->in_flight == 0 && !connection_usable(&window->connection))
            pipeline_lose_session(pipeline);
    }
    message = pipeline->filling;
    pipeline->filling = NULL; /* its region of the segment may change before it is filled again */
    if (!message || message->request.count == 0)
        return;
    message->deadline_ms = deadline_ms;
    bool in_fragments = message->request.in_fragments;
    enum kv_status status = window_send(window, message, deadline_ms);
    if (status == KV_NO_MEMORY)
        task_queue_stop(&pipeline->due, KV_NO_MEMORY);
    else if (status == KV_TIMEOUT)
        window_give_up(window, NULL);
    else if (in_fragments)
        pipeline_drain(pipeline, deadline_ms);
}

/* Provides a message to fill. KV_OK: pipeline->filling may be NULL still, if the connection was
 * lost. KV_TIMEOUT; KV_NO_MEMORY; or as window_connect. */
static enum kv_status pipeline_begin_filling(struct clientk_pipeline *pipeline,
                                             uint64_t deadline_ms, struct kv_error *error)
{
    struct window *window = &pipeline->window;
    if (pipeline->filling)
        return KV_OK;
    /* The server may write an answer to the segment for which no task waits any more: no value may
     * be put there before there is a new segment. */
    if (window->connection.suspect) {
        pipeline_drain(pipeline, deadline_ms);
        pipeline_lose_session(pipeline);
    }
    if (!window->connection.open) {
        enum kv_status status = window_connect(window, deadline_ms, error);
        if (status != KV_OK)
            return status;
    }
    struct inflight_message *idle = window_idle_message(window);
    if (!idle)
        return pipeline_receive(pipeline, deadline_ms) == KV_TIMEOUT ? KV_TIMEOUT : KV_OK;
    if (!window_begin(window, idle))
        return KV_NO_MEMORY;
    pipeline->filling = idle;
    return KV_OK;
}

/* Packs due tasks, as many as one message takes. KV_OK; KV_TIMEOUT, KV_NO_MEMORY: nothing was
 * packed. */
static enum kv_status pipeline_fill(struct clientk_pipeline *pipeline, uint64_t deadline_ms)
{
    struct inflight_message *message = pipeline->filling;
    switch (window_fill(&pipeline->window, message, &pipeline->due, pipeline->batch_limit)) {
    case FILL_ALL:
        if (pipeline->batch_limit > 0 && message->request.count >= pipeline->batch_limit)
            pipeline_send_filling(pipeline, deadline_ms);
        return KV_OK;
    case FILL_FULL:
        pipeline_send_filling(pipeline, deadline_ms);
        return KV_OK;
    case FILL_WAITS:
        return pipeline_receive(pipeline, deadline_ms) == KV_TIMEOUT ? KV_TIMEOUT : KV_OK;
    case FILL_SEGMENT:
        pipeline->filling = NULL; /* it is empty */
        pipeline_drain(pipeline, deadline_ms);
        if (pipeline->window.connection.open && !pipeline->window.connection.suspect)
            window_grow(&pipeline->window, message, deadline_ms);
        return KV_OK;
    case FILL_NO_MEMORY:
        break;
    }
    return KV_NO_MEMORY;
}

/* Packs all due tasks. KV_OK, or the reason why some are due still. */
static enum kv_status pipeline_pack_due(struct clientk_pipeline *pipeline, uint64_t deadline_ms,
                                        struct kv_error *error)
{
    enum kv_status status = KV_OK;
    while (pipeline->due.first && status == KV_OK) {
        if (client_settings_time_is_over(&pipeline->settings, deadline_ms))
            return KV_TIMEOUT;
        status = pipeline_begin_filling(pipeline, deadline_ms, error);
        if (status == KV_OK && pipeline->filling)
            status = pipeline_fill(pipeline, deadline_ms);
    }
    return status;
}

/* Packs all due tasks; stops those that cannot be packed. */
static void pipeline_pack_or_stop(struct clientk_pipeline *pipeline, uint64_t deadline_ms)
{
    enum kv_status status = pipeline_pack_due(pipeline, deadline_ms, last_error_of_thread());
    if (status != KV_OK)
        task_queue_stop(&pipeline->due, status == KV_TIMEOUT ? KV_DEADLINE : status);
}

/* When a call that begins now must be over. */
static uint64_t pipeline_deadline_ms(const struct clientk_pipeline *pipeline)
{
    return clock_monotonic_coarse_ms() + pipeline->settings.timeout_ms;
}

/* Waits until every operation is complete. */
static void pipeline_finish(struct clientk_pipeline *pipeline)
{
    if (pipeline->events) {
        event_loop_flush(pipeline);
        return;
    }
    uint64_t deadline_ms = pipeline_deadline_ms(pipeline);
    do {
        pipeline_pack_or_stop(pipeline, deadline_ms);
        pipeline_send_filling(pipeline, deadline_ms);
        pipeline_drain(pipeline, deadline_ms);
    } while (pipeline->due.first);
    KV_ASSERT(pipeline->pending == 0 && pipeline->window.in_flight == 0);
}

/* Calls ------------------------------------------------------------------------------------- */

static void free_pipeline(struct clientk_pipeline *pipeline, bool say_goodbye)
{
    event_loop_free(pipeline, say_goodbye);
    window_free(&pipeline->window, say_goodbye);
    pipeline_free_tasks(pipeline);
    clientk_value_free(&pipeline->result.value);
    free(pipeline);
}

static enum kv_status pipeline_no_memory(struct kv_error *error)
{
    return kv_error_set(error, KV_NO_MEMORY, "no memory for a pipeline");
}

/* Connects, and gives the window `messages` messages (0: as many as it may have), but no more than
 * the server grants. */
static enum kv_status pipeline_connect_first(struct clientk_pipeline *pipeline, uint32_t messages,
                                             struct kv_error *error)
{
    struct window *window = &pipeline->window;
    if (!window_init(window, &pipeline->settings, wire_window_ladder, 1))
        return pipeline_no_memory(error);
    enum kv_status status = window_connect(window, pipeline_deadline_ms(pipeline), error);
    uint16_t credits = window->connection.welcome.credits;
    if (status == KV_OK &&
        !window_set_limit(window, messages == 0 || messages > credits ? credits : messages))
        status = pipeline_no_memory(error);
    return status;
}

enum kv_status pipeline_open(struct pipeline_list *list, const struct client_settings *settings,
                             struct pipeline_sizes sizes, clientk_complete complete_function,
                             void *context, struct clientk_pipeline **pipeline,
                             struct kv_error *error)
{
    struct clientk_pipeline *created = calloc(1, sizeof *created);
    if (!created)
        return pipeline_no_memory(error);
    created->settings = *settings;
    created->fork_generation = handles_fork_generation();
    created->due.lent_until_packed = true;
    created->due.complete = pipeline_complete;
    created->batch_limit = sizes.batch;
    created->complete = complete_function;
    created->context = context;
    enum kv_status status = pipeline_connect_first(created, sizes.window, error);
    if (status == KV_OK) {
        handles_lock();
        created->list = list;
        created->next = list->first;
        list->first = created;
        handles_unlock();
        *pipeline = created;
    } else {
        free_pipeline(created, true);
    }
    return status;
}

/* Checks that `pipeline` belongs to this process. KV_OK; KV_USAGE: nothing may be submitted. */
static enum kv_status pipeline_check_process(const struct clientk_pipeline *pipeline)
{
    struct kv_error *error = last_error_of_thread();
    if (!pipeline)
        return kv_error_set(error, KV_USAGE, "NULL was given as the pipeline");
    if (pipeline->fork_generation != handles_fork_generation())
        return kv_error_set(error, KV_USAGE, "the pipeline belongs to the parent process");
    error->status = KV_OK;
    return KV_OK;
}

/* Checks that `pipeline` may be used at this moment. KV_OK; KV_USAGE. */
static enum kv_status pipeline_check_use(const struct clientk_pipeline *pipeline)
{
    enum kv_status status = pipeline_check_process(pipeline);
    if (status != KV_OK || !pipeline)
        return status;
    if (pipeline->completing)
        return kv_error_set(last_error_of_thread(), KV_USAGE,
                            "a pipeline must not be used within its completion function");
    return KV_OK;
}

/* Adds *operation, with the tag, to a pipeline without an event loop. KV_OK: it will be completed.
 * Any other status: it was not added, and *error says why. */
static enum kv_status pipeline_submit_waiting(struct clientk_pipeline *pipeline,
                                              const struct wire_operation *operation, void *tag,
                                              struct kv_error *error)
{
    uint64_t deadline_ms = pipeline_deadline_ms(pipeline);
    pipeline_pack_or_stop(pipeline, deadline_ms);
    const struct connection *connection = &pipeline->window.connection;
    enum kv_status status = translate_check(
        operation, connection->open ? connection->welcome.max_value_bytes : UINT64_MAX);
    struct task *task = status == KV_OK ? pipeline_take_task(pipeline) : NULL;
    if (!task)
        return status == KV_OK ? KV_NO_MEMORY : status;
    *task = (struct task){.queue = &pipeline->due, .operation = *operation, .target = tag};
    task_queue_push(&pipeline->due, task);
    status = pipeline_pack_due(pipeline, deadline_ms, error);
    if (status == KV_OK)
        return KV_OK;
    bool refused = pipeline_is_due(pipeline, task) && !task->uncertain;
    if (refused)
        pipeline_take_back(pipeline, task);
    task_queue_stop(&pipeline->due, status == KV_TIMEOUT ? KV_DEADLINE : status);
    return refused ? status : KV_OK;
}

enum kv_status clientk_pipeline_submit(struct clientk_pipeline *pipeline,
                                       const struct clientk_operation *operation, void *tag)
{
    bool has_loop = pipeline && pipeline->events;
    enum kv_status status =
        has_loop ? pipeline_check_process(pipeline) : pipeline_check_use(pipeline);
    if (status != KV_OK || !pipeline)
        return status;
    struct kv_error *error = last_error_of_thread();
    struct wire_operation wire;
    status = translate_operation(operation, &wire);
    if (status == KV_OK)
        status = has_loop ? event_loop_submit(pipeline, &wire, tag)
                          : pipeline_submit_waiting(pipeline, &wire, tag, error);
    return last_error_explain(error, status);
}

enum kv_status clientk_pipeline_flush(struct clientk_pipeline *pipeline)
{
    enum kv_status status = pipeline_check_use(pipeline);
    if (status != KV_OK)
        return status;
    pipeline_finish(pipeline);
    status = pipeline->status;
    pipeline->status = KV_OK;
    if (status != KV_OK)
        *last_error_of_thread() = pipeline->error;
    return status;
}

enum kv_status clientk_pipeline_set_priority(struct clientk_pipeline *pipeline, unsigned priority)
{
    enum kv_status status = pipeline_check_use(pipeline);
    if (status == KV_OK)
        status = client_settings_check_priority(priority, last_error_of_thread());
    if (status != KV_OK)
        return status;
    if (pipeline->events)
        event_loop_send(pipeline);
    else
        pipeline_send_filling(pipeline, pipeline_deadline_ms(pipeline));
    atomic_store_explicit(&pipeline->window.connection.priority, priority, memory_order_relaxed);
    return KV_OK;
}

int clientk_pipeline_fd(struct clientk_pipeline *pipeline)
{
    if (pipeline_check_use(pipeline) != KV_OK)
        return -1;
    struct kv_error *error = last_error_of_thread();
    if (!pipeline->events && pipeline->pending > 0) {
        kv_error_set(error, KV_USAGE,
                     "a pipeline is handed to an event loop while it has no operations under way");
        return -1;
    }
    return event_loop_open(pipeline, error) == KV_OK ? event_loop_descriptor(pipeline) : -1;
}

enum kv_status clientk_pipeline_process(struct clientk_pipeline *pipeline)
{
    enum kv_status status = pipeline_check_use(pipeline);
    if (status == KV_OK && !pipeline->events)
        status = kv_error_set(last_error_of_thread(), KV_USAGE,
                              "clientk_pipeline_process is for a pipeline that was asked for its "
                              "descriptor (clientk_pipeline_fd)");
    return status == KV_OK ? event_loop_run(pipeline) : status;
}

size_t clientk_pipeline_pending(const struct clientk_pipeline *pipeline)
{
    return pipeline ? pipeline->pending : 0;
}

static void tell_nobody(void *context, void *tag, const struct clientk_result *result)
{
    (void)context, (void)tag, (void)result;
}

void pipeline_drop(struct clientk_pipeline *pipeline)
{
    bool forked = pipeline->fork_generation != handles_fork_generation();
    pipeline->complete = tell_nobody;
    if (!forked) {
        window_lose(&pipeline->window, true);
        task_queue_stop(&pipeline->due, KV_TIMEOUT);
    }
    pipeline_leave_list(pipeline);
    free_pipeline(pipeline, !forked);
}

void clientk_pipeline_close(struct clientk_pipeline *pipeline)
{
    if (!pipeline || pipeline->completing)
        return;
    bool forked = pipeline->fork_generation != handles_fork_generation();
    if (!forked)
        pipeline_finish(pipeline);
    pipeline_leave_list(pipeline);
    free_pipeline(pipeline, !forked);
}
