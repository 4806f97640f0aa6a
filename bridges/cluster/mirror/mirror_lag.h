/*
 * mirror_lag: how far a copy is behind its store: by how many writes, counted by the versions that
 * each data file has given, and for how long.
 *
 * Threads: any may ask; only the mirror's own looks.
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
    _Atomic uint64_t
        since_ms; /* clock_monotonic_coarse_ms: the copy has all that is older; 0: all */
    _Atomic uint64_t *versions; /* of each data file: the copy has this version, and all below */
    uint64_t *goals;            /* of each data file: the version that the store had at goal_ms */
    uint64_t goal_ms;           /* 0: there is no goal */
};

/* Begins: the copy may be behind since state->same_ms, a first copy since now. False: out of
 * memory. */
bool mirror_lag_begin(struct mirror_lag *lag, struct kvstore *store,
                      const struct mirror_state *state);
void mirror_lag_free(struct mirror_lag *lag);

/* Returns true if a data file was recovered by reading it since the state was written, as after a
 * power failure: changes that were not yet on disk may be lost in the store, and be in the copy. */
bool mirror_lag_was_undone(struct kvstore *store, const struct mirror_state *state);

/* Notes that something was written. Any thread, under the lock of a data file. */
void mirror_lag_note_change(struct mirror_lag *lag);

/* Looks whether the copy, which is as far as the state says, has everything. Sets
 * state->same_ms. */
void mirror_lag_look(struct mirror_lag *lag, struct mirror_state *state);

/* Returns for how long the copy has been behind; 0: it has everything. Any thread. */
uint64_t mirror_lag_ms(const struct mirror_lag *lag);
uint64_t mirror_lag_changes(const struct mirror_lag *lag);

#endif
