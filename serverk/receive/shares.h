/*
 * shares: the workers' time, divided among tenants, so that no tenant takes more than its share,
 * however much it sends. A tenant is identified by the queue of a message (lanes.h), before anybody
 * looks at the message.
 *
 * While only one tenant is active, it gets all the time and nothing is counted. While n tenants are
 * active, each may use 1/n of the time. A tenant that has used more rests: its messages stay in
 * their queues until the excess is made up for, and some milliseconds longer. It rests even while
 * nobody else has work: otherwise a client that sends its next request after each reply would wait
 * behind a message of that tenant every time.
 *
 * A tenant is active for some milliseconds after a message. A rest ends when no other tenant is
 * active any more. It is at most SHARES_MAX_REST_NS, or what a single long message costs
 * (SHARES_LONGEST_REST_NS at most). After a long message the other tenants stay active for up to a
 * quarter of its time: they may have to wait for a CPU before they send again. Long is a message
 * that kept its worker away (parking.h) for twice SHARES_ACTIVE_NS or more: after less, it may be a
 * short one whose worker had to give its CPU to another thread.
 *
 * While several tenants are active, the messages of one tenant never occupy all workers: one worker
 * is kept free.
 *
 * Threads: any, without locks; accounts may miss updates that several workers make at once.
 */
#ifndef MQKV_SERVERK_RECEIVE_SHARES_H
#define MQKV_SERVERK_RECEIVE_SHARES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/assert/assert.h"

#define SHARES_MAX_TENANTS  32u
#define SHARES_ACTIVE_NS    (5u * 1000 * 1000)
#define SHARES_MAX_REST_NS  (50u * 1000 * 1000)
#define SHARES_KEPT_REST_NS (1000u * 1000)

#define SHARES_LONGEST_REST_NS (1000u * 1000 * 1000)

struct tenant {
    _Atomic uint64_t seen_ns; /* its last message while several tenants were active */
    _Atomic uint64_t due_ns;  /* when its excess is made up for */
    _Atomic uint64_t rests_until_ns;
    _Atomic uint64_t alone_until_ns; /* until then it rests even if no other is active */
    _Atomic uint64_t patience_ns;    /* how long others stay active beside it after a message */
    _Atomic unsigned under_way;      /* its messages that are executed now */
    _Atomic uint64_t used_ns;        /* by its messages while several were active */
} __attribute__((aligned(64)));

struct shares {
    _Atomic uint32_t active; /* bits of tenants */
    unsigned workers;        /* of the daemon; constant */
    struct tenant tenants[SHARES_MAX_TENANTS];
};

/* Returns whether several tenants were seen to be active. */
static inline bool shares_contended(const struct shares *shares)
{
    uint32_t active = atomic_load_explicit(&shares->active, memory_order_relaxed);
    return (active & (active - 1)) != 0;
}

/* Returns whether this tenant alone was seen to be active. */
static inline bool shares_is_alone(const struct shares *shares, unsigned tenant)
{
    return atomic_load_explicit(&shares->active, memory_order_relaxed) == UINT32_C(1) << tenant;
}

/* What one message cost. */
struct share_use {
    uint64_t start_ns, end_ns;
    uint64_t waited_ns;     /* of that, for locks that others held */
    uint64_t written_bytes; /* to data files: work that disk and compaction have yet to do */
    unsigned weight;        /* factor of the time */
    bool was_away;          /* the worker, by it (parking.h) */
};

/* Charges a message to the tenant; `workers` (>= 1) serve all tenants. */
void shares_charge(struct shares *shares, unsigned tenant, const struct share_use *use,
                   unsigned workers);

/* To be called before and after the execution of a message of the tenant. */
static inline void shares_begin_message(struct shares *shares, unsigned tenant)
{
    atomic_fetch_add_explicit(&shares->tenants[tenant].under_way, 1, memory_order_relaxed);
}

static inline void shares_end_message(struct shares *shares, unsigned tenant)
{
    unsigned before =
        atomic_fetch_sub_explicit(&shares->tenants[tenant].under_way, 1, memory_order_relaxed);
    KV_ASSERT(before > 0);
}

/* The tenants (as bits) that rest now. If there is one, *until_ns gets the time to look again: when
 * the first rest ends, or after SHARES_MAX_REST_NS, or, if a tenant rests only because its messages
 * are under way, after SHARES_KEPT_REST_NS. */
uint32_t shares_resting(const struct shares *shares, uint64_t now_ns, uint64_t *until_ns);

/* Makes the tenant's account begin anew: the number belongs to another tenant from now on. */
void shares_forget(struct shares *shares, unsigned tenant);

#endif
