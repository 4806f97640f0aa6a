/*
 * shares: how the workers' time is divided among payers, so that none takes from others more than
 * its share, however much it sends. A payer is who can be told apart before a message is looked at:
 * by its queue (lanes.h).
 *
 * While one payer is active nothing is counted: it gets everything. While several are, each may use
 * its share of the time, 1/n of it for n active ones. A payer that has used more rests until the
 * clock has made up for it, and some milliseconds longer: its messages stay in their queues. It
 * rests even while nobody else has anything to do: otherwise a client that sends its next request
 * after each reply would wait behind a message of that payer every time.
 *
 * A payer is active for some milliseconds after a message. A rest ends with the activity of the
 * others, and is never longer than SHARES_MAX_REST_NS, or than a single message calls for that took
 * longer (SHARES_LONGEST_REST_NS at most). After such a message the others have up to a quarter of
 * its time to be seen again: they may have to wait for a CPU first.
 *
 * Beside others, one payer never has all workers in messages that take long: one is kept.
 *
 * Threads: any, without locks; accounts are exact up to what several workers do in the same moment.
 */
#ifndef MQKV_SERVERK_RECEIVE_SHARES_H
#define MQKV_SERVERK_RECEIVE_SHARES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARES_MAX_PAYERS  32u
#define SHARES_ACTIVE_NS   (5u * 1000 * 1000)
#define SHARES_MAX_REST_NS (50u * 1000 * 1000)

#define SHARES_LONGEST_REST_NS (1000u * 1000 * 1000)

struct payer {
    _Atomic uint64_t seen_ns; /* its last message, as far as several were active */
    _Atomic uint64_t due_ns;  /* when the clock has made up for all that it used */
    _Atomic uint64_t rests_until_ns;
    _Atomic uint64_t alone_until_ns; /* until then it rests whether others are active or not */
    _Atomic uint64_t patience_ns;    /* beside it others are active so long after a message */
    _Atomic unsigned long_messages;  /* under way */
    _Atomic uint64_t used_ns;        /* by its messages while several were active */
} __attribute__((aligned(64)));

struct shares {
    _Atomic uint32_t active; /* bits of payers */
    unsigned workers;        /* all there are; constant */
    struct payer payers[SHARES_MAX_PAYERS];
};

/* Whether several payers are active, as far as was seen. */
static inline bool shares_contended(const struct shares *shares)
{
    uint32_t active = atomic_load_explicit(&shares->active, memory_order_relaxed);
    return (active & (active - 1)) != 0;
}

/* Whether no other payer was seen since this one came. */
static inline bool shares_is_alone(const struct shares *shares, unsigned payer)
{
    return atomic_load_explicit(&shares->active, memory_order_relaxed) == UINT32_C(1) << payer;
}

/* What a message kept a worker busy with. */
struct share_use {
    uint64_t start_ns, end_ns;
    uint64_t waited_ns;     /* of that for locks: others had them */
    uint64_t written_bytes; /* to data files; the disk and compaction have them before them still */
    unsigned weight;        /* the time counts so many times */
    bool expected_long;     /* else a long time is that of a worker without a CPU */
};

/* A message of the payer was that; `workers` (>= 1) are there for all. */
void shares_charge(struct shares *shares, unsigned payer, const struct share_use *use,
                   unsigned workers);

/* A message of the payer is found to take long; and its end. */
void shares_begin_long(struct shares *shares, unsigned payer);
void shares_end_long(struct shares *shares, unsigned payer);

/* The payers (as bits) that rest now; if there is one, *until_ns gets when to look again: when the
 * first of them stops to, or after SHARES_MAX_REST_NS. */
uint32_t shares_resting(const struct shares *shares, uint64_t now_ns, uint64_t *until_ns);

/* Somebody else is the payer of that number from now on. */
void shares_forget(struct shares *shares, unsigned payer);

#endif
