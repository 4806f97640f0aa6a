/*
 * range_served: the servers whose ranges are compared with those of the embedded engines, behind
 * the same table: their `open` takes the server's address in place of a directory. A handle is for
 * one thread.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_RANGE_SERVED_H
#define MQKV_EXPERIMENTS_PEERS_RANGE_SERVED_H

#include "experiments/peers/engine.h"

/* Ends with a NULL name. They have no `get`. */
extern const struct engine range_servers[];

#endif
