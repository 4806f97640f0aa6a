/*
 * private_files: takes the permissions of group and others off the data files, where the
 * configuration restricts users: who could open the files could read every key. (A daemon with
 * --direct group may have given them.)
 */
#ifndef MQKV_SERVERK_DAEMON_PRIVATE_FILES_H
#define MQKV_SERVERK_DAEMON_PRIVATE_FILES_H

#include "mqkv/error.h"

/* Does so with all data files of the directory `dir`; to be called before the store is opened.
 * KV_OK also if there are none; KV_DENIED and the like with a sentence. */
enum kv_status private_files_make(const char *dir, struct kv_error *error);

/* Logs a warning if another user may exchange what is in the directory. */
void private_files_warn(const char *dir);

#endif
