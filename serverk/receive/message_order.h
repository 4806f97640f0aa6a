/*
 * message_order: messages that the workers have received and that wait in the daemon, in an order
 * of their own, until a worker takes one. By default there is none: messages wait in the queues.
 * The lab has one (lab_seam.h).
 *
 * Threads: all calls but free may be made by any thread.
 */
#ifndef MQKV_SERVERK_RECEIVE_MESSAGE_ORDER_H
#define MQKV_SERVERK_RECEIVE_MESSAGE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

struct json;
struct session;

/* Where a message comes from. */
struct message_source {
    struct session *session; /* held; NULL: none */
    unsigned queue;
    unsigned payer;
};

struct message_order {
    /* Returns true if no more messages should be received. If false, the worker that asked may
     * receive one and is sure of a place for it. */
    bool (*is_full)(const struct message_order *order);

    /* The payers (as bits) that use all the places that one payer may have: no more of their
     * messages should be received. The same promise holds for the worker that asked. */
    uint32_t (*full_payers)(const struct message_order *order);

    /* Adds a copy of the message, which was received now. */
    void (*add)(struct message_order *order, struct kv_slice message, struct message_source source,
                unsigned priority, uint64_t now_ns);

    /* Moves the first message of those payers (as bits) to `buffer`: its size, its source and
     * priority (as `add` was told), and how long it waited; 0: none waits. */
    size_t (*take)(struct message_order *order, uint32_t payers, uint8_t *buffer,
                   struct message_source *source, unsigned *priority, uint64_t now_ns,
                   uint64_t *waited_ns);

    unsigned (*waiting)(const struct message_order *order);

    /* The payers (as bits) that have messages waiting. */
    uint32_t (*payers)(const struct message_order *order);

    /* Adds members to section "schedule" of the statistics. */
    void (*put_stats)(struct message_order *order, struct json *json);

    void (*free)(struct message_order *order);
};

#endif
