/*
 * file_copy: copies a held data file (held_store.h) to another file in the fastest way that the
 * file systems know: as shared blocks (reflink), in the kernel, or through this process.
 */
#ifndef MQKV_TOOLS_BACKUP_FILE_COPY_H
#define MQKV_TOOLS_BACKUP_FILE_COPY_H

#include "tools/backup/held_store.h"

/* Is called while the copy runs, with the bytes that are done of this file. False: stop. */
typedef bool (*file_copy_progress)(void *context, uint64_t bytes);

struct file_copy {
    struct held_file *from;
    int to;          /* open for writing */
    bool is_new;     /* `to` has no bytes yet that must stay: its header page may be written, too */
    const char *dir; /* the directory of `to`, for sentences */
    file_copy_progress progress;
    void *context;
    uint64_t shared_bytes; /* bytes that were shared instead of being copied */
};

/* Copies from `offset` (behind the header page) to the end of the file; the caller writes the right
 * header page. KV_TIMEOUT: `progress` stopped the copy; else a sentence: KV_NO_SPACE, ... */
enum kv_status file_copy_run(struct file_copy *copy, uint64_t offset, struct kv_error *error);

/* Writes all bytes at the offset. Returns 0, or -1 and errno. */
int file_copy_write(int fd, const void *bytes, size_t size, uint64_t offset);

#endif
