/*
 * wait: how both ends wait for a message: they poll for some microseconds while polling pays, then
 * they sleep. wait.c states the rule, its constants and the measurements behind them;
 * docs/PERFORMANCE.md shows the effect. This module polls and yields, but never sleeps: it tells
 * its caller when to.
 *
 * Threads: a waiter belongs to one thread. Whether yielding is muted is known to the whole process.
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
    uint32_t fixed_us; /* with WIRE_SPIN_FIXED: how long to poll */
};

/* Reads `text`, which is "auto", "off" or a number of microseconds (1 to 100000), into *spin.
 * Returns false if `text` is none of these; *spin is unchanged then. */
bool wire_spin_parse(const char *text, struct wire_spin *spin);

/* Returns the mode for answers that come over a network: `spin`, but OFF in place of AUTO. No such
 * answer comes within the time of a poll, and the servers behind it may need this CPU. */
struct wire_spin wire_spin_for_network(struct wire_spin spin);

/* The state of one waiting thread, which wire_waiter_init fills in. Other threads may read the
 * atomic counters, for statistics, and nothing else. */
struct wire_waiter {
    struct wire_spin spin;
    uint32_t yield_score;        /* how often polling with yields paid lately, 0..1024 */
    uint32_t pause_score;        /* how often polling without yields paid lately, 0..1024 */
    uint32_t yields_max;         /* see wire_waiter_limit_yields; 0: no limit */
    bool contended;              /* the last yield gave the CPU to somebody */
    bool short_slices;           /* see wire_waiter_allow_short_slices */
    atomic_uint_fast64_t waits;  /* waits that did not find a message at once */
    atomic_uint_fast64_t hits;   /* of `waits`: ended by polling */
    atomic_uint_fast64_t sleeps; /* of `waits`: ended with the advice to sleep */
    uint64_t last_yield_ns;      /* when wire_waiter_yield last yielded */
    uint64_t window_start_ns;    /* since when lost_ns has been added up, for 100 ms at most */
    uint64_t lost_ns;            /* time that long yields gave away */
};
void wire_waiter_init(struct wire_waiter *waiter, struct wire_spin spin);

/* Limits polling for a thread that waits for other threads of its process, where a wake-up is
 * cheap: after `yields_max` (>= 1) yields in which others ran, but did not bring what `waiter`
 * waits for, the thread is told to sleep. A thread that goes on yielding delays each of the
 * others. */
void wire_waiter_limit_yields(struct wire_waiter *waiter, uint32_t yields_max);

/* Allows the thread of `waiter`, which waits for one answer at a time, to ask the scheduler for
 * short time slices (wire/time_slice.h) when other programs keep the CPUs busy. The thread then
 * keeps them for as long as it lives. */
void wire_waiter_allow_short_slices(struct wire_waiter *waiter);

/* One attempt to receive, which does not block. Returns > 0: something was received; 0: nothing is
 * there; < 0: failure, with errno. */
typedef ssize_t (*wire_attempt)(void *context);

/* Continues wire_wait after a first attempt that found nothing. */
ssize_t wire_wait_longer(struct wire_waiter *waiter, wire_attempt attempt, void *context);

/* Calls attempt(context) at once, and then again and again for as long as the rule says. Returns
 * what the last attempt returned: if that is 0, the caller should sleep until there may be
 * something, and call again. */
static inline ssize_t wire_wait(struct wire_waiter *waiter, wire_attempt attempt, void *context)
{
    ssize_t got = attempt(context);
    return got != 0 ? got : wire_wait_longer(waiter, attempt, context);
}

/* How often a busy server, which never waits, lets the clients on its CPU run. If it never did,
 * their p99.9 would be a time slice (4 ms); every 50 us would cost 16 % of the throughput of light
 * operations. */
#define WIRE_SERVED_YIELD_EVERY_NS 200000u

/* Yields for wire_waiter_served, unless yielding is muted. now_ns: CLOCK_MONOTONIC. */
void wire_waiter_yield(struct wire_waiter *waiter, uint64_t now_ns);

/* Yields if the last yield is WIRE_SERVED_YIELD_EVERY_NS ago. A server thread calls this after each
 * request that it has answered, so that clients on its CPU can run. now_ns: CLOCK_MONOTONIC, which
 * the caller has read anyway. */
static inline void wire_waiter_served(struct wire_waiter *waiter, uint64_t now_ns)
{
    if (waiter->spin.mode == WIRE_SPIN_AUTO &&
        now_ns >= waiter->last_yield_ns + WIRE_SERVED_YIELD_EVERY_NS)
        wire_waiter_yield(waiter, now_ns);
}

/* Returns true if waiters of this process poll without yielding at this moment, because too much
 * time was lost to other programs of the machine. Any thread may ask. */
bool wire_yielding_is_muted(void);

#endif
