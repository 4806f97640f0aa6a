/*
 * server: the daemon's life: acquires its parts in order, serves until it is told to stop, and
 * releases them in reverse.
 */
#ifndef MQKV_SERVERK_DAEMON_SERVER_H
#define MQKV_SERVERK_DAEMON_SERVER_H

#include "mqkv/error.h"
#include "serverk/config/options.h"

struct server;

/* Does everything up to the first worker; then clients can connect. options must outlive the
 * server. Errors are those of kvstore_open and lanes_open, with a sentence; nothing is left
 * behind. */
enum kv_status server_start(const struct server_options *options, struct server **server,
                            struct kv_error *error);

/* Serves until SIGTERM or SIGINT. Then it finishes what was received, lets waiting replies become
 * durable, unlinks the queues, closes the store (with a checkpoint) and frees. Returns the first
 * failure. */
enum kv_status server_run(struct server *server, struct kv_error *error);

/* --restore-from: builds the store, and tells what came of it. */
enum kv_status server_restore(const struct server_options *options, struct kv_error *error);

#endif
