/*
 * The wait rule. Polling pays when the answer comes before a sleeper would have been woken (45 us
 * here); it costs when somebody else needed the CPU. So there are two ways to poll. Each has a
 * score of how often it paid lately; while the score is low, the way is not used, except for a
 * probe now and then:
 *
 *   yield mode  calls sched_yield between polls: harmless to others who run briefly, and fast when
 *               the peer shares the CPU. But beside a stranger that keeps the CPU busy a yield
 *               gives away a whole time slice. The lost time is added up; too much of it mutes this
 *               mode in the whole process, longer each time.
 *   pause mode  polls without giving the CPU away, while yielding is muted or does not pay.
 *
 * When strangers keep all CPUs busy, only the scheduler's shares are left to use. Client and server
 * on one CPU alternate within half of it. On two CPUs both make progress while both run: when one
 * of them is stopped, the other soon stops polling and sleeps, and should run again as soon as its
 * partner is back and wakes it. With slices of the usual length it often did not: each of its own
 * slices (4 ms, a tick) was followed by two of the stranger's. So a client that finds yielding
 * muted asks for short slices, once (wire/time_slice.h). A server does not: with several clients it
 * loses by being stopped more often. docs/PERFORMANCE-TABLES.md, "The wait rule on a busy machine",
 * has the figures, also those of what did not help.
 */
#include "wire/wait.h"

#include <sched.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/text/parse.h"
#include "common/time/clock.h"
#include "common/time/pause.h"
#include "wire/time_slice.h"

#define US 1000u
#define MS 1000000u

/* How long to poll: twice the wake-up of a sleeper (about 20 us one way), which is enough for both
 * sides to stay awake when there is one client. 20, 50 and 100 us are equal at full load; 100 us
 * pins a core at 10,000 requests/s. Yield mode counts its own CPU time, pause mode the time that
 * has passed. */
#define POLL_BUDGET_NS (50 * US)

/* Scores: at most 1024; each hit or miss moves a score by 1/8 of the way to its end. */
#define SCORE_FULL   1024u
#define SCORE_SHIFT  3u
#define SCORE_START  600u
#define SCORE_ENOUGH 300u
#define PROBE_EVERY_WAITS \
    256u /* after this number of waits a mode that does not pay is tried again */

/* A yield that takes longer than the bare system call (0.4 us) has let somebody else run ... */
#define YIELD_CONTENDED_NS (1 * US)
/* ... and counts as at most this much CPU time of the yielding thread. */
#define YIELD_OWN_MAX_NS   (US / 2)
/* Polls between two yields of a thread that is alone on its CPU (with one client 495k round trips/s
 * against 390k with one poll; otherwise no difference). */
#define POLLS_PER_YIELD    7u

/* A yield longer than this has met a stranger: threads of client and server run far shorter. Losing
 * more than a quarter of the window to strangers is too much; one long yield (a timer tick, a
 * daemon) is not. */
#define YIELD_LOST_NS  (500 * US)
#define LOST_WINDOW_NS (100 * (uint64_t)MS)
#define LOST_LIMIT_NS  (25 * (uint64_t)MS)

/* The length of the first mute. A mute that begins within MUTE_MEMORY_NS after the end of the last
 * one is MUTE_GROWTH times as long. */
#define MUTE_FIRST_NS  (250 * (uint64_t)MS)
#define MUTE_GROWTH    4u
#define MUTE_MAX_NS    (4000 * (uint64_t)MS)
#define MUTE_MEMORY_NS (1000 * (uint64_t)MS)

/* Yielding is muted for the whole process, since the stranger takes time from all of its
 * threads. */
static atomic_uint_fast64_t mute_until_ns;
static atomic_uint_fast64_t mute_length_ns;

bool wire_spin_parse(const char *text, struct wire_spin *spin)
{
    if (strcmp(text, "auto") == 0) {
        *spin = (struct wire_spin){.mode = WIRE_SPIN_AUTO};
        return true;
    }
    if (strcmp(text, "off") == 0) {
        *spin = (struct wire_spin){.mode = WIRE_SPIN_OFF};
        return true;
    }
    uint64_t us;
    if (!parse_u64(text, 1, 100000, &us))
        return false;
    *spin = (struct wire_spin){.mode = WIRE_SPIN_FIXED, .fixed_us = (uint32_t)us};
    return true;
}

struct wire_spin wire_spin_for_network(struct wire_spin spin)
{
    if (spin.mode == WIRE_SPIN_AUTO)
        spin.mode = WIRE_SPIN_OFF;
    return spin;
}

void wire_waiter_init(struct wire_waiter *waiter, struct wire_spin spin)
{
    *waiter =
        (struct wire_waiter){.spin = spin, .yield_score = SCORE_START, .pause_score = SCORE_START};
}

void wire_waiter_limit_yields(struct wire_waiter *waiter, uint32_t yields_max)
{
    KV_ASSERT(yields_max > 0);
    waiter->yields_max = yields_max;
}

void wire_waiter_allow_short_slices(struct wire_waiter *waiter)
{
    waiter->short_slices = true;
}

/* Adds 1 to a counter that only the owner of the waiter writes: a load and a store suffice. */
static void waiter_count(atomic_uint_fast64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void score_hit(uint32_t *score)
{
    *score += (SCORE_FULL - *score) >> SCORE_SHIFT;
}

static void score_miss(uint32_t *score)
{
    *score -= *score >> SCORE_SHIFT;
}

static bool yielding_is_muted(uint64_t now_ns)
{
    return now_ns < atomic_load_explicit(&mute_until_ns, memory_order_relaxed);
}

/* Mutes yielding in this process, unless another thread has just done so. */
static void mute_yielding(uint64_t now_ns)
{
    uint_fast64_t until_ns = atomic_load_explicit(&mute_until_ns, memory_order_relaxed);
    if (now_ns < until_ns)
        return;
    uint64_t length_ns = MUTE_FIRST_NS;
    if (until_ns != 0 && now_ns - until_ns < MUTE_MEMORY_NS) {
        length_ns = atomic_load_explicit(&mute_length_ns, memory_order_relaxed) * MUTE_GROWTH;
        if (length_ns > MUTE_MAX_NS)
            length_ns = MUTE_MAX_NS;
    }
    if (atomic_compare_exchange_strong(&mute_until_ns, &until_ns, now_ns + length_ns))
        atomic_store_explicit(&mute_length_ns, length_ns, memory_order_relaxed);
}

/* Books a yield that took `took_ns` and ended at now_ns. Returns true if too much time was lost, so
 * that yielding is muted now. */
static bool waiter_account_yield(struct wire_waiter *waiter, uint64_t took_ns, uint64_t now_ns)
{
    if (took_ns <= YIELD_LOST_NS)
        return false;
    if (now_ns - waiter->window_start_ns > LOST_WINDOW_NS) {
        waiter->window_start_ns = now_ns;
        waiter->lost_ns = 0;
    }
    waiter->lost_ns += took_ns;
    if (waiter->lost_ns <= LOST_LIMIT_NS)
        return false;
    waiter->lost_ns = 0;
    mute_yielding(now_ns);
    return true;
}

/* Polls, and yields the CPU between polls. Returns as wire_wait does. */
static ssize_t poll_yielding(struct wire_waiter *waiter, wire_attempt attempt, void *context,
                             uint64_t start_ns)
{
    ssize_t got;
    uint64_t spent_ns = 0;
    uint32_t contended_yields = 0; /* yields in which others ran */
    uint64_t since_ns = start_ns;  /* since when this thread has been running */
    for (;;) {
        for (unsigned polls = 0; !waiter->contended && polls < POLLS_PER_YIELD; polls++) {
            pause_cpu();
            got = attempt(context);
            if (got != 0)
                goto hit;
        }
        uint64_t before_ns = clock_monotonic_ns();
        sched_yield();
        uint64_t after_ns = clock_monotonic_ns();
        uint64_t took_ns = after_ns - before_ns;
        got = attempt(context);
        if (waiter_account_yield(waiter, took_ns, after_ns))
            return got;
        waiter->contended = took_ns > YIELD_CONTENDED_NS;
        if (got != 0)
            goto hit;
        spent_ns += before_ns - since_ns;
        spent_ns += took_ns < YIELD_CONTENDED_NS ? took_ns : YIELD_OWN_MAX_NS;
        since_ns = after_ns;
        contended_yields += waiter->contended;
        bool out_of_yields = waiter->yields_max > 0 && contended_yields >= waiter->yields_max;
        if (spent_ns >= POLL_BUDGET_NS || out_of_yields) {
            score_miss(&waiter->yield_score);
            return 0;
        }
    }
hit:
    score_hit(&waiter->yield_score);
    return got;
}

/* Polls for budget_ns without giving the CPU away. Returns as wire_wait does. */
static ssize_t poll_pausing(wire_attempt attempt, void *context, uint64_t start_ns,
                            uint64_t budget_ns)
{
    do {
        pause_cpu();
        ssize_t got = attempt(context);
        if (got != 0)
            return got;
    } while (clock_monotonic_ns() - start_ns < budget_ns);
    return 0;
}

static ssize_t poll_auto(struct wire_waiter *waiter, wire_attempt attempt, void *context,
                         bool probe)
{
    static _Thread_local bool asked_for_short_slices;
    uint64_t start_ns = clock_monotonic_ns();
    if (!yielding_is_muted(start_ns)) {
        if (waiter->yield_score >= SCORE_ENOUGH || probe)
            return poll_yielding(waiter, attempt, context, start_ns);
        if (waiter->yields_max > 0)
            return 0; /* the threads that it waits for may need this CPU */
    } else if (waiter->short_slices && !asked_for_short_slices) {
        time_slice_shorten();
        asked_for_short_slices = true;
    }
    KV_ASSERT(waiter->yield_score <= SCORE_FULL && waiter->pause_score <= SCORE_FULL);
    if (waiter->pause_score < SCORE_ENOUGH && !probe)
        return 0;
    ssize_t got = poll_pausing(attempt, context, start_ns, POLL_BUDGET_NS);
    if (got != 0)
        score_hit(&waiter->pause_score);
    else
        score_miss(&waiter->pause_score);
    return got;
}

ssize_t wire_wait_longer(struct wire_waiter *waiter, wire_attempt attempt, void *context)
{
    ssize_t got = 0;
    waiter_count(&waiter->waits);
    bool probe =
        atomic_load_explicit(&waiter->waits, memory_order_relaxed) % PROBE_EVERY_WAITS == 0;
    if (waiter->spin.mode == WIRE_SPIN_AUTO)
        got = poll_auto(waiter, attempt, context, probe);
    else if (waiter->spin.mode == WIRE_SPIN_FIXED)
        got = poll_pausing(attempt, context, clock_monotonic_ns(), waiter->spin.fixed_us * US);
    waiter_count(got != 0 ? &waiter->hits : &waiter->sleeps);
    return got;
}

void wire_waiter_yield(struct wire_waiter *waiter, uint64_t now_ns)
{
    if (yielding_is_muted(now_ns))
        return;
    sched_yield();
    uint64_t after_ns = clock_monotonic_ns();
    waiter->last_yield_ns = after_ns;
    waiter_account_yield(waiter, after_ns - now_ns, after_ns);
}

bool wire_yielding_is_muted(void)
{
    return yielding_is_muted(clock_monotonic_ns());
}
