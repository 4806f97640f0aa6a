/*
 * past_logs: the logs that compactions have replaced, for those who follow the changes of a store
 * (kvstore_changes): each is kept for a while under another name, data.NNNN.past-SALT, and a note
 * in the header of the log that replaced it says where the changes continue. Where no file can be
 * kept, since there is no room or the file system cannot exchange two names, a follower that has
 * read the log to its end still learns where the changes continue.
 *
 * Past logs are kept while the option keep_changes_ms says so, or for PAST_LOGS_MIN_MS after
 * somebody has asked for changes; up to keep_changes_bytes (with keep_newest_log, the newest of
 * each data file even above), and while the disk is not full. After that followers are told that
 * they have missed changes; also when entries have expired in the meantime without a record.
 *
 * The calls that tell followers of a write are here, too.
 *
 * Threads: any; a mutex of its own, taken after a file's lock. past_logs_replace and
 * past_logs_clear: the compactor's.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_PAST_LOGS_H
#define MQKV_KVSTORE_MAINTENANCE_PAST_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/core/context.h"
#include "kvstore/table/datafile.h"
#include "mqkv/error.h"

#define PAST_LOGS_MIN_MS 60000u

struct old_logs;
struct past_logs;

/* Where the changes of a log that was replaced continue. */
struct past_link {
    uint64_t salt;                /* salt of the log: names its file */
    uint64_t end;                 /* end of the log's records */
    struct kvstore_position last; /* the position behind them; all 0: not known */
    uint64_t max_version;         /* highest version in the log; 0: not known */
    struct kvstore_position next; /* the same place in the log that took its place */
};

/* Makes an empty list. NULL: out of memory. */
struct past_logs *past_logs_create(const struct store_context *context);
void past_logs_free(struct past_logs *past);

/* Finds the past logs in the directory of a store whose files were recovered, and removes useless
 * ones. Nobody writes yet. Fails with a sentence in `error`. */
enum kv_status past_logs_load(struct past_logs *past, struct kv_error *error);

/* Notes that somebody follows the changes: they are kept for a while from now on. */
void past_logs_use(struct past_logs *past);

/* Returns true if changes are kept, so that expiries must be written down. `past` NULL: no. */
bool past_logs_are_wanted(struct past_logs *past);

/* Gives the log of file->next the name of the log of file->current, which is kept under its other
 * name if past logs are wanted. 0, or -1 with errno: the names are as they were. Holds: the file's
 * lock for writing. */
int past_logs_replace(struct past_logs *past, struct datafile *file);

/* After past_logs_replace, if the directory could not be synced: on disk the log of `stream` of
 * data file `number` may still have the name of the data file, so it is not removed until the store
 * is opened again. */
void past_logs_keep(struct past_logs *past, uint32_t number, uint64_t stream);

/* Finds where the changes of `stream` of data file `number` continue. False: its log was not
 * replaced, or is not known any more. */
bool past_logs_find(struct past_logs *past, uint32_t number, uint64_t stream,
                    struct past_link *link);

/* Returns when the next past log must be removed (clock_monotonic_ns); UINT64_MAX: there is
 * none. */
uint64_t past_logs_due_ns(struct past_logs *past);

/* Has all past logs removed soon, because the disk, or a quota, is full. */
void past_logs_want_room(struct past_logs *past);

/* Removes the past logs whose time has come, and has old_logs free their blocks. */
void past_logs_clear(struct past_logs *past, struct old_logs *old_logs);

struct past_logs_facts {
    uint64_t count, bytes; /* number of past logs, and their bytes on disk */
};
struct past_logs_facts past_logs_facts(struct past_logs *past, uint32_t number);

/* Sets the listener of kvstore_set_change_listener. */
void past_logs_set_listener(struct past_logs *past, kvstore_change_listener listener,
                            void *context);

/* Tells a waiting follower of an append to `file`. Inline, since every write calls it. Holds: the
 * file's lock for writing. */
void past_logs_tell_listener(struct past_logs *past, struct datafile *file);
static inline void past_logs_tell(struct past_logs *past, struct datafile *file)
{
    if (__builtin_expect(__atomic_load_n(&file->followed, __ATOMIC_RELAXED), 0))
        past_logs_tell_listener(past, file);
}

#endif
