/*
 * backup_dir: what backups and restores do in the directory of a store: its lock, its manifest.
 */
#ifndef MQKV_TOOLS_BACKUP_BACKUP_DIR_H
#define MQKV_TOOLS_BACKUP_BACKUP_DIR_H

#include "tools/backup/backup_manifest.h"

/* Takes the lock of a store in the directory, as kvstore does, for writing or for reading. A reader
 * that may not make the lock file does without (*fd -1). KV_BUSY: another process has the lock. */
enum kv_status backup_dir_lock(int dir_fd, const char *dir, bool exclusive, int *fd,
                               struct kv_error *error);

/* Reads the manifest of the directory. KV_NOT_FOUND: there is none; KV_CORRUPT, KV_IO, ... with a
 * sentence. */
enum kv_status backup_dir_read_manifest(int dir_fd, const char *dir,
                                        struct backup_manifest *manifest, struct kv_error *error);

/* Puts the manifest on disk in place of the old one, as a whole or not at all. */
enum kv_status backup_dir_write_manifest(int dir_fd, const char *dir,
                                         const struct backup_manifest *manifest,
                                         struct kv_error *error);

#endif
