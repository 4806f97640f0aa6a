/*
 * mirror_lag: how far a copy is behind its store: how many writes, by the versions that each data
 * file has given, and for how long.
 *
 * Threads: any may ask; the mirror's own looks.
 */
#ifndef MQKV_MIRROR_MIRROR_LAG_H
#define MQKV_MIRROR_MIRROR_LAG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bridges/cluster/mirror/mirror_state.h"

struct mirror_lag {
    struct kvstore *store;
    uint32_t files;
    _Atomic uint64_t since_ms;  /* clock_monotonic_coarse_ms: the copy has what is older; 0: all */
    _Atomic uint64_t *versions; /* of each data file: the copy has these, and all below */
    uint64_t *goals;            /* what the store had at goal_ms */
    uint64_t goal_ms;           /* 0: there is none */
};

/* The copy may be behind since state->same_ms; a first one is since now. False: out of memory. */
bool mirror_lag_begin(struct mirror_lag *lag, struct kvstore *store,
                      const struct mirror_state *state);
void mirror_lag_free(struct mirror_lag *lag);

/* Since the state was written a data file was recovered by reading it, as after a power failure:
 * what was not yet on disk may be lost, and be in the copy. */
bool mirror_lag_was_undone(struct kvstore *store, const struct mirror_state *state);

/* Something was written. Any thread, under the lock of a data file. */
void mirror_lag_note_change(struct mirror_lag *lag);

/* The copy is as far as the state says: looks whether that is all. Sets state->same_ms. */
void mirror_lag_look(struct mirror_lag *lag, struct mirror_state *state);

/* 0: the copy has everything. Any thread. */
uint64_t mirror_lag_ms(const struct mirror_lag *lag);
uint64_t mirror_lag_changes(const struct mirror_lag *lag);

#endif
