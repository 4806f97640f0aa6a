/*
 * event_loop: a pipeline that never waits, for programs that wait themselves, for many things at
 * once. Everything for which the pipeline would wait is in one epoll set, whose descriptor stays
 * the same while the pipeline is open: messages and the end of the server, room in a lane that was
 * full, and a timer.
 *
 * Connecting (connect.h) and growing the segment (segment_growth.h) proceed in steps, from event to
 * event. A task that cannot be packed yet stays due, with a copy of its key and value, until its
 * deadline.
 *
 * Threads: as the pipeline.
 */
#ifndef MQKV_CLIENTK_PIPELINE_EVENT_LOOP_H
#define MQKV_CLIENTK_PIPELINE_EVENT_LOOP_H

#include <stdbool.h>

#include "clientk/pipeline/pipeline_state.h"
#include "mqkv/error.h"

/* Sets pipeline->events unless it is set; nothing may be pending. KV_OK; KV_LIMIT, KV_NO_MEMORY,
 * KV_IO, or as connection_open. */
enum kv_status event_loop_open(struct clientk_pipeline *pipeline, struct kv_error *error);

/* Returns the descriptor of the epoll set, which is readable when event_loop_run has something to
 * do. */
int event_loop_descriptor(const struct clientk_pipeline *pipeline);

/* Adds *operation with its tag; pipeline->complete may call this, too. KV_OK, KV_BAD_KEY,
 * KV_VALUE_TOO_BIG, KV_NO_MEMORY. */
enum kv_status event_loop_submit(struct clientk_pipeline *pipeline,
                                 const struct wire_operation *operation, void *tag);

/* Sends the message that is being filled, if that is possible now. */
void event_loop_send(struct clientk_pipeline *pipeline);

/* Does what can be done without waiting. KV_OK; KV_LIMIT, KV_NO_MEMORY: the set cannot watch a
 * descriptor. */
enum kv_status event_loop_run(struct clientk_pipeline *pipeline);

/* Makes the descriptor readable soon, for a reason that the pipeline does not know. */
void event_loop_wake(struct clientk_pipeline *pipeline);

/* Waits until nothing is pending. */
void event_loop_flush(struct clientk_pipeline *pipeline);

/* Closes the epoll set and the session. Harmless if there is no set. say_goodbye: false in a child
 * of fork(2), whose parent still uses the set. */
void event_loop_free(struct clientk_pipeline *pipeline, bool say_goodbye);

#endif
