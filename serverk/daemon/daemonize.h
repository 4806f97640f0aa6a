/*
 * daemonize: --daemon. The command that was typed returns 0 when the daemon is ready to serve. If
 * the daemon fails to start, the command returns its exit code, with the error on stderr.
 */
#ifndef MQKV_SERVERK_DAEMON_DAEMONIZE_H
#define MQKV_SERVERK_DAEMON_DAEMONIZE_H

#include "mqkv/error.h"

struct daemonize;

/* Forks. The parent never returns: it exits as the child tells it. The child leads a session of its
 * own, without a terminal. */
enum kv_status daemonize_start(struct daemonize **daemonize, struct kv_error *error);

/* To be called in the child when the daemon is ready. stdin and stdout become /dev/null. So does
 * stderr, unless it is a file, which then is the log: the caller must not wait for a pipe or
 * terminal that the daemon holds. */
void daemonize_ready(struct daemonize *daemonize);

/* To be called in the child instead if the daemon failed to start: the parent exits with
 * `exit_code`. */
void daemonize_failed(struct daemonize *daemonize, int exit_code);

#endif
