/*
 * backup_target: the directory of a backup. It has the data files of a store, so that serverk and
 * kvcheck take it for one, and the manifest (backup_manifest.h). A further backup of the same store
 * replaces them; a data file that no compaction has replaced is only extended by what is new.
 *
 * The earlier backup lasts until the next is complete. If the process dies meanwhile, what the
 * manifest says of it is still there, except at the moment in which files get their names; the next
 * backup starts from that.
 *
 * Threads: one.
 */
#ifndef MQKV_TOOLS_BACKUP_BACKUP_TARGET_H
#define MQKV_TOOLS_BACKUP_BACKUP_TARGET_H

#include "tools/backup/held_store.h"

enum backup_plan { BACKUP_NOT_YET, BACKUP_KEEP, BACKUP_APPEND, BACKUP_REPLACE };

struct backup_target_file {
    enum backup_plan plan;
    uint64_t offset; /* the copy begins at this offset */
    uint8_t *header; /* owned; APPEND only: written last, over the old header */
};

struct backup_target {
    const char *dir; /* borrowed */
    int dir_fd;
    int lock_fd;
    bool was_made;                    /* this process made the directory */
    bool is_marked;                   /* the manifest says that a backup is under way */
    bool is_complete;                 /* the new backup has taken the place of the old one */
    struct backup_manifest base;      /* the earlier backup; no files: there is none */
    struct backup_manifest next;      /* the backup that is being made */
    struct backup_target_file *files; /* one for each file of `next` */
};

/* Opens the directory, or makes it, and locks it as a store is locked. KV_USAGE, KV_BUSY,
 * KV_DENIED, ... with a sentence. */
enum kv_status backup_target_open(struct backup_target *target, const char *dir,
                                  struct kv_error *error);

/* Begins a backup of the store that `manifest` describes: from then on the directory's manifest
 * says so. */
enum kv_status backup_target_begin(struct backup_target *target,
                                   const struct backup_manifest *manifest, struct kv_error *error);

/* Decides what must be copied of the file (target->files), and opens the file that it must be
 * copied to: *fd, or -1 if nothing must be copied. */
enum kv_status backup_target_start_file(struct backup_target *target, struct held_file *file,
                                        int *fd, struct kv_error *error);

/* All bytes of the file were copied to fd: closes it. */
enum kv_status backup_target_end_file(struct backup_target *target, const struct held_file *file,
                                      int fd, struct kv_error *error);

/* All files are copied: makes them the backup. */
enum kv_status backup_target_commit(struct backup_target *target, struct kv_error *error);

/* Closes the target. A backup that was not committed is removed, and the earlier one is the backup
 * again. */
void backup_target_close(struct backup_target *target);

#endif
