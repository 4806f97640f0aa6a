/*
 * explored_nats: a NATS cluster and its client library for harnesses of natskv: the functions of
 * libnats that natskv calls, and nats_connect, which it wraps. The cluster has one bucket of one
 * stream, whose messages are in an order. By the seed requests and answers are late, out of order
 * or lost, the stream has no leader for a while or refuses a write, and the connection is lost,
 * found again, or given up. A request with an id that the stream has is not executed again.
 */
#ifndef MQKV_TESTS_EXPLORED_NATS_H
#define MQKV_TESTS_EXPLORED_NATS_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"

#define NATS_STORED_MAX 512u

/* A message of the stream. */
struct stored_message {
    char subject[96];
    char value[512];
    bool is_tombstone;
    char id[48];
};

/* What the cluster has done. messages[0] is none: its sequences begin at 1. */
struct explored_cluster {
    struct stored_message messages[NATS_STORED_MAX];
    uint64_t last_sequence;
    unsigned replicas;
};
extern struct explored_cluster explored_cluster;

/* A cluster without data, and the thread of the network, of that process. may_fail: all that is
 * said above; else it answers. */
void explored_nats_begin(unsigned process, bool may_fail);

/* From now on all goes well, and the network ends once the library is closed. */
void explored_nats_end(void);

/* Connections, subscriptions and messages of the library that were not destroyed. */
unsigned explored_nats_left(void);

#endif
