/*
 * reload: the settings of a running daemon: which are in force, and where they come from. A SIGHUP
 * reopens the log file and reads the configuration file again; its owner changes single ones
 * (clientk config set), which holds until the next SIGHUP. What can change in a running daemon
 * changes, also what the file says about users and quotas; for the rest the log says that it takes
 * a restart. A file with a mistake changes nothing.
 *
 * Threads: any, once reload_serve was called.
 */
#ifndef MQKV_SERVERK_DAEMON_RELOAD_H
#define MQKV_SERVERK_DAEMON_RELOAD_H

#include <stdbool.h>
#include <stdio.h>

#include "mqkv/error.h"
#include "serverk/config/live_settings.h"
#include "serverk/config/options.h"
#include "serverk/dispatch/service.h"

struct reload;

/* options: those that the daemon was started with; borrowed. KV_NO_MEMORY. */
enum kv_status reload_create(const struct server_options *options, struct reload **result,
                             struct kv_error *error);

/* Changes go to these from now on; borrowed. */
void reload_serve(struct reload *reload, const struct service *service, struct live_settings *live);

/* NULL is harmless. */
void reload_free(struct reload *reload);

/* SIGUSR1: reopens the log file, after a rename. */
void reload_log(struct reload *reload);

/* SIGHUP; also the owner's command (clientk config reload), which is told of a mistake: KV_USAGE
 * with file and line, and nothing was changed; KV_UNSUPPORTED: something takes a restart, the rest
 * was put into effect; KV_IO, ...: so, but for something that could not be done. */
enum kv_status reload_all(struct reload *reload, struct kv_error *error);

/* Returns whether the last reload did all that it was to do, true before the first; *when_ms: since
 * 1970, 0: there was none. */
bool reload_last(const struct reload *reload, uint64_t *when_ms);

/* Is somebody at a change? It may keep writers waiting (quotas count all keys). */
bool reload_is_under_way(struct reload *reload);

/* Changes one setting: KV_USAGE, with a sentence: there is none of that name, or the value is none;
 * KV_UNSUPPORTED: it takes a restart; KV_IO, ...: it could not be done, and is as it was. */
enum kv_status reload_set(struct reload *reload, const char *name, const char *value,
                          struct kv_error *error);

/* Writes the settings as a JSON array of objects: name, value (with its unit), origin, live
 * (whether it can change in the running daemon). name NULL: all. KV_USAGE: there is none of that
 * name. */
enum kv_status reload_print(struct reload *reload, const char *name, FILE *stream,
                            struct kv_error *error);

#endif
