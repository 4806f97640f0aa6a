/*
 * turn: how a thread whose call another thread works on waits for its turn, and how the leader of
 * the combiner (combiner.h) gives the turn.
 *
 * The thread polls the state of its turn for a while, then sleeps on a word of the combiner, which
 * counts wake-ups. 32 threads sleep on one word, each with a bit of its own (futex(2),
 * FUTEX_WAIT_BITSET), so that one system call wakes all whose calls are finished. If there are more
 * than 32 * TURN_WAKE_WORDS threads, some share a bit, and are now and then woken in vain.
 */
#ifndef MQKV_CLIENTK_COMBINING_TURN_H
#define MQKV_CLIENTK_COMBINING_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/wait.h"

#define TURN_WAKE_WORDS 4u

enum turn_state {
    TURN_WAITING,  /* its thread polls the state */
    TURN_SLEEPING, /* its thread sleeps on a word of the combiner */
    TURN_FINISHED, /* its call is finished */
    TURN_TO_LEAD   /* its thread is the leader now */
};

/* The turn of one call. Starts with TURN_WAITING. */
struct turn {
    _Atomic uint32_t state; /* enum turn_state */
    unsigned sleeper;       /* number of the thread in the combiner: says where it sleeps */
};

/* Threads to wake: their bits in each word. They are woken together, so that none of them takes the
 * CPU from the leader before the last one is awake. Start from {0}. */
struct wake_list {
    uint32_t bits[TURN_WAKE_WORDS];
    bool any;
};

/* Leader: sets the turn to `state`, TURN_FINISHED or TURN_TO_LEAD, and puts its thread on *to_wake
 * if that sleeps. The call belongs to its thread then: the leader must not touch it any more. */
void turn_give(struct turn *turn, enum turn_state state, struct wake_list *to_wake);

/* Leader: wakes the threads on *list, which sleep on `wakes`, and empties the list. */
void turn_wake(_Atomic uint32_t wakes[TURN_WAKE_WORDS], struct wake_list *list);

/* The thread of the call: waits, by polling as `waiter` says and then asleep on `wakes`, until the
 * leader has given the turn. Returns TURN_FINISHED or TURN_TO_LEAD. */
enum turn_state turn_await(struct turn *turn, _Atomic uint32_t wakes[TURN_WAKE_WORDS],
                           struct wire_waiter *waiter);

#endif
