/* The calls of clientk.h that open, close and describe a handle. */
#include "mqkv/clientk.h"

#include <stdlib.h>

#include "clientk/api/calls.h"
#include "clientk/api/handle.h"
#include "clientk/base/handles.h"
#include "clientk/base/last_error.h"
#include "clientk/api/threads.h"
#include "clientk/pipeline/change_stream.h"
#include "common/memory/reserved.h"
#include "common/report/error.h"
#include "wire/operation.h"

const char *clientk_version(void)
{
    return MQKV_VERSION_STRING;
}

static void free_client(struct clientk *client, bool say_goodbye)
{
    threads_detach_all(client);
    for (unsigned i = 0; i < client->combiner_count; i++)
        combiner_free(&client->combiners[i], say_goodbye);
    direct_free(&client->direct);
    free(client->slot_owners);
    free(client->combiners);
    free(client);
}

/* Makes a handle without a session. NULL: no memory. */
static struct clientk *new_client(const struct client_settings *settings)
{
    struct clientk *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->settings = *settings;
    direct_init(&client->direct, settings);
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
        made &= combiner_init(&client->combiners[i], &client->settings, &client->direct);
    if (made)
        return client;
    free_client(client, false);
    return NULL;
}

/* Connects the first combiner, and notes the uid of the server: the handle accepts no other
 * later. */
static enum kv_status client_connect_first(struct clientk *client, struct kv_error *error)
{
    bool fail_fast = client->settings.fail_fast;
    client->settings.fail_fast = fail_fast || client->settings.fail_fast_open;
    enum kv_status status =
        combiner_connect(&client->combiners[0], client_deadline_ms(client), error);
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
    if (status == KV_OK)
        status = threads_setup(last_error);
    if (status == KV_OK) {
        opened = new_client(&settings);
        status = opened ? client_connect_first(opened, last_error)
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
    direct_add_info(&client->direct, info);
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

enum kv_status clientk_watch_open(struct clientk *client,
                                  const struct clientk_watch_options *options,
                                  struct clientk_watch **watch, struct kv_error *error)
{
    static const struct clientk_watch_options no_options;
    struct kv_error *last_error = last_error_of_thread();
    enum kv_status status = client_check(client);
    if (!options)
        options = &no_options;
    if (status == KV_OK && (!RESERVED_IS_CLEAR(options->reserved) ||
                            !RESERVED_BYTES_ARE_CLEAR(options->reserved_bytes)))
        status = kv_error_set(last_error, KV_UNSUPPORTED, "reserved: " RESERVED_ADVICE);
    if (status == KV_OK && options->prefix.size > WIRE_MAX_KEY_BYTES)
        status = kv_error_set(last_error, KV_BAD_KEY, "a prefix has at most %u bytes",
                              WIRE_MAX_KEY_BYTES);
    if (status == KV_OK) {
        struct client_settings settings = client->settings;
        settings.priority = atomic_load(&client->priority);
        status = change_stream_open(&client->pipelines, &settings, options, watch, last_error);
    }
    if (status != KV_OK && error)
        *error = *last_error;
    return status;
}
