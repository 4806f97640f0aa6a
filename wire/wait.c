/*
 * The wait rule. Polling pays when the answer comes before the wake-up of a sleeper would have (45
 * us here); it costs when somebody else needed the CPU. So there are two ways to poll, each with a
 * score of how often it paid, and each given up while its score is low but for a probe now and
 * then:
 *
 *   yield mode  between polls sched_yield: harmless to others who run briefly, and fast when the
 *               peer shares the CPU. But beside a CPU-bound stranger a yield gives away a whole
 *               time slice. The time lost so is added up; too much of it mutes this mode in the
 *               whole process, longer each time.
 *   pause mode  while muted, or while yielding does not pay: poll without giving the CPU away.
 *
 * Beside strangers on all CPUs the scheduler's shares are what is left to use. Two sides on one CPU
 * take turns within half of it. On two CPUs they get on while both have theirs: who is without a
 * partner stops polling soon, sleeps, and is to run as soon as the other one is back and wakes it.
 * With turns of the usual length it often did not: each of its own (4 ms, a tick) was followed by
 * two of the stranger's. So a client that finds yielding muted asks for short ones, once
 * (wire/time_slice.h). A server does not: with several clients it loses by being stopped more
 * often. docs/PERFORMANCE.md, "The wait rule on a busy machine", has the figures, also of what did
 * not help.
 */
#include "wire/wait.h"

#include <sched.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/text/parse.h"
#include "common/time/pause.h"
#include "wire/time_slice.h"

#define US 1000u
#define MS 1000000u

/* Twice one wake-up of a sleeper (about 20 us one way): enough that both sides stay awake at one
 * client. 20, 50 and 100 us are equal at full load; 100 us pins a core at 10,000 requests/s.
 * Counted in CPU time of our own in yield mode, in time passed in pause mode. */
#define POLL_BUDGET_NS (50 * US)

/* Scores: full at 1024, moved by 1/8 of the way at each hit or miss. */
#define SCORE_FULL        1024u
#define SCORE_SHIFT       3u
#define SCORE_START       600u
#define SCORE_ENOUGH      300u
#define PROBE_EVERY_WAITS 256u /* a mode that does not pay is tried again so often */

/* A yield that took longer than the bare system call (0.4 us) let somebody else run ... */
#define YIELD_CONTENDED_NS (1 * US)
/* ... and counts as so much of our own time at most. */
#define YIELD_OWN_MAX_NS   (US / 2)
/* Alone on the CPU, so many polls are made before the system call of a yield (at one client 495k
 * against 390k round trips/s without; otherwise no difference). */
#define POLLS_PER_YIELD    7u

/* A yield longer than this met a stranger, not one of us: our own turns are far shorter. Losing
 * more than a quarter of the window to strangers is too much; one long yield (a timer tick, a
 * daemon) is not. */
#define YIELD_LOST_NS  (500 * US)
#define LOST_WINDOW_NS (100 * (uint64_t)MS)
#define LOST_LIMIT_NS  (25 * (uint64_t)MS)

/* The first mute, and how it grows if the previous one ended less than MUTE_MEMORY_NS ago. */
#define MUTE_FIRST_NS  (250 * (uint64_t)MS)
#define MUTE_GROWTH    4u
#define MUTE_MAX_NS    (4000 * (uint64_t)MS)
#define MUTE_MEMORY_NS (1000 * (uint64_t)MS)

/* Muting is for the whole process: the stranger takes from all of its threads. */
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

void wire_waiter_limit_turns(struct wire_waiter *waiter, uint32_t turns_max)
{
    waiter->turns_max = turns_max;
}

void wire_waiter_may_take_short_turns(struct wire_waiter *waiter)
{
    waiter->short_turns = true;
}

/* Only the owner writes, so load and store do; no locked instruction. */
static void count(atomic_uint_fast64_t *counter)
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

static bool muted(uint64_t now_ns)
{
    return now_ns < atomic_load_explicit(&mute_until_ns, memory_order_relaxed);
}

/* Mutes yielding in this process, unless another thread just did. */
static void mute(uint64_t now_ns)
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

/* Books a yield of took_ns that ended now. True if that was one too many, and yielding is muted. */
static bool account_yield(struct wire_waiter *waiter, uint64_t took_ns, uint64_t now_ns)
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
    mute(now_ns);
    return true;
}

/* Polls while the CPU is given to whoever wants it between polls. Returns as wire_wait. */
static ssize_t poll_yielding(struct wire_waiter *waiter, wire_attempt attempt, void *context,
                             uint64_t start_ns)
{
    ssize_t got;
    uint64_t spent_ns = 0;
    uint32_t turns = 0;           /* yields in which others ran */
    uint64_t since_ns = start_ns; /* our own time runs since then */
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
        if (account_yield(waiter, took_ns, after_ns))
            return got;
        waiter->contended = took_ns > YIELD_CONTENDED_NS;
        if (got != 0)
            goto hit;
        spent_ns += before_ns - since_ns;
        spent_ns += took_ns < YIELD_CONTENDED_NS ? took_ns : YIELD_OWN_MAX_NS;
        since_ns = after_ns;
        turns += waiter->contended;
        bool out_of_turns = waiter->turns_max > 0 && turns >= waiter->turns_max;
        if (spent_ns >= POLL_BUDGET_NS || out_of_turns) {
            score_miss(&waiter->yield_score);
            return 0;
        }
    }
hit:
    score_hit(&waiter->yield_score);
    return got;
}

/* Polls for budget_ns without giving the CPU away. Returns as wire_wait. */
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

/* Once a thread: strangers keep the CPUs busy. */
static void ask_for_short_turns(void)
{
    static _Thread_local bool asked;
    if (!asked)
        time_slice_shorten();
    asked = true;
}

static ssize_t poll_auto(struct wire_waiter *waiter, wire_attempt attempt, void *context,
                         bool probe)
{
    uint64_t start_ns = clock_monotonic_ns();
    if (!muted(start_ns)) {
        if (waiter->yield_score >= SCORE_ENOUGH || probe)
            return poll_yielding(waiter, attempt, context, start_ns);
        if (waiter->turns_max > 0)
            return 0; /* those whom it waits for may need this CPU */
    } else if (waiter->short_turns) {
        ask_for_short_turns();
    }
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
    count(&waiter->waits);
    bool probe =
        atomic_load_explicit(&waiter->waits, memory_order_relaxed) % PROBE_EVERY_WAITS == 0;
    if (waiter->spin.mode == WIRE_SPIN_AUTO)
        got = poll_auto(waiter, attempt, context, probe);
    else if (waiter->spin.mode == WIRE_SPIN_FIXED)
        got = poll_pausing(attempt, context, clock_monotonic_ns(), waiter->spin.fixed_us * US);
    count(got != 0 ? &waiter->hits : &waiter->sleeps);
    return got;
}

void wire_waiter_yield(struct wire_waiter *waiter, uint64_t now_ns)
{
    if (muted(now_ns))
        return;
    sched_yield();
    uint64_t after_ns = clock_monotonic_ns();
    waiter->last_yield_ns = after_ns;
    account_yield(waiter, after_ns - now_ns, after_ns);
}

bool wire_yielding_is_muted(void)
{
    return muted(clock_monotonic_ns());
}
