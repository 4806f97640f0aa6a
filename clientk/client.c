#include "clientk/client.h"

#include <stdlib.h>

#include "clientk/last_error.h"
#include "clientk/pipeline.h"
#include "clientk/threads.h"
#include "common/clock.h"

uint64_t client_deadline_ms(const struct clientk *client)
{
    return clock_monotonic_coarse_ms() + client->settings.timeout_ms;
}

enum kv_status client_check(const struct clientk *client)
{
    struct kv_error *error = last_error_of_thread();
    if (!client)
        return kv_error_set(error, KV_USAGE, "no handle: NULL was given as the client");
    if (client->fork_generation != threads_fork_generation())
        return kv_error_set(error, KV_USAGE,
                            "the handle belongs to the parent process: open one in the child, and "
                            "give the parent's to clientk_abandon");
    return KV_OK;
}

enum kv_status client_execute(struct clientk *client, struct request *request)
{
    request->error = last_error_of_thread();
    request->error->status = KV_OK;
    if (request->count == 0)
        return KV_OK;
    struct attachment *attachment = thread_attachment(client);
    if (!attachment) {
        request_stop(request, KV_NO_MEMORY, KV_NO_MEMORY);
        return last_error_explain(request->error, KV_NO_MEMORY);
    }
    request->deadline_ms = client_deadline_ms(client);
    request->sleeper = thread_number(attachment);
    for (;;) {
        enum kv_status status =
            channel_execute(thread_channel(attachment), request, thread_waiter(attachment));
        if (status != KV_LIMIT || request->sent || !thread_share_first_channel(attachment))
            return last_error_explain(request->error, status);
        request_restart(request);
    }
}

/* The status of a call of one operation is that of its result. */
static enum kv_status execute_single(struct clientk *client, struct request *request)
{
    enum kv_status status = client_check(client);
    if (status != KV_OK)
        return status;
    client_execute(client, request);
    return last_error_explain(request->error, request->results->status);
}

enum kv_status client_execute_one(struct clientk *client, const struct clientk_operation *operation,
                                  struct clientk_result *result)
{
    struct request request = {.operations = operation, .count = 1, .results = result};
    return execute_single(client, &request);
}

enum kv_status client_execute_special(struct clientk *client,
                                      const struct wire_operation *operation,
                                      struct clientk_result *result)
{
    struct request request = {.special = operation, .count = 1, .results = result};
    return execute_single(client, &request);
}

/* Open and close ------------------------------------------------------------------------------ */

static void free_client(struct clientk *client, bool say_goodbye)
{
    threads_detach_all(client);
    for (unsigned i = 0; i < client->channel_count; i++)
        channel_free(&client->channels[i], say_goodbye);
    free(client->slot_owners);
    free(client->channels);
    free(client);
}

/* A handle without a session. NULL: no memory. */
static struct clientk *new_client(const struct settings *settings)
{
    struct clientk *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->settings = *settings;
    atomic_init(&client->priority, settings->priority);
    client->fork_generation = threads_fork_generation();
    unsigned count = settings->combine_above > settings->combine_groups ? settings->combine_above
                                                                        : settings->combine_groups;
    client->slot_owners = calloc(settings->combine_above, sizeof *client->slot_owners);
    client->channels = aligned_alloc(CACHE_LINE_BYTES, count * sizeof *client->channels);
    if (!client->slot_owners || !client->channels) {
        free_client(client, false);
        return NULL;
    }
    client->channel_count = count;
    for (unsigned i = 0; i < count; i++)
        channel_init(&client->channels[i], &client->settings);
    return client;
}

static enum kv_status connect_first(struct clientk *client, struct kv_error *error)
{
    bool fail_fast = client->settings.fail_fast;
    client->settings.fail_fast = fail_fast || client->settings.fail_fast_open;
    enum kv_status status =
        channel_connect(&client->channels[0], client_deadline_ms(client), error);
    client->settings.fail_fast = fail_fast;
    if (status == KV_OK && !client->settings.insists_on_uid) {
        client->settings.server_uid = client->channels[0].connection.server_uid;
        client->settings.insists_on_uid = true;
        client->settings.uid_was_met = true;
    }
    return status;
}

enum kv_status clientk_open(const struct clientk_options *options, struct clientk **client,
                            struct kv_error *error)
{
    struct kv_error *last_error = last_error_of_thread();
    struct settings settings;
    enum kv_status status = settings_read(&settings, options, last_error);
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
    bool child = client->fork_generation != threads_fork_generation();
    pipelines_orphan(client);
    free_client(client, !child);
}

void clientk_abandon(struct clientk *client)
{
    if (!client)
        return;
    pipelines_orphan(client);
    free_client(client, false);
}

enum kv_status clientk_set_priority(struct clientk *client, unsigned priority)
{
    enum kv_status status = client_check(client);
    if (status == KV_OK)
        status = settings_check_priority(priority, last_error_of_thread());
    if (status != KV_OK)
        return status;
    atomic_store(&client->priority, priority);
    for (unsigned i = 0; i < client->channel_count; i++)
        atomic_store(&client->channels[i].connection.priority, priority);
    return KV_OK;
}

void clientk_info(struct clientk *client, struct clientk_info *info)
{
    *info = (struct clientk_info){.sessions = 0};
    if (client_check(client) != KV_OK)
        return;
    for (unsigned i = 0; i < client->channel_count; i++)
        channel_add_info(&client->channels[i], info);
    pipelines_add_info(client, info);
}
