/*
 * disk_file: a file as programs see it, and beside it what a disk has of it by now; a part of
 * powercut.h, which says how the disk behaves. Not synchronised.
 */
#ifndef MQKV_TESTS_SUPPORT_DISK_FILE_H
#define MQKV_TESTS_SUPPORT_DISK_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/numbers/random.h"

struct disk_file;

/* All functions end the test (or, outside of Check, the process) if the system does not play
 * along. */

/* The file of that name, of whose content so many bytes are on disk. Keeps it open, whatever
 * becomes of its name: while it is watched, no other file has its inode number. */
struct disk_file *disk_file_watch(int dir_fd, const char *name, size_t disk_size);
void disk_file_free(struct disk_file *file);

ino_t disk_file_inode(const struct disk_file *file);

/* To be called after each call that may have changed the file's length. */
void disk_file_note_size(struct disk_file *file);

/* All of it gets to the disk. */
void disk_file_sync(struct disk_file *file);

/* Some of it does. */
void disk_file_write_back(struct disk_file *file, struct random_state *random);

/* Makes the file in another directory as it is on disk. */
void disk_file_restore(const struct disk_file *file, int dir_fd, const char *name);

/* All that the disk may be found to have of the file, without torn sectors, as numbers below this:
 * any number of the new lengths, in their order, with any of the pages. Where there are more than
 * 12 pages, some share their fate. */
uint64_t disk_file_states(const struct disk_file *file);

/* As disk_file_restore, in that state. */
void disk_file_restore_state(const struct disk_file *file, uint64_t state, int dir_fd,
                             const char *name);

/* How much of something the disk gets to: any number up to `most`, but often none or all. */
size_t disk_some_of(struct random_state *random, size_t most);

#endif
