/*
 * target_file: a file that is written from beginning to end, or not at all: what was there before stays
 * until the new one is whole and on disk.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_TARGET_FILE_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_TARGET_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "mqkv/error.h"

/* Reusable. `path` is the caller's. */
struct target_file {
    FILE *stream;
    const char *path;
    char *temporary; /* what it is called until it is whole; NULL: `path` from the beginning */
    bool is_new;     /* nothing was there: it is removed if it does not become whole */
};

/* A file that is there is replaced if `replace`, else KV_USAGE. It is made with mode 0600, or that of the
 * file it replaces. What is no regular file (a device, a FIFO, a link), or in a directory that takes no
 * other file, is written in place. KV_NO_MEMORY, KV_NOT_FOUND, KV_DENIED, KV_IO with a sentence. */
enum kv_status target_file_open(struct target_file *target, const char *path, bool replace,
                                struct kv_error *error);

/* Syncs and closes it, and gives it its name; discards it if that fails: KV_IO, KV_FULL. */
enum kv_status target_file_keep(struct target_file *target, struct kv_error *error);

/* Closes it and removes it, if it is not one that is written in place. */
void target_file_discard(struct target_file *target);

#endif
