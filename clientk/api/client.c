#include "clientk/api/client.h"

#include <stdlib.h>

#include "clientk/api/handle.h"
#include "clientk/base/handles.h"
#include "clientk/base/last_error.h"
#include "clientk/api/threads.h"
#include "clientk/message/translate.h"
#include "common/clock.h"
#include "common/error.h"

static uint64_t deadline_of(const struct clientk *client)
{
    return clock_monotonic_coarse_ms() + client->settings.timeout_ms;
}

enum kv_status client_check(const struct clientk *client)
{
    struct kv_error *error = last_error_of_thread();
    if (!client)
        return kv_error_set(error, KV_USAGE, "no handle: NULL was given as the client");
    if (client->fork_generation != handles_fork_generation())
        return kv_error_set(error, KV_USAGE,
                            "the handle belongs to the parent process: open one in the child, and "
                            "give the parent's to clientk_abandon");
    return KV_OK;
}

/* Executing --------------------------------------------------------------------------------- */

/* Tasks that a call has on its stack; more are allocated. */
#define STACK_TASKS 16u

/* The operations of a call that is being executed. */
struct work {
    const struct clientk_operation *operations; /* NULL: one, which is in its task already */
    size_t count;
    struct clientk_result *results;
    struct task *tasks; /* count of them */
};

static void add_tasks(const struct work *work, struct call *call)
{
    for (size_t i = 0; i < work->count; i++) {
        struct task *task = &work->tasks[i];
        enum kv_status status =
            work->operations ? translate_operation(&work->operations[i], &task->operation) : KV_OK;
        if (status == KV_OK)
            call_add(call, task, &work->results[i]);
        else
            result_clear(&work->results[i], status);
    }
}

/* KV_OK, or what stopped it. A thread that the kernel's limits grant no session shares the first one. */
static enum kv_status execute(struct clientk *client, const struct work *work,
                              struct kv_error *error)
{
    struct call call;
    error->status = KV_OK;
    struct attachment *attachment = thread_attachment(client);
    do {
        call_init(&call, deadline_of(client), error);
        add_tasks(work, &call);
        if (call_finished(&call))
            return KV_OK;
        if (!attachment) {
            call_stop(&call, KV_NO_MEMORY, KV_NO_MEMORY);
            return KV_NO_MEMORY;
        }
        call.sleeper = thread_number(attachment);
        combiner_execute(thread_combiner(attachment), &call, thread_waiter(attachment));
    } while (call.status == KV_LIMIT && !call.sent && thread_share_first_combiner(attachment));
    return call.status;
}

enum kv_status client_execute_one(struct clientk *client, struct task *task,
                                  struct clientk_result *result)
{
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    struct work work = {.count = 1, .results = result, .tasks = task};
    struct kv_error *error = last_error_of_thread();
    execute(client, &work, error);
    return last_error_explain(error, result->status);
}

/* What was not begun because of what stopped the operations before it. */
static void stop_rest(struct clientk_result *results, size_t count, enum kv_status status)
{
    if (status == KV_OUTCOME_UNKNOWN)
        status = KV_NO_SERVER;
    else if (status == KV_TIMEOUT)
        status = KV_DEADLINE;
    for (size_t i = 0; i < count; i++)
        result_clear(&results[i], status);
}

enum kv_status client_execute(struct clientk *client, const struct clientk_operation *operations,
                              size_t count, struct clientk_result *results)
{
    struct task on_stack[STACK_TASKS];
    size_t capacity = count < WIRE_MAX_OPERATIONS ? count : WIRE_MAX_OPERATIONS;
    struct work work = {.tasks = on_stack};
    struct kv_error *error = last_error_of_thread();
    enum kv_status status = KV_OK;
    if (capacity > STACK_TASKS)
        work.tasks = malloc(capacity * sizeof *work.tasks);
    if (!work.tasks) {
        stop_rest(results, count, KV_NO_MEMORY);
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a batch");
    }
    for (size_t begun = 0; begun < count && status == KV_OK; begun += work.count) {
        work.operations = operations + begun;
        work.results = results + begun;
        work.count = count - begun < capacity ? count - begun : capacity;
        status = execute(client, &work, error);
        if (status != KV_OK)
            stop_rest(work.results + work.count, count - begun - work.count, status);
    }
    if (work.tasks != on_stack)
        free(work.tasks);
    return last_error_explain(error, status);
}

const char *clientk_version(void)
{
    return MQKV_VERSION_STRING;
}

/* Open and close ------------------------------------------------------------------------------ */

static void free_client(struct clientk *client, bool say_goodbye)
{
    threads_detach_all(client);
    for (unsigned i = 0; i < client->combiner_count; i++)
        combiner_free(&client->combiners[i], say_goodbye);
    free(client->slot_owners);
    free(client->combiners);
    free(client);
}

/* A handle without a session. NULL: no memory. */
static struct clientk *new_client(const struct client_settings *settings)
{
    struct clientk *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->settings = *settings;
    atomic_init(&client->priority, settings->priority);
    client->fork_generation = handles_fork_generation();
    unsigned count = settings->combine_above > settings->combine_groups ? settings->combine_above
                                                                        : settings->combine_groups;
    client->slot_owners = calloc(settings->combine_above, sizeof *client->slot_owners);
    client->combiners = aligned_alloc(CACHE_LINE_BYTES, count * sizeof *client->combiners);
    if (!client->slot_owners || !client->combiners) {
        free_client(client, false);
        return NULL;
    }
    client->combiner_count = count;
    bool made = true;
    for (unsigned i = 0; i < count; i++)
        made &= combiner_init(&client->combiners[i], &client->settings);
    if (made)
        return client;
    free_client(client, false);
    return NULL;
}

static enum kv_status connect_first(struct clientk *client, struct kv_error *error)
{
    bool fail_fast = client->settings.fail_fast;
    client->settings.fail_fast = fail_fast || client->settings.fail_fast_open;
    enum kv_status status = combiner_connect(&client->combiners[0], deadline_of(client), error);
    client->settings.fail_fast = fail_fast;
    if (status == KV_OK && !client->settings.insists_on_uid) {
        client->settings.server_uid = client->combiners[0].window.connection.server_uid;
        client->settings.insists_on_uid = true;
        client->settings.uid_was_met = true;
    }
    return status;
}

enum kv_status clientk_open(const struct clientk_options *options, struct clientk **client,
                            struct kv_error *error)
{
    struct kv_error *last_error = last_error_of_thread();
    struct client_settings settings;
    enum kv_status status = client_settings_read(&settings, options, last_error);
    struct clientk *opened = NULL;
    if (status == KV_OK) {
        threads_setup();
        opened = new_client(&settings);
        status = opened ? connect_first(opened, last_error)
                        : kv_error_set(last_error, KV_NO_MEMORY, "no memory for a handle");
    }
    if (status == KV_OK) {
        *client = opened;
        return KV_OK;
    }
    if (opened)
        free_client(opened, false);
    if (error)
        *error = *last_error;
    return status;
}

void clientk_close(struct clientk *client)
{
    if (!client)
        return;
    bool child = client->fork_generation != handles_fork_generation();
    pipelines_orphan(&client->pipelines);
    free_client(client, !child);
}

void clientk_abandon(struct clientk *client)
{
    if (!client)
        return;
    pipelines_orphan(&client->pipelines);
    free_client(client, false);
}

enum kv_status clientk_set_priority(struct clientk *client, unsigned priority)
{
    enum kv_status status = client_check(client);
    if (status == KV_OK)
        status = client_settings_check_priority(priority, last_error_of_thread());
    if (status != KV_OK)
        return status;
    atomic_store(&client->priority, priority);
    for (unsigned i = 0; i < client->combiner_count; i++)
        atomic_store(&client->combiners[i].window.connection.priority, priority);
    return KV_OK;
}

void clientk_info(struct clientk *client, struct clientk_info *info)
{
    *info = (struct clientk_info){.sessions = 0};
    if (client_check(client) != KV_OK)
        return;
    for (unsigned i = 0; i < client->combiner_count; i++)
        combiner_add_info(&client->combiners[i], info);
    pipelines_add_info(&client->pipelines, info);
}

enum kv_status clientk_pipeline_open(struct clientk *client, uint32_t window, uint32_t batch,
                                     clientk_complete complete, void *context,
                                     struct clientk_pipeline **pipeline, struct kv_error *error)
{
    struct kv_error *last_error = last_error_of_thread();
    enum kv_status status = client_check(client);
    if (status == KV_OK && !complete)
        status = kv_error_set(last_error, KV_USAGE, "NULL was given as the completion function");
    if (status == KV_OK) {
        struct client_settings settings = client->settings;
        settings.priority = atomic_load(&client->priority);
        struct pipeline_sizes sizes = {.window = window, .batch = batch};
        status = pipeline_open(&client->pipelines, &settings, sizes, complete, context, pipeline,
                               last_error);
    }
    if (status != KV_OK && error)
        *error = *last_error;
    return status;
}
