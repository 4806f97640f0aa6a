/*
 * backup_target: the directory of a backup. It has the data files of a store, so that serverk and
 * kvcheck take it for one, and the manifest (backup_manifest.h). A further backup of the same store
 * replaces what it has: of a data file that no compaction has replaced it gets what is new.
 *
 * The earlier backup lasts until the next is complete. If the process dies meanwhile, what the
 * manifest says of it is still there, but for the moment in which files get their names; the next
 * backup starts from that.
 *
 * Threads: one.
 */
#ifndef MQKV_CLIENTK_PROGRAM_BACKUP_BACKUP_TARGET_H
#define MQKV_CLIENTK_PROGRAM_BACKUP_BACKUP_TARGET_H

#include "clientk/program/backup/held_store.h"

enum backup_plan { BACKUP_NOT_YET, BACKUP_KEEP, BACKUP_APPEND, BACKUP_REPLACE };

struct backup_target_file {
    enum backup_plan plan;
    uint64_t offset; /* what is copied begins there */
    uint8_t *header; /* of its own: to be written last, over the old one; APPEND only */
};

struct backup_target {
    const char *dir; /* the caller's */
    int dir_fd;
    int lock_fd;
    bool was_made;                    /* the directory */
    bool is_marked;                   /* the manifest says that a backup is under way */
    bool is_complete;                 /* the next backup is the backup */
    struct backup_manifest base;      /* the earlier backup; no files: there is none */
    struct backup_manifest next;      /* the one that is being made */
    struct backup_target_file *files; /* of `next` */
};

/* Opens the directory, or makes it, and locks it as a store is. KV_USAGE, KV_BUSY, KV_DENIED, ...
 * with a sentence. */
enum kv_status backup_target_open(struct backup_target *target, const char *dir,
                                  struct kv_error *error);

/* Begins a backup of that store: from then on the manifest says so. */
enum kv_status backup_target_begin(struct backup_target *target,
                                   const struct backup_manifest *manifest, struct kv_error *error);

/* Finds out what is to be copied of the file (target->files), and opens what it is to be copied to:
 * *fd, -1 if nothing is. */
enum kv_status backup_target_start_file(struct backup_target *target, struct held_file *file,
                                        int *fd, struct kv_error *error);

/* What was copied is all of it: closes the file. */
enum kv_status backup_target_end_file(struct backup_target *target, const struct held_file *file,
                                      int fd, struct kv_error *error);

/* All files are there: they become the backup. */
enum kv_status backup_target_commit(struct backup_target *target, struct kv_error *error);

/* Closes it. What was not committed goes, and the earlier backup is the backup again. */
void backup_target_close(struct backup_target *target);

#endif
