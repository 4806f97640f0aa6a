/*
 * round: one message of a channel: packed with the due operations of all requests that wait there,
 * sent, answered, and its results handed out. Between calls a round is idle (in_flight false) or on
 * its way; then it can be continued by any thread that leads the channel.
 */
#ifndef MQKV_CLIENTK_ROUND_H
#define MQKV_CLIENTK_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/batch.h"
#include "clientk/connection.h"
#include "clientk/exchange.h"
#include "clientk/request.h"

#define ROUND_MAX_PARTS 256u

/* A run of operations of one request in the message. */
struct round_part {
    struct request *request; /* NULL: it has given up */
    size_t first;
    size_t count;
    bool again; /* first .. first + count are the refused ones among them */
};

/* Start from {0}. */
struct round {
    bool in_flight;
    struct batch batch;
    struct exchange exchange;
    struct round_part parts[ROUND_MAX_PARTS];
    unsigned part_count;
    bool full; /* a request did not fit, or not as a whole */
};

/* Packs a message from the list of requests that `first` heads. Operations that need no message get
 * their results at once, and requests that need none are finished. in_flight false afterwards: there
 * was nothing to send. KV_OK; KV_TIMEOUT, KV_NO_SERVER, KV_IO (the segment had to grow, and the server
 * did not answer), KV_NO_MEMORY. */
enum kv_status round_pack(struct round *round, struct connection *connection, struct request *first,
                          uint64_t deadline_ms);

/* Sends it, waits for the answer, hands out the results. KV_OK: idle again; KV_TIMEOUT: still in
 * flight; KV_NO_SESSION: not executed, and the session is none; else: over, the connection broken. */
enum kv_status round_complete(struct round *round, struct connection *connection,
                              uint64_t deadline_ms);

/* The connection is lost. Operations that surely were not executed, and those that may be repeated,
 * are due again; a request with others is stopped: KV_OUTCOME_UNKNOWN for these. */
void round_lost(struct round *round, bool repeat_writes);

/* Stops a request whose time is over: what is on its way gets KV_TIMEOUT, what surely was not
 * executed KV_DEADLINE. A message that was not sent yet is unpacked again. */
void round_expire(struct round *round, struct connection *connection, struct request *request);

void round_free(struct round *round);

#endif
