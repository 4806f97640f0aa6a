/*
 * written_file: opens a file that the program writes to, in a directory where other users may
 * create files too. Those could choose which file is written: a symbolic link, or a second name,
 * leads to a file of this user; a file of their own tells them what is written.
 */
#ifndef MQKV_COMMON_REPORT_WRITTEN_FILE_H
#define MQKV_COMMON_REPORT_WRITTEN_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "mqkv/error.h"

/* The file to write to: its path; its noun in sentences ("log file"); whether it must be a regular
 * file, and not a FIFO or a device; the mode of a file that is made. */
struct written_file {
    const char *path, *noun;
    bool must_be_regular;
    mode_t mode;
};

/* Opens `file` into *fd with O_CREAT and `flags` (O_WRONLY | O_APPEND, ...), without waiting for a
 * FIFO or a device. KV_DENIED: a symbolic link (except /dev/stderr and its like), a file of neither
 * this user nor root (except a device, which only root can make), a file with a second name, or no
 * permission; KV_IO: not a regular file, or it cannot be opened; KV_NOT_FOUND. Threads: any. */
enum kv_status written_file_open(const struct written_file *file, int flags, int *fd,
                                 struct kv_error *error);

/* Returns what written_file_open would return for `file`, without making or opening it. */
enum kv_status written_file_check(const struct written_file *file, struct kv_error *error);

#endif
