/*
 * traffic: the messages of a pipeline: one being filled, others in flight, and operations that are to be
 * sent again. It keeps the operations on one key in order: one that would pass another in flight waits
 * for it. For one thread at a time.
 */
#ifndef MQKV_CLIENTK_TRAFFIC_H
#define MQKV_CLIENTK_TRAFFIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/clientk.h"
#include "clientk/connection.h"
#include "clientk/flight.h"
#include "clientk/key_set.h"
#include "clientk/settings.h"

struct traffic {
    struct connection connection;
    bool repeat_writes;
    unsigned window;        /* messages in flight at most */
    uint32_t batch_limit;   /* operations a message at most; 0: as fit */
    struct flight *flights; /* window of them, and one more for what is sent again */
    struct flight *filling; /* NULL: none */
    unsigned in_flight;
    struct key_set keys; /* of the operations in flight */
    struct parked_list parked;

    clientk_complete complete;
    void *context;
    struct clientk_result result; /* what complete is given */
    bool completing;              /* within complete */
    enum kv_status status;        /* first that stopped a message since the last traffic_finish */

    _Atomic uint64_t messages, operations, reconnects;
};

/* Connects. settings must outlive the traffic. window 0: as many as the server grants credits. */
enum kv_status traffic_open(struct traffic *traffic, const struct settings *settings,
                            unsigned window, uint64_t deadline_ms, struct kv_error *error);

void traffic_close(struct traffic *traffic, bool say_goodbye);

/* Adds a copy of the operation, which will be completed, or was already, when it returns KV_OK; else it
 * was not added. */
enum kv_status traffic_add(struct traffic *traffic, const struct wire_operation *operation,
                           void *tag, uint64_t deadline_ms, struct kv_error *error);

/* Of the operations added from now on; those added before are sent with the one they had. What is sent
 * again has the priority of that time. Order on a key is kept, whatever the priorities. */
void traffic_set_priority(struct traffic *traffic, unsigned priority, uint64_t deadline_ms);

/* Completes everything. KV_OK, or the first status that stopped a message since the last call. */
enum kv_status traffic_finish(struct traffic *traffic, uint64_t deadline_ms);

#endif
