/*
 * window: messages in flight over one session. Its owner fills messages with tasks (task.h) and sends
 * them; what is received completes the tasks, or puts them back to the front of their queues: those
 * behind the place where the server stopped, those whose value needs more room, and those that a lost
 * connection left undone. So a task completes once, whatever became of its message.
 *
 * A synchronous call uses a window of one message (combiner.h), a pipeline one of several (pipeline.c).
 * Order: the operations of a message are executed in theirs, and one whose key is in flight waits, unless
 * both only read; so the operations of a queue on one key take effect in the order of the queue.
 *
 * Short replies: where the server offers it (WIRE_WELCOME_SHORT_REPLIES) it stops at the first operation
 * whose result does not fit any more and answers with the results so far. Behind an operation that
 * gives a value an older server gets none, since it may be refused and must be sent again.
 *
 * Threads: of one at a time, but for the counters.
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

/* Private to window.c but for deadline_ms, set by the owner before it is sent, in_flight and request.count. */
struct message {
    struct request_builder request;
    struct exchange exchange;
    struct task **tasks; /* request.count of them; NULL: completed */
    uint32_t tasks_capacity;
    uint32_t unfinished;  /* tasks that are in it still */
    uint64_t deadline_ms; /* when nobody waits for it any more */
    bool in_flight;
    bool has_refused; /* a task that is sent again for want of room */
};

struct window {
    struct connection connection;
    struct message *messages; /* limit of them */
    unsigned limit;           /* messages in flight at most */
    unsigned in_flight;
    bool to_send;           /* a message in flight has something that could not be sent yet */
    bool refused_in_flight; /* the message in flight has_refused */
    struct key_set keys;    /* of what is in flight, if limit > 1 */
    _Atomic uint64_t messages_sent, operations_sent, reconnects;
};

/* A window without a session, for so many messages. False: no memory. */
bool window_init(struct window *window, const struct client_settings *settings,
                 const struct wire_geometry *ladder, unsigned limit);

/* Another number of messages, while none is in flight or being filled. False: no memory, nothing has
 * changed. */
bool window_set_limit(struct window *window, unsigned limit);

/* Closes the session. Tasks that are in flight are forgotten. */
void window_free(struct window *window, bool say_goodbye);

/* As connection_ensure, counting reconnects. Nothing may be in flight. */
enum kv_status window_connect(struct window *window, uint64_t deadline_ms, struct kv_error *error);

/* One that is not in flight; NULL: all are. */
struct message *window_idle_message(struct window *window);

/* Empties the message, to be filled: tasks that are in it are due again. False: no memory. */
bool window_begin(struct window *window, struct message *message);

enum fill_verdict {
    FILL_ALL,     /* the queue is empty now */
    FILL_FULL,    /* the message takes no more of it */
    FILL_WAITS,   /* the next task must not overtake one that is in flight */
    FILL_SEGMENT, /* the message is empty, and its share of the segment too small: window_grow */
    FILL_NO_MEMORY
};

/* Moves tasks from the queue into the message, `limit` operations in it at most (0: as fit). A task
 * that needs no message to be answered is completed at once. */
enum fill_verdict window_fill(struct window *window, struct message *message,
                              struct task_queue *queue, uint32_t limit);

/* Makes the segment as large as the last FILL_SEGMENT asked for. Nothing may be in flight. KV_OK, or the
 * server did not answer: KV_TIMEOUT, KV_NO_SERVER, KV_IO; the connection is closed then. */
enum kv_status window_grow(struct window *window, const struct message *message,
                           uint64_t deadline_ms);

/* Sends the message, whose deadline_ms is set. KV_OK, KV_TIMEOUT: it is in flight; what could not be sent yet,
 * for want of a credit or of room in the lane, is sent by window_receive. KV_NO_MEMORY: its tasks are due
 * again. Else as window_receive. */
enum kv_status window_send(struct window *window, struct message *message, uint64_t deadline_ms);

/* Waits for one message of the server and deals with it. KV_OK; KV_TIMEOUT: none came, nothing has changed.
 * KV_NO_SERVER, KV_NO_SESSION, KV_IO, KV_NO_MEMORY: the connection is lost (window_lose). */
enum kv_status window_receive(struct window *window, uint64_t deadline_ms);

/* Closes the connection. Tasks in flight that surely were not executed, or may be repeated, are due
 * again; the others are stopped, with KV_OUTCOME_UNKNOWN. */
void window_lose(struct window *window, bool say_goodbye);

/* The queue's time is over, or (queue NULL) that of messages, by their deadlines: tasks in flight are stopped
 * with KV_TIMEOUT, or, where the server can not execute them yet, are due again. */
void window_give_up(struct window *window, const struct task_queue *queue);

/* Adds its counters to *info. Any thread. */
void window_add_info(const struct window *window, struct clientk_info *info);

#endif
