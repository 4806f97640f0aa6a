/*
 * explored_server: a server for harnesses of clients: it shakes hands as serverk does, and keeps a
 * number for each of a few keys, which outlives it. It answers late, in part or not at all, refuses
 * sessions and messages, by the seed, and may be killed at any step.
 */
#ifndef MQKV_TESTS_EXPLORED_SERVER_H
#define MQKV_TESTS_EXPLORED_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"

#define SERVER_KEYS       3u
#define SERVER_MAX_WRITES 64u

/* What the servers of a schedule have done. */
struct explored_data {
    int64_t numbers[SERVER_KEYS];         /* 0: the key is absent */
    unsigned executed[SERVER_MAX_WRITES]; /* how often the write of that number was executed */
    unsigned places[SERVER_MAX_WRITES];   /* as which of all writes it was, the first time */
    unsigned write_count;
    bool is_to_stop;
};
extern struct explored_data explored_data;

/* The name of its queue. */
const char *explored_server_queue(void);

/* Forgets all data. */
void explored_server_begin(void);

/* From now on answers may be so late, or be refusals, and sessions may be ended. */
void explored_server_may_fail(uint32_t late_ms);

/* Serves until explored_server_stop; run by explore_thread. It sleeps without a limit, so that
 * clients who would sleep for ever are found. */
void explored_server_run(void *unused);
void explored_server_stop(void);

struct kv_slice explored_server_key(unsigned key);

#endif
