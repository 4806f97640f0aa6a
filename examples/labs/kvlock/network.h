/*
 * network: between the clerks and the server of a check (check.c): it loses requests and replies as
 * the seed of the schedule decides, and knows what was executed.
 */
#ifndef LAB_NETWORK_H
#define LAB_NETWORK_H

#include <stdatomic.h>
#include <string.h>

#include "server.h"
#include "tests/explore/explore.h"

struct network {
    struct kv_server server;
    bool loses;
    _Atomic int calls, executions; /* what was sent, and the puts that were executed */
};

extern struct network network;

/* Begins with a server without keys. */
void network_begin(bool loses);

#endif
