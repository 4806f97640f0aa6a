/*
 * explore_machine_copies: copies of a store on the machine that are made while it is written to.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_COPIES_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_COPIES_H

/* There are none yet. */
void machine_forget_copies(void);

/* Copies run.store to BACKUP_PATH as it is now, and looks whether it is that. */
void machine_copy_store(void);

/* If the chapters say that a data file is what it was when it was copied, it is. */
void machine_compare_copies(void);

#endif
