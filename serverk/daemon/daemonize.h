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

/* In the child: the daemon is ready. stdin and stdout become /dev/null. So does stderr, unless it
 * is a file, which then is the log: the caller must not wait for a pipe or terminal that we
 * hold. */
void daemonize_ready(struct daemonize *daemonize);

/* In the child, instead: it failed; the parent exits with this code. */
void daemonize_failed(struct daemonize *daemonize, int exit_code);

#endif
