/*
 * receiver: one worker's way of receiving: the queues it serves, polled round and round by the wait
 * rule (wire/wait.h) and slept on when they stay empty; or, where several workers serve one queue,
 * a blocking receive, because a poller loses every message to a blocked receiver.
 *
 * With an order of messages (message_order.h) the order decides which message is next.
 *
 * Where several tenants are active (shares.h), the queues of those that rest are left alone
 * meanwhile.
 *
 * A queue that gave none of the last messages is polled only every few rounds: each poll is a
 * system call, and lanes of idle sessions should not slow down the busy ones.
 */
#ifndef MQKV_SERVERK_RECEIVE_RECEIVER_H
#define MQKV_SERVERK_RECEIVE_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/execute/statistics.h"
#include "serverk/lanes/lanes.h"
#include "serverk/receive/aside.h"
#include "serverk/receive/parking.h"
#include "serverk/receive/message_order.h"
#include "serverk/receive/shares.h"
#include "serverk/session/farewell.h"
#include "wire/message.h"
#include "wire/wait.h"

/* Private to receiver.c, and to an order of messages, but for buffer, priority, session, waiter and
 * found_empty. */
struct receiver {
    struct lanes *lanes;
    const struct served_lanes *served; /* of the lanes */
    struct worker_statistics *statistics;
    uint8_t *buffer; /* the message received; of lanes_message_bytes */
    size_t buffer_bytes;
    struct wire_waiter waiter;
    bool found_empty; /* a round found nothing since this was last set to false */

    struct session_table *sessions;
    struct session *session; /* of the message received, held; NULL: not looked for yet, or none */
    struct farewell_pulse *pulse; /* NULL: it does not receive itself */

    struct message_order *order; /* of all workers; NULL: messages wait in the queues alone */
    unsigned priority;           /* of the message received, if wants_priority */
    bool wants_priority;
    uint32_t closed_queues; /* that the order has no room for; 0: none */
    uint64_t collected_ns;  /* the order's: when it last emptied the queues */

    struct shares *shares; /* of all workers; NULL: nobody shares */
    uint64_t
        began_ns; /* when it began to receive the last message, if tenants were several; else 0 */
    uint32_t resting;          /* tenants whose queues were left alone in the last round */
    uint64_t resting_until_ns; /* the first of them, if there are any */
    bool wasted;               /* the message was nobody's */
    uint64_t waited_ns;        /* for locks, by the message; set by its executor, like the next */
    uint64_t written_bytes;    /* by it, to data files */
    bool was_away;             /* the message kept the worker away (parking.h) */
    int stop_event;

    uint32_t queues;  /* bit i: serves queue i */
    bool blocking;    /* then it is one queue */
    unsigned current; /* queue of the last message */
    unsigned round;
    uint64_t taken;                            /* messages so far */
    uint64_t last_taken[LANE_PLAN_MAX_QUEUES]; /* `taken` when the queue gave its last message */
    int sleep_epoll;             /* its queues (or all of them in use) and the stop event */
    struct parking_place *place; /* NULL: it does not share its queues */
    struct aside *aside;         /* NULL: nothing is set aside for it */
    const _Atomic bool *stopping;
};

/* Polls, or waits as long as it takes, for a message. Returns its size; 0: the pool is stopping; -1
 * and errno: a queue failed. */
ssize_t receiver_take(struct receiver *receiver);

/* Looks at each queue once, also at cold ones, without waiting. Returns as receiver_take, but 0:
 * nothing was there. */
ssize_t receiver_look(struct receiver *receiver);

/* Charges the last message, which was done at done_ns, to its tenant's account. received_ns may be
 * 0: not known. Of a message that is handed on to a thread or process, only the handing on
 * counts. */
void receiver_charge(struct receiver *receiver, uint64_t received_ns, uint64_t done_ns);

/* Looks at each queue that is due once, without waiting. Returns as receiver_take, but 0: nothing
 * was there. For an order of messages. */
ssize_t receiver_poll(struct receiver *receiver);

/* Decodes the header of the message of `size` bytes in receiver->buffer, all zeros if it has none,
 * and finds the message's session, which receiver->session then holds; NULL: it has none. */
void receiver_look_up_session(struct receiver *receiver, size_t size, struct wire_header *header);

/* The same, where an order has not done it when it received the message. A thread that looks its
 * session up itself calls receiver_settle afterwards. */
static inline void receiver_find_session(struct receiver *receiver, size_t size)
{
    struct wire_header header;
    if (!receiver->order)
        receiver_look_up_session(receiver, size, &header);
}

/* To be called when the message that was received is with its session. */
static inline void receiver_settle(struct receiver *receiver)
{
    if (receiver->pulse)
        farewell_leave(receiver->pulse);
}

/* Returns the queues (as bits) from which a worker may have received earlier messages of the last
 * message's session. */
uint32_t receiver_source(const struct receiver *receiver);

/* Counts the message received, which is of no use to anybody. */
void receiver_drop(struct receiver *receiver, enum dropped_reason reason);

/* Drops the message received, and returns true, if it has no session (any more) and asks for
 * none. */
bool receiver_drop_stray(struct receiver *receiver, const struct wire_header *header,
                         const struct session *session);

/* Moves the next message that was set aside to the buffer. Returns its size; 0: there is none. */
size_t receiver_take_aside(struct receiver *receiver);

/* Returns the number of messages that wait for the receiver now, in its queues and in the order. */
unsigned receiver_backlog(const struct receiver *receiver);

/* Returns the number of messages that wait in the last message's queue. */
unsigned receiver_backlog_behind(const struct receiver *receiver);

#endif
