/*
 * backup_source: a backup that is read: the directory that clientk backup made, or a tar stream of
 * it.
 *
 * Threads: one.
 */
#ifndef MQKV_TOOLS_BACKUP_BACKUP_SOURCE_H
#define MQKV_TOOLS_BACKUP_BACKUP_SOURCE_H

#include <stdbool.h>

#include "tools/backup/backup_manifest.h"

struct backup_source {
    const char *path; /* borrowed; "-": standard input */
    int dir_fd;       /* of a directory; -1 for a stream */
    int lock_fd;
    int stream_fd;                   /* of a stream */
    struct backup_manifest manifest; /* of a stream: what was read so far */
    uint32_t next;                   /* number of the next data file */
    bool is_mixed;                   /* the backup was killed while files got their names */
};

/* One data file of the backup. */
struct source_file {
    uint32_t number;
    uint64_t bytes;
    int fd; /* a file that has all bytes from offset 0 on; the caller closes it */
};

/* Opens the backup. KV_USAGE, KV_NOT_FOUND, KV_BUSY, KV_CORRUPT, ... with a sentence. */
enum kv_status backup_source_open(struct backup_source *source, const char *path,
                                  struct kv_error *error);
void backup_source_close(struct backup_source *source);

/* Gives the next data file; *end: there is none, and the backup is whole. The bytes of a stream's
 * file are in a file without a name, in $TMPDIR or /var/tmp. */
enum kv_status backup_source_next(struct backup_source *source, struct source_file *file, bool *end,
                                  struct kv_error *error);
void source_file_close(struct source_file *file);

#endif
