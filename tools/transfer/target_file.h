/*
 * target_file: a file that is written completely or not at all: the old file stays until the new
 * one is complete and on disk.
 */
#ifndef MQKV_TOOLS_TRANSFER_TARGET_FILE_H
#define MQKV_TOOLS_TRANSFER_TARGET_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "mqkv/error.h"

/* Can be used again. `path` is borrowed. */
struct target_file {
    FILE *stream;
    const char *path;
    char *temporary; /* its name until it is complete; NULL: it has its own name at once */
    bool is_new;     /* there was no old file: an incomplete new one is removed */
};

/* Opens the file for writing. Replaces an existing file if `replace`, else fails with KV_USAGE. The
 * new file has mode 0600, or that of the file it replaces. A target that is not a regular file (a
 * device, a FIFO, a link), or whose directory takes no other file, is written in place.
 * KV_NO_MEMORY, KV_NOT_FOUND, KV_DENIED, KV_IO with a sentence. */
enum kv_status target_file_open(struct target_file *target, const char *path, bool replace,
                                struct kv_error *error);

/* Syncs and closes the file, gives it its name and syncs its directory. If one of these fails, but
 * for the last, it discards the file. KV_NO_SPACE, KV_DENIED, KV_IO with a sentence. */
enum kv_status target_file_keep(struct target_file *target, struct kv_error *error);

/* Closes the file and removes it, unless it is written in place. */
void target_file_discard(struct target_file *target);

#endif
