/*
 * pipeline: the clientk_pipeline calls, but for the one that opens, and the list of a handle's
 * pipelines. A pipeline has a session of its own and lives until it is closed, even if its handle
 * is closed first.
 */
#ifndef MQKV_CLIENTK_PIPELINE_PIPELINE_H
#define MQKV_CLIENTK_PIPELINE_PIPELINE_H

#include <stdint.h>

#include "clientk/base/client_settings.h"
#include "mqkv/clientk.h"
#include "mqkv/error.h"

/* The pipelines of a handle; start from {0}. Guarded by handles_lock. */
struct pipeline_list {
    struct clientk_pipeline *first;
    struct clientk_info closed; /* counters of those that were closed */
};

/* As clientk_pipeline_open says; 0: the default. */
struct pipeline_sizes {
    uint32_t window, batch;
};

/* A pipeline that is connected and in the list. The settings are copied. */
enum kv_status pipeline_open(struct pipeline_list *list, const struct client_settings *settings,
                             struct pipeline_sizes sizes, clientk_complete complete, void *context,
                             struct clientk_pipeline **pipeline, struct kv_error *error);

/* Ends the pipeline at once: what is under way is told to nobody. */
void pipeline_drop(struct clientk_pipeline *pipeline);

/* Adds what the pipelines of the list did, open ones and closed ones. */
void pipelines_add_info(const struct pipeline_list *list, struct clientk_info *info);

/* The list is about to be freed: its pipelines forget it. */
void pipelines_orphan(struct pipeline_list *list);

#endif
