/*
 * reload: what a SIGHUP does while the daemon serves: it reopens the log file and reads the
 * configuration file again. What can change in a running daemon changes (the log's file and level);
 * for the rest the log says that it takes a restart. A file with a mistake changes nothing.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_RELOAD_H
#define MQKV_SERVERK_DAEMON_RELOAD_H

#include "mqkv/error.h"
#include "serverk/config/options.h"

struct reload;

/* options: those that the daemon was started with; borrowed. KV_NO_MEMORY. */
enum kv_status reload_create(const struct server_options *options, struct reload **result,
                             struct kv_error *error);

/* NULL is harmless. */
void reload_free(struct reload *reload);

/* SIGUSR1: reopens the log file, after a rename. */
void reload_log(struct reload *reload);

/* SIGHUP. */
void reload_all(struct reload *reload);

#endif
