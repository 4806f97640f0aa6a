/*
 * message_order: messages that the workers have received and that wait in the daemon, in an order
 * of their own, until a worker takes one. By default there is none: messages wait in the queues.
 * The lab has one (lab_seam.h).
 *
 * Threads: all calls but free may be made by any thread.
 */
#ifndef MQKV_SERVERK_RECEIVE_MESSAGE_ORDER_H
#define MQKV_SERVERK_RECEIVE_MESSAGE_ORDER_H

#include <stddef.h>
#include <sys/types.h>

struct json;
struct receiver;

struct message_order {
    /* Moves the message that is next to the receiver's buffer, with its session, its queue and its
     * priority, after receiving what has come (receiver_poll) where that is due. Returns as
     * receiver_take, but 0: no message of a tenant that does not rest is there. Sets
     * receiver->closed_queues to the queues that the receiver is to leave alone, as the order has
     * no room for their messages. */
    ssize_t (*receive)(struct message_order *order, struct receiver *receiver);

    /* The same of what waits in the order, whichever tenants rest, without a look at the queues:
     * the size of the message; 0: none waits. */
    size_t (*take)(struct message_order *order, struct receiver *receiver);

    /* The number of messages that wait in the order. */
    unsigned (*waiting)(const struct message_order *order);

    /* Adds members to section "schedule" of the statistics. */
    void (*put_stats)(struct message_order *order, struct json *json);

    /* No message may wait any more. */
    void (*free)(struct message_order *order);
};

#endif
