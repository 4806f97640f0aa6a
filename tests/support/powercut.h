/*
 * powercut: a disk that the power can be cut of. While it is installed, the `fileio` table works on
 * the files of one directory as always, and remembers beside each what a disk would have of it:
 *
 * - A sync of a file brings all of it there that was written before; what was written later is not
 *   covered, also if the sync returns later (it takes a while, as a disk does).
 * - Any other page of 4 KiB gets there when it likes, in any order; of one that is on its way when
 *   the power goes, any of its sectors of 512 bytes, each whole or up to any byte.
 * - A file's new length gets there in the order of the changes, or half of the way; and what lies
 *   beyond a truncation keeps its old content until then.
 * - Names that were made, renamed or removed get there with the next sync of the directory, or
 *   before, but in their order (as in the journal of a file system).
 *
 * The model is that of T. S. Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014):
 * nothing is on disk but by the sync that covers it, everything else may be. What was synced does
 * not rot. Syncs do not reach the real disk.
 *
 * Calls may come from any thread. The file "lock" is not looked after. Everything ends the test
 * (or, outside of Check, the process) if the system does not play along.
 */
#ifndef MQKV_TESTS_SUPPORT_POWERCUT_H
#define MQKV_TESTS_SUPPORT_POWERCUT_H

#include "common/numbers/random.h"

/* From now on; everything that is in `dir` is on disk. */
void powercut_install(const char *dir, uint64_t seed);

/* Back to the operating system's table. The directory stays as its programs saw it last. */
void powercut_clear(void);

/* hook(context) is called before each call that changes something, no lock of powercut's held: it
 * may cut the power. To be set before the calls come. NULL: none. */
void powercut_set_hook(void (*hook)(void *context), void *context);

/* Lets some of the pages and names that are not on disk yet get there, or none. */
void powercut_write_back(void);

/* The power goes: calls of the table wait from now on, until powercut_go_on. Programs that need
 * none go on, and their writes may still be found. */
void powercut_cut(void);
void powercut_go_on(void);

/* In between: writes to the empty directory dir_out what is found when the power is back. */
void powercut_restore(const char *dir_out, struct random_state *random);

/* The same in every way there is: what may be found, without torn sectors, is a number below
 * powercut_states(), which can be very large: which of the new names are there, in their order, and
 * of each file which of its new lengths, in theirs, and which pages. What is restored stays as it
 * was. */
uint64_t powercut_states(void);
void powercut_restore_state(const char *dir_out, uint64_t state);

#endif
