/*
 * relay: a loop that several threads run by turns. One of them has the baton and runs the loop; the
 * others sleep. So what is under way can be paused wherever it is: its thread sleeps with all that
 * it has on its stack, and another one runs the loop, until the loop says whose turn it is.
 *
 * Threads are started when they are needed, and stay until the end. What the holder of the baton
 * wrote is seen by the next one.
 *
 * Threads: all functions but relay_start and relay_join are for the one that has the baton.
 */
#ifndef MQKV_KRESP_BRIDGE_RELAY_H
#define MQKV_KRESP_BRIDGE_RELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mqkv/status.h"

/* So many threads: one that runs the loop, and the others paused. */
#define RELAY_RUNNERS 8u

struct kv_error;

struct relay_runner {
    struct relay *relay;
    struct relay_runner *next_idle;
    unsigned number; /* below RELAY_RUNNERS; no other has it */
    pthread_t handle;
    pthread_cond_t passed; /* to this one */
};

/* Users of this struct read `holder`, which has the baton. */
struct relay {
    /* Runs until a paused runner is to go on, which it returns; NULL: the end, and none is paused.
     * It is called again, in any thread, after a runner was returned. */
    struct relay_runner *(*loop)(void *context);
    void *context;
    char name[16]; /* of the threads */
    pthread_mutex_t lock;
    struct relay_runner *holder; /* changed under the lock; NULL: it is over */
    struct relay_runner runners[RELAY_RUNNERS];
    unsigned count;
    struct relay_runner *idle; /* those that have nothing under way */
};

/* Starts the first thread, which has the baton. loop, context and name are set, all else is 0. */
enum kv_status relay_start(struct relay *relay, struct kv_error *error);

/* Returns a runner that would take the baton from a paused one; NULL: there can be none. */
struct relay_runner *relay_spare(struct relay *relay);

/* Passes the baton to relay_spare's runner, which there must be; returns when the loop has returned
 * this one. */
void relay_pause(struct relay *relay);

/* Waits until the loop has come to its end, and frees what the relay has. False: it has not within
 * the time. */
bool relay_join(struct relay *relay, uint64_t timeout_ms);

#endif
