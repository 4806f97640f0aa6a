/*
 * explore_machine_backup: backups of a store on the machine that are made while it is written to:
 * a full one, then ever again what is new, into the same directory, by the code of clientk; and
 * what is restored from them, whatever has died or failed meanwhile.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_BACKUP_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_BACKUP_H

#include <stdbool.h>

/* There is none yet. */
void machine_forget_backups(void);

/* Backs up run.store as it is now. One at a time. False: it has failed, and may. */
bool machine_back_up(void);

/* Restores the backup, if there is one, to a directory of its own: that is a store as it was at the
 * moment of the last backup that was complete, or of one that was tried since. Of a restore that
 * died, or lost its power, all of the store is there or nothing. */
void machine_judge_backup(void);

#endif
