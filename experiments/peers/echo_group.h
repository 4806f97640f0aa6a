/*
 * echo_group: threads of a process that share a link to the echo server, as those of mqkv's library
 * share a session when there are many: one thread leads, packs what waits into one message, and
 * hands out the answers; the others wait, by mqkv's rule, until they are answered or lead
 * themselves.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_ECHO_GROUP_H
#define MQKV_EXPERIMENTS_PEERS_ECHO_GROUP_H

#include <stdatomic.h>
#include <stdint.h>

#include "experiments/peers/echo_link.h"
#include "wire/wait.h"

/* One thread's operations, on their way. */
struct echo_call {
    struct echo_call *following;
    size_t request_bytes, reply_bytes; /* without a message's header */
    enum kv_status status;
    _Atomic uint32_t turn;
};

struct echo_group {
    struct echo_link *link;
    struct echo_call *_Atomic arrivals; /* a stack */
    _Atomic uint32_t led;
    struct echo_call *first, *last; /* in the order of arrival; the leader's */
};

/* Sends the call's operations in a message of the group, and waits for the answer. The call's sizes
 * are given, and fit a message. KV_OK, or as echo_link_exchange. */
enum kv_status echo_group_execute(struct echo_group *group, struct echo_call *call,
                                  struct wire_waiter *waiter);

#endif
