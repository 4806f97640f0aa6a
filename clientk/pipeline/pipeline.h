/*
 * pipeline: the clientk_pipeline calls, except clientk_pipeline_open, and the list of a handle's
 * pipelines. A pipeline has a session of its own and lives until it is closed, even if its handle
 * is closed first.
 *
 * Threads: one at a time for each pipeline; any for a list.
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
    struct clientk_info closed; /* counters of the pipelines that were closed */
};

/* The arguments of clientk_pipeline_open; 0: the default. */
struct pipeline_sizes {
    uint32_t window, batch;
};

/* Makes a pipeline that is connected and in *list. *settings is copied; complete, context: as
 * clientk_pipeline_open says. KV_OK; KV_NO_MEMORY; or as connection_open. */
enum kv_status pipeline_open(struct pipeline_list *list, const struct client_settings *settings,
                             struct pipeline_sizes sizes, clientk_complete complete, void *context,
                             struct clientk_pipeline **pipeline, struct kv_error *error);

/* Ends the pipeline at once; `complete` is not called for what is under way. */
void pipeline_drop(struct clientk_pipeline *pipeline);

/* Adds to *info the counters of the pipelines of *list, of open and of closed ones. */
void pipelines_add_info(const struct pipeline_list *list, struct clientk_info *info);

/* Makes the pipelines of *list, which is about to be freed, forget it. */
void pipelines_orphan(struct pipeline_list *list);

#endif
