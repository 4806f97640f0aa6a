/*
 * nats_look: how much the streams of a bucket hold, for statistics. Asked for in the background:
 * what is told is what was found the last time.
 */
#ifndef MQKV_NATSKV_NATS_LOOK_H
#define MQKV_NATSKV_NATS_LOOK_H

#include "natskv/nats_engine.h"

struct nats_holdings {
    uint64_t keys;  /* tombstones included, until they vanish */
    uint64_t bytes; /* of each replica */
};

/* False: out of memory. */
bool nats_look_create(struct nats_engine *engine);

/* Before the link is closed; waits for looks that are under way. */
void nats_look_free(struct nats_engine *engine);

/* Tells what was found, and looks again if that was some time ago. */
void nats_look(struct nats_engine *engine, struct nats_holdings *holdings);

#endif
