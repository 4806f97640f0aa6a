/* clientk_queue_open and clientk_queue_close. */
#include <stdio.h>
#include <stdlib.h>

#include "clientk/queue/queue_state.h"
#include "clientk/queue/time_tree.h"
#include "common/report/error.h"

#define DEFAULT_LEASE_MS 30000u

static bool is_queue_name(struct kv_slice name)
{
    const uint8_t *bytes = name.data;
    if (name.size == 0 || name.size > CLIENTK_MAX_QUEUE_NAME)
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (bytes[i] < ' ' || bytes[i] == ':' || bytes[i] == 0x7f)
            return false;
    return true;
}

static enum kv_status check_queue_options(const struct clientk_queue_options *options,
                                          struct kv_error *error)
{
    uint64_t reserved = options->reserved_number | options->reserved_number_too;
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        reserved |= options->reserved[i];
    if (reserved)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "the options of the queue have more than this library knows");
    if (options->durability > CLIENTK_SYNC_ALWAYS)
        return kv_error_set(error, KV_USAGE, "the durability of the queue is none");
    return KV_OK;
}

enum kv_status clientk_queue_open(struct clientk *client, struct kv_slice name,
                                  const struct clientk_queue_options *options,
                                  struct clientk_queue **queue, struct kv_error *error)
{
    struct kv_error unwanted = {0};
    if (!error)
        error = &unwanted;
    if (!client || !queue)
        return kv_error_set(error, KV_USAGE, "NULL was given as the %s",
                            client ? "place of the queue" : "handle");
    *queue = NULL;
    if (!is_queue_name(name))
        return kv_error_set(error, KV_USAGE,
                            "the name of a queue has 1 to %u bytes, no ':' and no control "
                            "characters",
                            CLIENTK_MAX_QUEUE_NAME);
    enum kv_status status = options ? check_queue_options(options, error) : KV_OK;
    if (status != KV_OK)
        return status;
    struct clientk_queue *opened = calloc(1, sizeof *opened);
    if (opened)
        opened->nodes = time_nodes_new();
    if (!opened || !opened->nodes) {
        free(opened);
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a queue");
    }
    opened->client = client;
    if (options)
        opened->options = *options;
    if (opened->options.lease_ms == 0)
        opened->options.lease_ms = DEFAULT_LEASE_MS;
    snprintf(opened->prefix, sizeof opened->prefix, "queue:%.*s:", (int)name.size,
             (const char *)name.data);
    opened->look.prefix = opened->plan.prefix = opened->prefix;
    random_seed(&opened->random, random_secret());
    *queue = opened;
    return KV_OK;
}

void clientk_queue_close(struct clientk_queue *queue)
{
    if (!queue)
        return;
    clientk_watch_close(queue->watch);
    plan_end(&queue->look);
    plan_end(&queue->plan);
    time_nodes_free(queue->nodes);
    clientk_value_free(&queue->value);
    clientk_value_free(&queue->located);
    free(queue);
}
