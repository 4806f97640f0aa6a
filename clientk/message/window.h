/*
 * window: the messages in flight of one session. The owner of the window fills messages with tasks
 * (task.h) and sends them; answers complete the tasks. Tasks return to the front of their queues if
 * the server stopped before them, if their value needs more room, or if a lost connection left them
 * undone. So every task completes exactly once, whatever happens to its message.
 *
 * Synchronous calls use a window of one message (combiner.h), pipelines one of several
 * (pipeline.c). Order: the server executes the operations of a message in order, and an operation
 * waits while another one on its key is in flight, unless both only read. So the operations of a
 * queue on one key take effect in the order of the queue.
 *
 * Short replies: a server that offers them (WIRE_WELCOME_SHORT_REPLIES) stops at the first
 * operation whose result does not fit, and answers with the results so far. With an older server an
 * operation that gives a value is the last of its message, since it may be refused and sent again.
 *
 * Threads: one at a time, except that any thread may read the counters.
 */
#ifndef MQKV_CLIENTK_MESSAGE_WINDOW_H
#define MQKV_CLIENTK_MESSAGE_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/message/key_set.h"
#include "clientk/message/request_builder.h"
#include "clientk/message/task.h"
#include "clientk/session/connection.h"
#include "clientk/session/round_trip.h"

/* Private to window.c, except in_flight, request.count, and deadline_ms, which the owner sets
 * before the message is sent. */
struct inflight_message {
    struct request_builder request;
    struct round_trip round_trip;
    struct task **tasks; /* request.count of them; NULL: completed */
    uint32_t tasks_capacity;
    uint32_t unfinished;  /* tasks that are not complete */
    uint64_t deadline_ms; /* until when a caller waits for the message */
    bool in_flight;
    bool has_refused; /* has a task that is sent again because its value lacked room */
};

struct window {
    struct connection connection;
    struct inflight_message *messages; /* limit of them */
    unsigned limit;                    /* messages in flight at most */
    unsigned in_flight;
    bool to_send;           /* part of a message in flight could not be sent yet */
    bool refused_in_flight; /* the message in flight has_refused */
    struct key_set keys;    /* of the operations in flight, if limit > 1 */
    _Atomic uint64_t messages_sent, operations_sent, reconnects;
};

/* Makes a window without a session, for `limit` messages in flight. `ladder`: as in
 * connection_init. False: no memory. */
bool window_init(struct window *window, const struct client_settings *settings,
                 const struct wire_geometry *ladder, unsigned limit);

/* Changes the number of messages to `limit`. No message may be in flight or being filled. False: no
 * memory, and nothing has changed. */
bool window_set_limit(struct window *window, unsigned limit);

/* Closes the session, after BYE if `say_goodbye`, and frees the window. Tasks in flight are
 * forgotten. */
void window_free(struct window *window, bool say_goodbye);

/* Like connection_open, and counts reconnects. Nothing may be in flight. */
enum kv_status window_connect(struct window *window, uint64_t deadline_ms, struct kv_error *error);

/* Returns a message that is not in flight; NULL: all are. */
struct inflight_message *window_idle_message(struct window *window);

/* Empties the message, which is not in flight, so that it can be filled: its tasks are due again.
 * False: no memory. */
bool window_begin(struct window *window, struct inflight_message *message);

enum fill_verdict {
    FILL_ALL,     /* the queue is empty now */
    FILL_FULL,    /* the message takes no more of it */
    FILL_WAITS,   /* the next task must not overtake one that is in flight */
    FILL_SEGMENT, /* the message is empty, and its region of the segment too small: window_grow */
    FILL_NO_MEMORY
};

/* Moves tasks from the front of the queue into the message, until that has `limit` operations (0:
 * as many as fit). A task that needs no message to be answered is completed at once. */
enum fill_verdict window_fill(struct window *window, struct inflight_message *message,
                              struct task_queue *queue, uint32_t limit);

/* Makes the segment as large as the FILL_SEGMENT of `message` asks for, by deadline_ms. Nothing may
 * be in flight. KV_OK; KV_TIMEOUT, KV_NO_SERVER, KV_IO: the server did not answer, and the
 * connection is closed. */
enum kv_status window_grow(struct window *window, const struct inflight_message *message,
                           uint64_t deadline_ms);

/* Sends the message, which is not empty and whose deadline_ms is set; waits until the argument
 * deadline_ms for room in the lane. KV_OK, KV_TIMEOUT: the message is in flight; what could not be
 * sent yet, for want of a credit or of room, is sent by window_receive. KV_NO_MEMORY: its tasks are
 * due again. Otherwise as window_receive. */
enum kv_status window_send(struct window *window, struct inflight_message *message,
                           uint64_t deadline_ms);

/* Waits until deadline_ms for one message of the server, and processes it. KV_OK; KV_TIMEOUT: none
 * came, and nothing has changed. KV_NO_SERVER, KV_NO_SESSION, KV_IO, KV_NO_MEMORY: the connection
 * is lost. */
enum kv_status window_receive(struct window *window, uint64_t deadline_ms);

/* Executes tasks from the front of the queue with one message, if that needs no preparation: the
 * window is one of one message, nothing is in flight, the session can be used, and the segment is
 * large enough. Otherwise KV_OK, and the caller prepares. If a message was sent, *sent is set, and
 * this function waits until deadline_ms for the answer and returns as window_receive does. */
enum kv_status window_execute(struct window *window, struct task_queue *queue, uint64_t deadline_ms,
                              bool *sent);

/* Sends what can be sent and processes one message of the server if one is there, without waiting.
 * Returns as window_receive does. */
enum kv_status window_poll(struct window *window);

/* Closes the connection, after BYE if `say_goodbye`. Tasks in flight that surely were not executed,
 * or may be repeated, are due again; the others are stopped with KV_OUTCOME_UNKNOWN. */
void window_lose(struct window *window, bool say_goodbye);

/* Gives up the tasks in flight of `queue`, or, if that is NULL, those of messages whose deadline
 * has passed. They are completed with KV_TIMEOUT; those that the server cannot execute yet are due
 * again instead. */
void window_give_up(struct window *window, const struct task_queue *queue);

/* Adds the counters of the window to *info. Any thread. */
void window_add_info(const struct window *window, struct clientk_info *info);

#endif
