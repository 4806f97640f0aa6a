/*
 * change_stream: the inside of clientk_watch: a pipeline of its own, with one WATCH under way
 * (docs/PROTOCOL.md, 7.15), which the server answers when there is something to tell. All that is
 * known of the place in the changes is here: a server that was restarted is asked from there on.
 *
 * Threads: one at a time.
 */
#ifndef MQKV_CLIENTK_PIPELINE_CHANGE_STREAM_H
#define MQKV_CLIENTK_PIPELINE_CHANGE_STREAM_H

#include "clientk/pipeline/pipeline.h"

/* Connects; with since NULL the positions are those of now, else of that text. The settings are
 * copied. KV_USAGE: the text is none; KV_UNSUPPORTED: the server cannot; as pipeline_open. */
enum kv_status change_stream_open(struct pipeline_list *list,
                                  const struct client_settings *settings,
                                  const struct clientk_watch_options *options,
                                  struct clientk_watch **watch, struct kv_error *error);

#endif
