#include "serverk/receive/shares.h"

/* What a payer may use before it rests, and what it has again at the end of a rest: rests are few and long
 * rather than many and short. In between the others' clients and the workers find each other awake: a reply in
 * 5 us instead of 50. */
#define BURST_NS (2u * 1000 * 1000)

static uint64_t load(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void store(_Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* The payer has its first message for long. Those that were active count as seen now: while one was alone,
 * nobody looked. */
static void join(struct shares *shares, uint32_t active, unsigned payer, uint64_t now_ns)
{
    if ((active & (active - 1)) == 0)
        for (uint32_t others = active; others != 0; others &= others - 1)
            store(&shares->payers[__builtin_ctz(others)].seen_ns, now_ns);
    atomic_fetch_or_explicit(&shares->active, UINT32_C(1) << payer, memory_order_relaxed);
}

/* Those of the active ones that had no message for long are no more; the payer itself stays. Returns the
 * rest. now_ns: when the payer's message began, since while it was worked on nobody else had a chance. */
static uint32_t drop_inactive(struct shares *shares, uint32_t active, unsigned payer,
                              uint64_t now_ns)
{
    uint32_t gone = 0;
    for (uint32_t others = active & ~(UINT32_C(1) << payer); others != 0; others &= others - 1) {
        unsigned other = (unsigned)__builtin_ctz(others);
        if (load(&shares->payers[other].seen_ns) + SHARES_ACTIVE_NS < now_ns)
            gone |= UINT32_C(1) << other;
    }
    if (gone != 0)
        atomic_fetch_and_explicit(&shares->active, ~gone, memory_order_relaxed);
    return active & ~gone;
}

/* How much of its due time a payer works off for what it used. Each of n has workers / n of the workers, or, of
 * many, all but one for each other payer. */
static uint64_t stretched(uint64_t used_ns, unsigned payers, unsigned workers)
{
    if (workers >= payers && (workers - payers + 1) * payers > workers)
        return used_ns / (workers - payers + 1);
    return used_ns * payers / workers;
}

static void add_due(struct payer *payer, uint64_t start_ns, uint64_t end_ns, uint64_t more_ns)
{
    uint64_t floor_ns = start_ns > BURST_NS ? start_ns - BURST_NS : 0;
    uint64_t due_ns = load(&payer->due_ns), next_ns;
    do {
        next_ns = (due_ns > floor_ns ? due_ns : floor_ns) + more_ns;
        if (next_ns > end_ns + SHARES_MAX_REST_NS)
            next_ns = end_ns + SHARES_MAX_REST_NS;
    } while (!atomic_compare_exchange_weak_explicit(&payer->due_ns, &due_ns, next_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (next_ns > end_ns)
        store(&payer->rests_until_ns, end_ns + SHARES_MAX_REST_NS - BURST_NS > next_ns
                                          ? next_ns + BURST_NS
                                          : end_ns + SHARES_MAX_REST_NS);
}

void shares_charge(struct shares *shares, unsigned payer, uint64_t start_ns, uint64_t end_ns,
                   unsigned weight, unsigned workers)
{
    uint32_t mine = UINT32_C(1) << payer;
    uint32_t active = atomic_load_explicit(&shares->active, memory_order_relaxed);
    if ((active & mine) == 0)
        join(shares, active, payer, start_ns);
    struct payer *account = &shares->payers[payer];
    store(&account->seen_ns, end_ns);
    active = drop_inactive(shares, active | mine, payer, start_ns);
    if (active == mine)
        return;
    uint64_t used_ns = end_ns > start_ns ? end_ns - start_ns : 0;
    atomic_fetch_add_explicit(&account->used_ns, used_ns, memory_order_relaxed);
    add_due(account, start_ns, end_ns,
            stretched(used_ns * weight, (unsigned)__builtin_popcount(active), workers));
}

/* Whether a payer other than this one is active. */
static bool others_active(const struct shares *shares, uint32_t active, unsigned payer,
                          uint64_t now_ns)
{
    for (uint32_t others = active & ~(UINT32_C(1) << payer); others != 0; others &= others - 1)
        if (load(&shares->payers[__builtin_ctz(others)].seen_ns) + SHARES_ACTIVE_NS >= now_ns)
            return true;
    return false;
}

uint32_t shares_resting(const struct shares *shares, uint64_t now_ns, uint64_t *until_ns)
{
    uint32_t active = atomic_load_explicit(&shares->active, memory_order_relaxed);
    uint32_t resting = 0;
    for (uint32_t left = active; left != 0; left &= left - 1) {
        unsigned payer = (unsigned)__builtin_ctz(left);
        uint64_t rests_until_ns = load(&shares->payers[payer].rests_until_ns);
        if (rests_until_ns <= now_ns || !others_active(shares, active, payer, now_ns))
            continue;
        if (resting == 0 || rests_until_ns < *until_ns)
            *until_ns = rests_until_ns;
        resting |= UINT32_C(1) << payer;
    }
    return resting;
}

void shares_forget(struct shares *shares, unsigned payer)
{
    atomic_fetch_and_explicit(&shares->active, ~(UINT32_C(1) << payer), memory_order_relaxed);
    store(&shares->payers[payer].due_ns, 0);
    store(&shares->payers[payer].rests_until_ns, 0);
    store(&shares->payers[payer].used_ns, 0);
}
