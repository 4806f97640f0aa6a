/*
 * event_loop: a pipeline that never waits: for programs that wait themselves, for many things at
 * once. All that it waits for is in one epoll set, whose descriptor stays the same as long as the
 * pipeline is open: messages and the end of the server, room in a lane that was full, and a timer
 * for everything that has a time.
 *
 * Connecting (connect.h) and growing the segment (segment_growth.h) go on in steps, from event to
 * event. What cannot be packed yet stays due, with a copy of its key and value, until its
 * deadline.
 *
 * Threads: those of the pipeline, one at a time.
 */
#ifndef MQKV_CLIENTK_PIPELINE_EVENT_LOOP_H
#define MQKV_CLIENTK_PIPELINE_EVENT_LOOP_H

#include <stdbool.h>

#include "clientk/pipeline/pipeline_state.h"
#include "mqkv/error.h"

/* Sets pipeline->events, if it is not set; nothing may be pending. KV_OK; KV_LIMIT,
 * KV_NO_MEMORY, KV_IO. */
enum kv_status event_loop_open(struct clientk_pipeline *pipeline, struct kv_error *error);

/* Of the epoll set: readable when event_loop_run has something to do. */
int event_loop_descriptor(const struct clientk_pipeline *pipeline);

/* Adds an operation; may be called while a completion is told. KV_OK, KV_BAD_KEY, KV_VALUE_TOO_BIG,
 * KV_NO_MEMORY. */
enum kv_status event_loop_submit(struct clientk_pipeline *pipeline,
                                 const struct wire_operation *operation, void *tag);

/* Sends what is being filled, if that is possible now. */
void event_loop_send(struct clientk_pipeline *pipeline);

/* Does what can be done without waiting. KV_OK; KV_LIMIT, KV_NO_MEMORY: the set cannot watch a
 * descriptor. */
enum kv_status event_loop_run(struct clientk_pipeline *pipeline);

/* Makes the descriptor readable soon, for what the pipeline does not know of. */
void event_loop_wake(struct clientk_pipeline *pipeline);

/* Waits until nothing is pending. */
void event_loop_flush(struct clientk_pipeline *pipeline);

/* Harmless if there is none. say_goodbye false: in a child of fork(2), where the set is the
 * parent's still. */
void event_loop_free(struct clientk_pipeline *pipeline, bool say_goodbye);

#endif
