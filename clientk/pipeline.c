#include "clientk/pipeline.h"

#include <stdlib.h>

#include "clientk/client.h"
#include "clientk/last_error.h"
#include "clientk/threads.h"
#include "clientk/traffic.h"
#include "clientk/translate.h"
#include "common/clock.h"

struct clientk_pipeline {
    struct settings settings;
    unsigned fork_generation;
    struct traffic traffic;

    /* Guarded by handles_lock. */
    struct clientk *client; /* NULL: it was closed */
    struct clientk_pipeline *next;
};

static uint64_t relaxed(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_info(const struct traffic *traffic, struct clientk_info *info)
{
    info->messages += relaxed(&traffic->messages);
    info->operations += relaxed(&traffic->operations);
    info->reconnects += relaxed(&traffic->reconnects);
}

void pipelines_add_info(struct clientk *client, struct clientk_info *info)
{
    handles_lock();
    info->messages += client->past.messages;
    info->operations += client->past.operations;
    info->reconnects += client->past.reconnects;
    for (const struct clientk_pipeline *pipeline = client->pipelines; pipeline;
         pipeline = pipeline->next) {
        add_info(&pipeline->traffic, info);
        info->sessions++;
    }
    handles_unlock();
}

void pipelines_orphan(struct clientk *client)
{
    handles_lock();
    for (struct clientk_pipeline *pipeline = client->pipelines; pipeline; pipeline = pipeline->next)
        pipeline->client = NULL;
    client->pipelines = NULL;
    handles_unlock();
}

static void join_client(struct clientk_pipeline *pipeline, struct clientk *client)
{
    handles_lock();
    pipeline->client = client;
    pipeline->next = client->pipelines;
    client->pipelines = pipeline;
    handles_unlock();
}

static void leave_client(struct clientk_pipeline *pipeline)
{
    handles_lock();
    if (pipeline->client) {
        struct clientk_pipeline **link = &pipeline->client->pipelines;
        while (*link != pipeline)
            link = &(*link)->next;
        *link = pipeline->next;
        add_info(&pipeline->traffic, &pipeline->client->past);
    }
    handles_unlock();
}

/* A pipeline that is connected, but not known to its handle yet. */
static enum kv_status new_pipeline(struct clientk *client, uint32_t window, struct traffic traffic,
                                   struct clientk_pipeline **pipeline, struct kv_error *error)
{
    struct clientk_pipeline *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a pipeline");
    created->settings = client->settings;
    created->settings.priority = atomic_load(&client->priority);
    created->fork_generation = client->fork_generation;
    created->traffic = traffic;
    enum kv_status status = traffic_open(&created->traffic, &created->settings, window,
                                         client_deadline_ms(client), error);
    if (status == KV_OK)
        *pipeline = created;
    else
        free(created);
    return status;
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
        struct traffic traffic = {.batch_limit = batch, .complete = complete, .context = context};
        status = new_pipeline(client, window, traffic, pipeline, last_error);
    }
    if (status == KV_OK)
        join_client(*pipeline, client);
    else if (error)
        *error = *last_error;
    return status;
}

static uint64_t deadline_ms(const struct clientk_pipeline *pipeline)
{
    return clock_monotonic_coarse_ms() + pipeline->settings.timeout_ms;
}

/* KV_OK, or KV_USAGE if the pipeline must not be used here. */
static enum kv_status check_use(const struct clientk_pipeline *pipeline)
{
    struct kv_error *error = last_error_of_thread();
    if (!pipeline)
        return kv_error_set(error, KV_USAGE, "NULL was given as the pipeline");
    if (pipeline->traffic.completing)
        return kv_error_set(error, KV_USAGE,
                            "a pipeline must not be used within its completion function");
    if (pipeline->fork_generation != threads_fork_generation())
        return kv_error_set(error, KV_USAGE, "the pipeline belongs to the parent process");
    return KV_OK;
}

enum kv_status clientk_pipeline_submit(struct clientk_pipeline *pipeline,
                                       const struct clientk_operation *operation, void *tag)
{
    enum kv_status status = check_use(pipeline);
    if (status != KV_OK)
        return status;
    struct kv_error *error = last_error_of_thread();
    error->status = KV_OK;
    struct wire_operation wire;
    status = translate_operation(operation, &wire);
    if (status == KV_OK)
        status = traffic_add(&pipeline->traffic, &wire, tag, deadline_ms(pipeline), error);
    return last_error_explain(error, status);
}

enum kv_status clientk_pipeline_flush(struct clientk_pipeline *pipeline)
{
    enum kv_status status = check_use(pipeline);
    if (status != KV_OK)
        return status;
    struct kv_error *error = last_error_of_thread();
    error->status = KV_OK;
    return last_error_explain(error, traffic_finish(&pipeline->traffic, deadline_ms(pipeline)));
}

enum kv_status clientk_pipeline_set_priority(struct clientk_pipeline *pipeline, unsigned priority)
{
    enum kv_status status = check_use(pipeline);
    if (status == KV_OK)
        status = settings_check_priority(priority, last_error_of_thread());
    if (status == KV_OK)
        traffic_set_priority(&pipeline->traffic, priority, deadline_ms(pipeline));
    return status;
}

void clientk_pipeline_close(struct clientk_pipeline *pipeline)
{
    if (!pipeline || pipeline->traffic.completing)
        return;
    bool forked = pipeline->fork_generation != threads_fork_generation();
    if (!forked)
        traffic_finish(&pipeline->traffic, deadline_ms(pipeline));
    leave_client(pipeline);
    traffic_close(&pipeline->traffic, !forked);
    free(pipeline);
}
