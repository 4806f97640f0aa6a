/*
 * change_stream: the inside of clientk_watch: a pipeline of its own, with one WATCH under way
 * (docs/PROTOCOL.md, 7.15), which the server answers when there are changes. Only the watch knows
 * its place in the changes: a server that was restarted is asked from there on.
 *
 * Threads: one at a time for each watch.
 */
#ifndef MQKV_CLIENTK_PIPELINE_CHANGE_STREAM_H
#define MQKV_CLIENTK_PIPELINE_CHANGE_STREAM_H

#include "clientk/pipeline/pipeline.h"

/* Opens a watch: connects, as a pipeline in *list, and begins at options->since, or, if that is
 * NULL, with the changes of now. *settings is copied. KV_USAGE: `since` is no position;
 * KV_UNSUPPORTED: the server cannot tell of changes; or as pipeline_open. */
enum kv_status change_stream_open(struct pipeline_list *list,
                                  const struct client_settings *settings,
                                  const struct clientk_watch_options *options,
                                  struct clientk_watch **watch, struct kv_error *error);

#endif
