/*
 * daemonize: --daemon. The command that was typed returns when the daemon is ready to
 * serve, with 0, or when it has failed, with its exit code and its error on stderr.
 */
#ifndef MQKV_SERVERK_DAEMON_DAEMONIZE_H
#define MQKV_SERVERK_DAEMON_DAEMONIZE_H

#include "mqkv/error.h"

struct daemonize;

/* Forks. The parent does not return from here, but exits as the child tells it; the child leads a
 * session of its own, without a terminal. */
enum kv_status daemonize_start(struct daemonize **daemonize, struct kv_error *error);

/* In the child: the daemon is ready. stdin and stdout become /dev/null, and so does stderr unless
 * it is a file (which then is the log): a pipe or terminal is the caller's, who is not to wait for
 * us. */
void daemonize_ready(struct daemonize *daemonize);

/* In the child, instead: it failed; the parent exits with this code. */
void daemonize_failed(struct daemonize *daemonize, int exit_code);

#endif
