/*
 * restore_target: the directory of a store that is made from a backup.
 *
 * Threads: one.
 */
#ifndef MQKV_TOOLS_BACKUP_RESTORE_TARGET_H
#define MQKV_TOOLS_BACKUP_RESTORE_TARGET_H

#include "tools/backup/backup_source.h"

/* Copies the data files of the backup to the directory, which is made, or empty. It becomes a store
 * when all of them are there and on disk; if that fails, nothing is left there. KV_USAGE,
 * KV_CORRUPT, KV_TIMEOUT (interrupted), ... with a sentence. */
enum kv_status restore_to_directory(struct backup_source *source, const char *dir,
                                    struct kv_error *error);

#endif
