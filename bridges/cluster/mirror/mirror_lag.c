#include "bridges/cluster/mirror/mirror_lag.h"

#include <stdlib.h>

#include "common/time/clock.h"

/* Only after a crash two successive versions differ by more than this (mqkv/kvstore.h). */
#define CRASH_GAP (UINT64_C(1) << 32)

bool mirror_lag_begin(struct mirror_lag *lag, struct kvstore *store,
                      const struct mirror_state *state)
{
    uint64_t real_ms = clock_realtime_ms(), now_ms = clock_monotonic_coarse_ms();
    uint64_t same_ms = state->same_ms;
    uint64_t age_ms = same_ms > 0 && same_ms < real_ms ? real_ms - same_ms : 0;
    *lag = (struct mirror_lag){.store = store,
                               .files = state->files,
                               .since_ms = age_ms < now_ms ? now_ms - age_ms : 1,
                               .versions = calloc(state->files, sizeof *lag->versions),
                               .goals = calloc(state->files, sizeof *lag->goals)};
    for (uint32_t i = 0; lag->versions && i < state->files; i++)
        atomic_store(&lag->versions[i], state->places[i].version);
    return lag->versions && lag->goals;
}

void mirror_lag_free(struct mirror_lag *lag)
{
    free(lag->versions);
    free(lag->goals);
    lag->versions = NULL;
    lag->goals = NULL;
}

void mirror_lag_note_change(struct mirror_lag *lag)
{
    uint64_t none = 0;
    if (atomic_load_explicit(&lag->since_ms, memory_order_relaxed) == 0)
        atomic_compare_exchange_strong(&lag->since_ms, &none, clock_monotonic_coarse_ms());
}

bool mirror_lag_was_undone(struct kvstore *store, const struct mirror_state *state)
{
    for (uint32_t i = 0; i < state->files; i++) {
        uint64_t had = state->places[i].version, has = mirror_version_now(store, i);
        if (has > had && has - had >= CRASH_GAP / 2) /* there may have been writes that were lost */
            return true;
    }
    return false;
}

static bool has_reached(const struct mirror_lag *lag)
{
    for (uint32_t i = 0; i < lag->files; i++)
        if (atomic_load(&lag->versions[i]) < lag->goals[i])
            return false;
    return true;
}

static void set_goal(struct mirror_lag *lag)
{
    lag->goal_ms = clock_monotonic_coarse_ms();
    for (uint32_t i = 0; i < lag->files; i++)
        lag->goals[i] = mirror_version_now(lag->store, i);
}

void mirror_lag_look(struct mirror_lag *lag, struct mirror_state *state)
{
    for (uint32_t i = 0; i < lag->files; i++)
        atomic_store(&lag->versions[i], state->places[i].version);
    if (lag->goal_ms != 0 && !has_reached(lag))
        return;
    if (lag->goal_ms != 0)
        atomic_store(&lag->since_ms, lag->goal_ms);
    set_goal(lag);
    if (has_reached(lag)) {
        atomic_store(&lag->since_ms, 0);
        set_goal(lag); /* set again, because writes since the last goal were not noted */
        if (has_reached(lag))
            lag->goal_ms = 0;
        else
            mirror_lag_note_change(lag);
    }
    uint64_t behind_ms = mirror_lag_ms(lag);
    state->same_ms = clock_realtime_ms() - behind_ms;
}

uint64_t mirror_lag_ms(const struct mirror_lag *lag)
{
    uint64_t since_ms = atomic_load_explicit(&lag->since_ms, memory_order_relaxed);
    uint64_t now_ms = clock_monotonic_coarse_ms();
    return since_ms > 0 && since_ms < now_ms ? now_ms - since_ms : since_ms > 0;
}

uint64_t mirror_lag_changes(const struct mirror_lag *lag)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < lag->files; i++) {
        struct kvstore_file_statistics
            there; /* the figures may be old: the caller must not wait for new ones */
        kvstore_file_statistics(lag->store, i, &there);
        uint64_t has = atomic_load(&lag->versions[i]);
        uint64_t lacks = there.max_version > has ? there.max_version - has : 0;
        sum += lacks >= CRASH_GAP ? lacks % CRASH_GAP + 1 : lacks;
    }
    return sum;
}
