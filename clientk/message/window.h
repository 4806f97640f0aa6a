/*
 * window: the messages in flight of one session. Its owner fills messages with tasks (task.h) and
 * sends them. Answers complete the tasks. Back to the front of their queues go the tasks behind the
 * one where the server stopped, those whose value needs more room, and those that a lost connection
 * left undone. So every task completes exactly once, whatever happens to its message.
 *
 * Synchronous calls use a window of one message (combiner.h), pipelines one of several
 * (pipeline.c). Order: the operations of a message are executed in order, and an operation waits
 * while its key is in flight, unless both only read. So the operations of a queue on one key take
 * effect in the order of the queue.
 *
 * Short replies: a server that offers them (WIRE_WELCOME_SHORT_REPLIES) stops at the first
 * operation whose result does not fit and answers with the results so far. With an older server an
 * operation that gives a value is the last of its message, since it may be refused and sent again.
 *
 * Threads: one at a time, but for the counters.
 */
#ifndef MQKV_CLIENTK_MESSAGE_WINDOW_H
#define MQKV_CLIENTK_MESSAGE_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/message/request_builder.h"
#include "clientk/session/connection.h"
#include "clientk/session/exchange.h"
#include "clientk/message/key_set.h"
#include "clientk/message/task.h"

/* Private to window.c but for in_flight, request.count, and deadline_ms, which the owner sets
 * before it is sent. */
struct inflight_message {
    struct request_builder request;
    struct exchange exchange;
    struct task **tasks; /* request.count of them; NULL: completed */
    uint32_t tasks_capacity;
    uint32_t unfinished;  /* tasks that are in it still */
    uint64_t deadline_ms; /* when no caller waits for it any more */
    bool in_flight;
    bool has_refused; /* a task that is sent again because its value lacked room */
};

struct window {
    struct connection connection;
    struct inflight_message *messages; /* limit of them */
    unsigned limit;                    /* messages in flight at most */
    unsigned in_flight;
    bool to_send;           /* part of a message in flight could not be sent yet */
    bool refused_in_flight; /* the message in flight has_refused */
    struct key_set keys;    /* of what is in flight, if limit > 1 */
    _Atomic uint64_t messages_sent, operations_sent, reconnects;
};

/* A window without a session, for so many messages. False: no memory. */
bool window_init(struct window *window, const struct client_settings *settings,
                 const struct wire_geometry *ladder, unsigned limit);

/* Changes the number of messages, while none is in flight or being filled. False: no memory, and
 * nothing has changed. */
bool window_set_limit(struct window *window, unsigned limit);

/* Closes the session. Tasks that are in flight are forgotten. */
void window_free(struct window *window, bool say_goodbye);

/* As connection_open, counting reconnects. Nothing may be in flight. */
enum kv_status window_connect(struct window *window, uint64_t deadline_ms, struct kv_error *error);

/* A message that is not in flight; NULL: all are. */
struct inflight_message *window_idle_message(struct window *window);

/* Empties the message, to be filled: tasks that are in it are due again. False: no memory. */
bool window_begin(struct window *window, struct inflight_message *message);

enum fill_verdict {
    FILL_ALL,     /* the queue is empty now */
    FILL_FULL,    /* the message takes no more of it */
    FILL_WAITS,   /* the next task must not overtake one that is in flight */
    FILL_SEGMENT, /* the message is empty, and its share of the segment too small: window_grow */
    FILL_NO_MEMORY
};

/* Moves tasks from the queue into the message, `limit` operations in it at most (0: as fit). A task
 * that needs no message to be answered is completed at once. */
enum fill_verdict window_fill(struct window *window, struct inflight_message *message,
                              struct task_queue *queue, uint32_t limit);

/* Makes the segment as large as the last FILL_SEGMENT asked for. Nothing may be in flight. KV_OK;
 * KV_TIMEOUT, KV_NO_SERVER, KV_IO: the server did not answer, and the connection is closed. */
enum kv_status window_grow(struct window *window, const struct inflight_message *message,
                           uint64_t deadline_ms);

/* Sends the message, whose deadline_ms is set. KV_OK, KV_TIMEOUT: it is in flight; what could not
 * be sent yet, for want of a credit or of room in the lane, is sent by window_receive.
 * KV_NO_MEMORY: its tasks are due again. Else as window_receive. */
enum kv_status window_send(struct window *window, struct inflight_message *message,
                           uint64_t deadline_ms);

/* Waits for one message of the server and processes it. KV_OK; KV_TIMEOUT: none came, nothing has
 * changed. KV_NO_SERVER, KV_NO_SESSION, KV_IO, KV_NO_MEMORY: the connection is lost. */
enum kv_status window_receive(struct window *window, uint64_t deadline_ms);

/* Sends what can be sent, and deals with one message of the server if one is there, without
 * waiting. Returns as window_receive. */
enum kv_status window_poll(struct window *window);

/* Closes the connection. Tasks in flight that surely were not executed, or may be repeated, are due
 * again; the others are stopped, with KV_OUTCOME_UNKNOWN. */
void window_lose(struct window *window, bool say_goodbye);

/* Gives up the tasks in flight of the queue, or (queue NULL) those of messages whose deadline has
 * passed. They are completed with KV_TIMEOUT, or, where the server cannot execute them yet, are due
 * again. */
void window_give_up(struct window *window, const struct task_queue *queue);

/* Adds its counters to *info. Any thread. */
void window_add_info(const struct window *window, struct clientk_info *info);

#endif
