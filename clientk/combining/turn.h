/*
 * turn: how a thread whose call another one leads waits for its turn, and how the leader gives it.
 *
 * The thread polls the call's word for a while, then sleeps on a word of the combiner, which counts
 * wake-ups. 32 threads sleep on one word, each with a bit of its own (futex(2),
 * FUTEX_WAIT_BITSET), so that one system call wakes all whose calls are finished. More than
 * 32 * TURN_WAKE_WORDS threads share bits, and are sometimes woken in vain.
 */
#ifndef MQKV_CLIENTK_COMBINING_TURN_H
#define MQKV_CLIENTK_COMBINING_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/wait.h"

#define TURN_WAKE_WORDS 4u

struct call;

/* The state of a call that its own thread does not lead. */
enum call_turn {
    TURN_WAITING,  /* its thread polls this word */
    TURN_SLEEPING, /* its thread sleeps on a word of the combiner */
    TURN_FINISHED,
    TURN_TO_LEAD /* its thread is the leader now */
};

/* Threads to wake: their bits in each word. They are woken together, so that none of them takes the
 * CPU from the leader before the last is awake. Starts as {0}. */
struct wake_list {
    uint32_t bits[TURN_WAKE_WORDS];
    bool any;
};

/* By the leader. Returns the call to its thread, which is put on the list if it must be woken. The
 * call must not be touched afterwards. */
void turn_give(struct call *call, enum call_turn turn, struct wake_list *to_wake);

/* Wakes the threads on the list, and empties it. */
void turn_wake(_Atomic uint32_t wakes[TURN_WAKE_WORDS], struct wake_list *list);

/* By the call's thread. Waits until the leader has finished the call, or made its thread the
 * leader. */
enum call_turn turn_await(struct call *call, _Atomic uint32_t wakes[TURN_WAKE_WORDS],
                          struct wire_waiter *waiter);

#endif
