#include "serverk/receive/shares.h"

/* What a tenant may use before it rests, and what it has again at the end of a rest: rests are few
 * and long rather than many and short. In between the others' clients and the workers find each
 * other awake: a reply in 5 us instead of 50. */
#define BURST_NS (2u * 1000 * 1000)

/* A byte written is moved again later, by the disk and by compaction. */
#define NS_PER_BYTE 1u

/* A worker that is away for less may only have had no CPU. */
#define LONG_NS (2u * SHARES_ACTIVE_NS)

#define MAX_PATIENCE_NS (100u * 1000 * 1000)

_Static_assert(SHARES_MAX_REST_NS > BURST_NS, "a rest ends after what may be used without one");

static uint64_t load(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void store(_Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* Makes the tenant active, whose first message for long this is. Those that were active count as
 * seen now: while one was alone, nobody looked. */
static void join_shares(struct shares *shares, uint32_t active, unsigned tenant, uint64_t now_ns)
{
    if ((active & (active - 1)) == 0)
        for (uint32_t others = active; others != 0; others &= others - 1)
            store(&shares->tenants[__builtin_ctz(others)].seen_ns, now_ns);
    atomic_fetch_or_explicit(&shares->active, UINT32_C(1) << tenant, memory_order_relaxed);
}

/* Those of the active ones that had no message for long, and might have had, are no more; the
 * tenant itself stays. Returns the rest. now_ns: when the tenant's message began, since while it
 * was worked on nobody else had a chance. */
static uint32_t drop_inactive(struct shares *shares, uint32_t active, unsigned tenant,
                              uint64_t now_ns, uint64_t patience_ns)
{
    uint32_t gone = 0;
    for (uint32_t others = active & ~(UINT32_C(1) << tenant); others != 0; others &= others - 1) {
        unsigned other = (unsigned)__builtin_ctz(others);
        const struct tenant *account = &shares->tenants[other];
        if (load(&account->seen_ns) + patience_ns < now_ns &&
            load(&account->rests_until_ns) + patience_ns < now_ns)
            gone |= UINT32_C(1) << other;
    }
    if (gone != 0)
        atomic_fetch_and_explicit(&shares->active, ~gone, memory_order_relaxed);
    return active & ~gone;
}

/* How much of its due time a tenant works off for what it used. Each of n has workers / n of the
 * workers, or, of many, all but one for each other tenant. */
static uint64_t stretched(uint64_t used_ns, unsigned tenants, unsigned workers)
{
    if (workers >= tenants && (workers - tenants + 1) * tenants > workers)
        return used_ns / (workers - tenants + 1);
    return used_ns * tenants / workers;
}

/* Returns the longest rest after a message that is charged with more_ns. */
static uint64_t longest_rest(uint64_t more_ns)
{
    return more_ns < SHARES_MAX_REST_NS       ? SHARES_MAX_REST_NS
           : more_ns < SHARES_LONGEST_REST_NS ? more_ns
                                              : SHARES_LONGEST_REST_NS;
}

static void add_due(struct tenant *tenant, uint64_t start_ns, uint64_t end_ns, uint64_t more_ns,
                    uint64_t longest_ns)
{
    uint64_t floor_ns = start_ns > BURST_NS ? start_ns - BURST_NS : 0;
    uint64_t latest_ns = end_ns + longest_ns;
    uint64_t due_ns = load(&tenant->due_ns), next_ns;
    do {
        next_ns = (due_ns > floor_ns ? due_ns : floor_ns) + more_ns;
        if (next_ns > latest_ns)
            next_ns = latest_ns;
    } while (!atomic_compare_exchange_weak_explicit(&tenant->due_ns, &due_ns, next_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (next_ns > end_ns)
        store(&tenant->rests_until_ns,
              latest_ns - BURST_NS > next_ns ? next_ns + BURST_NS : latest_ns);
}

/* Returns how long other tenants stay active beside a message that took used_ns. */
static uint64_t patience_after(uint64_t used_ns)
{
    uint64_t ns = used_ns / 4;
    return ns < SHARES_ACTIVE_NS ? SHARES_ACTIVE_NS : ns < MAX_PATIENCE_NS ? ns : MAX_PATIENCE_NS;
}

/* Returns the time that the message used, without that in which the worker only waited. */
static uint64_t time_used(const struct share_use *use)
{
    uint64_t ns = use->end_ns > use->start_ns ? use->end_ns - use->start_ns : 0;
    return ns > use->waited_ns ? ns - use->waited_ns : 0;
}

void shares_charge(struct shares *shares, unsigned tenant, const struct share_use *use,
                   unsigned workers)
{
    KV_ASSERT(tenant < SHARES_MAX_TENANTS && workers > 0 && use->weight > 0);
    uint64_t start_ns = use->start_ns, end_ns = use->end_ns;
    uint32_t mine = UINT32_C(1) << tenant;
    uint32_t active = atomic_load_explicit(&shares->active, memory_order_relaxed);
    if ((active & mine) == 0)
        join_shares(shares, active, tenant, start_ns);
    struct tenant *account = &shares->tenants[tenant];
    uint64_t used_ns = time_used(use);
    bool was_long = use->was_away && used_ns >= LONG_NS;
    uint64_t patience_ns = patience_after(was_long ? used_ns : 0);
    store(&account->seen_ns, end_ns);
    store(&account->patience_ns, patience_ns);
    active = drop_inactive(shares, active | mine, tenant, start_ns, patience_ns);
    if (active == mine)
        return;
    atomic_fetch_add_explicit(&account->used_ns, used_ns, memory_order_relaxed);
    if (was_long)
        store(&account->alone_until_ns, end_ns + patience_ns);
    uint64_t more_ns = stretched(used_ns * use->weight + use->written_bytes * NS_PER_BYTE,
                                 (unsigned)__builtin_popcount(active), workers);
    add_due(account, start_ns, end_ns, more_ns,
            use->was_away ? longest_rest(more_ns) : SHARES_MAX_REST_NS);
}

/* Returns whether a tenant other than this one is active. */
static bool others_active(const struct shares *shares, uint32_t active, unsigned tenant,
                          uint64_t now_ns, uint64_t patience_ns)
{
    for (uint32_t others = active & ~(UINT32_C(1) << tenant); others != 0; others &= others - 1)
        if (load(&shares->tenants[__builtin_ctz(others)].seen_ns) + patience_ns >= now_ns)
            return true;
    return false;
}

/* Returns whether the tenant keeps as many workers as one may. */
static bool keeps_workers(const struct shares *shares, unsigned tenant)
{
    unsigned kept = atomic_load_explicit(&shares->tenants[tenant].under_way, memory_order_relaxed);
    return kept > 0 && kept + 1 >= shares->workers;
}

uint32_t shares_resting(const struct shares *shares, uint64_t now_ns, uint64_t *until_ns)
{
    uint32_t active = atomic_load_explicit(&shares->active, memory_order_relaxed);
    uint32_t resting = 0;
    uint64_t first_ns = now_ns + SHARES_MAX_REST_NS;
    for (uint32_t left = active; left != 0; left &= left - 1) {
        unsigned tenant = (unsigned)__builtin_ctz(left);
        const struct tenant *account = &shares->tenants[tenant];
        uint64_t rests_until_ns = load(&account->rests_until_ns);
        bool rests = rests_until_ns > now_ns &&
                     (now_ns < load(&account->alone_until_ns) ||
                      others_active(shares, active, tenant, now_ns, load(&account->patience_ns)));
        if (!rests && !keeps_workers(shares, tenant))
            continue;
        uint64_t ends_ns = rests ? rests_until_ns : now_ns + SHARES_KEPT_REST_NS;
        if (ends_ns < first_ns)
            first_ns = ends_ns;
        resting |= UINT32_C(1) << tenant;
    }
    if (resting != 0)
        *until_ns = first_ns;
    return resting;
}

void shares_forget(struct shares *shares, unsigned tenant)
{
    atomic_fetch_and_explicit(&shares->active, ~(UINT32_C(1) << tenant), memory_order_relaxed);
    store(&shares->tenants[tenant].due_ns, 0);
    store(&shares->tenants[tenant].rests_until_ns, 0);
    store(&shares->tenants[tenant].alone_until_ns, 0);
    store(&shares->tenants[tenant].used_ns, 0);
}
