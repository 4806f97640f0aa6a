/*
 * wait: how both ends wait for a message: poll for some microseconds while that pays, then sleep.
 * wait.c states the rule, its constants and what they rest on; docs/PERFORMANCE.md what it brings.
 * It never sleeps itself: it says when to.
 */
#ifndef MQKV_WIRE_WAIT_H
#define MQKV_WIRE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum wire_spin_mode { WIRE_SPIN_AUTO, WIRE_SPIN_OFF, WIRE_SPIN_FIXED };

struct wire_spin {
    enum wire_spin_mode mode;
    uint32_t fixed_us; /* for FIXED */
};

/* "auto", "off" or microseconds (1..100000). */
bool wire_spin_parse(const char *text, struct wire_spin *spin);

/* What AUTO becomes where answers come over a network: OFF. None comes while one would poll, and
 * the servers behind it may be on this machine. */
struct wire_spin wire_spin_for_network(struct wire_spin spin);

/* State of one waiting thread; wire_waiter_init fills it. Not shared, but for the counters, which
 * others may read for statistics. */
struct wire_waiter {
    struct wire_spin spin;
    uint32_t yield_score;              /* how often polling with yields paid lately, 0..1024 */
    uint32_t pause_score;              /* the same for polling without */
    uint32_t turns_max;                /* see wire_waiter_limit_turns; 0: no limit */
    bool contended;                    /* the last yield gave the CPU to somebody */
    bool short_turns;                  /* see wire_waiter_may_take_short_turns */
    atomic_uint_fast64_t waits;        /* that did not find a message at once */
    atomic_uint_fast64_t hits;         /* of those, ended by polling */
    atomic_uint_fast64_t sleeps;       /* of those, told to sleep */
    uint64_t last_yield_ns;            /* of wire_waiter_served */
    uint64_t window_start_ns, lost_ns; /* time given away by long yields, in the last 100 ms */
};
void wire_waiter_init(struct wire_waiter *waiter, struct wire_spin spin);

/* For one of many threads of a process that wait for each other, where a wake-up is cheap: after so
 * many yields (>= 1) in which others ran without bringing what it waits for, the thread is told to
 * sleep. A thread that stays in the round makes each of the others wait for its turn. */
void wire_waiter_limit_turns(struct wire_waiter *waiter, uint32_t turns_max);

/* For a thread that waits for one answer at a time: where other programs keep the CPUs busy, it
 * asks the scheduler for short turns (wire/time_slice.h), which it keeps for its life. */
void wire_waiter_may_take_short_turns(struct wire_waiter *waiter);

/* One non-blocking attempt: > 0 got something, 0 nothing there, < 0 failed (errno). */
typedef ssize_t (*wire_attempt)(void *context);

/* The part of wire_wait after a first attempt that found nothing. */
ssize_t wire_wait_longer(struct wire_waiter *waiter, wire_attempt attempt, void *context);

/* Tries at once, then polls by the rule. Returns what the attempt returned (> 0 or < 0), or 0: the
 * caller should now sleep until there may be something, and call again. */
static inline ssize_t wire_wait(struct wire_waiter *waiter, wire_attempt attempt, void *context)
{
    ssize_t got = attempt(context);
    return got != 0 ? got : wire_wait_longer(waiter, attempt, context);
}

/* A busy server that never waits still lets the clients on its CPU run so often. Without that their
 * p99.9 is a time slice (4 ms); every 50 us costs 16 % of the throughput of light operations. */
#define WIRE_SERVED_YIELD_EVERY_NS 200000u

/* The part of wire_waiter_served when a yield is due. */
void wire_waiter_yield(struct wire_waiter *waiter, uint64_t now_ns);

/* A server thread calls this after each request that it has answered: clients that share its CPU
 * get a turn. now_ns: CLOCK_MONOTONIC, from a read that the caller needed anyway. */
static inline void wire_waiter_served(struct wire_waiter *waiter, uint64_t now_ns)
{
    if (waiter->spin.mode == WIRE_SPIN_AUTO &&
        now_ns >= waiter->last_yield_ns + WIRE_SERVED_YIELD_EVERY_NS)
        wire_waiter_yield(waiter, now_ns);
}

/* Whether waiters of this process poll without yielding now, because too much time was lost to
 * other programs of the machine. Any thread. */
bool wire_yielding_is_muted(void);

#endif
