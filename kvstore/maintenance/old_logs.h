/*
 * old_logs: logs that a compaction has replaced, and that other processes may have mapped
 * (shared_store.h); only of a store whose index is shared, since a forked process
 * (kvstore_fork_begin) goes on to read them. Their names are gone, but their disk space comes back
 * only when the last mapping is gone, which may be never: so their blocks are freed under the
 * mappings, which then read as zeros. A reader in the middle finds that the generation has changed;
 * a grace time keeps that rare. While somebody reads data files as they were (holds.h), nothing is
 * freed; if there are more than OLD_LOGS_MAX logs then, the oldest keep their blocks for as long as
 * they are open anywhere.
 *
 * Threads: only the compactor's.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_OLD_LOGS_H
#define MQKV_KVSTORE_MAINTENANCE_OLD_LOGS_H

#include <stdint.h>

#include "kvstore/log/logfile.h"

#define OLD_LOGS_MAX 8u

struct holds;

/* Starts from {.holds = ...}. */
struct old_logs {
    struct holds *holds; /* while there are any, nothing is freed */
    struct {
        int fd;
        uint64_t due_ns; /* clock_monotonic_ns */
    } waiting[OLD_LOGS_MAX];
    unsigned count;
};

/* Adds `log`, whose name is gone or another log's; the caller may close it then. */
void old_logs_add(struct old_logs *logs, const struct logfile *log);

/* Returns when the next log must be cleared; UINT64_MAX: there is none. */
uint64_t old_logs_due_ns(const struct old_logs *logs);

/* Returns when the last log must be cleared; 0: there is none. */
uint64_t old_logs_last_due_ns(const struct old_logs *logs);

/* Frees the blocks of the logs whose time has come. */
void old_logs_clear(struct old_logs *logs);

/* Frees the blocks of all logs. */
void old_logs_clear_all(struct old_logs *logs);

#endif
