/*
 * explore_machine_upgrade: stores that an older version wrote, on the machine, and what makes a
 * store of the newest format of one (kvcheck --upgrade), killed at any step.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_UPGRADE_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_UPGRADE_H

#include <stdbool.h>

#include "mqkv/kvstore.h"

#define OLD_DATAFILES 2u

/* Keeps the stores of tests/data for this process, and what they have. */
void machine_keep_old_stores(void);

/* Puts one of them in the place of the store: closed, or as a kill left it. */
void machine_put_old_store(bool killed);

/* What the old store had is in the store. */
void machine_judge_old_entries(struct kvstore *store);

/* Makes a store anew from the one at run.path, which is not open and was judged, in another
 * directory, where the lives may go on from then on. */
void machine_upgrade(bool moves);

/* What an upgrade has left, which may have died: a store with everything, or none. Is removed. */
void machine_judge_upgraded(void);

/* None was tried yet. */
void machine_forget_upgrades(void);

#endif
