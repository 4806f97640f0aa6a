/*
 * control: the main thread while the workers serve. It sleeps until a signal asks the daemon to
 * stop, until a client's process ends (then it ends the sessions of that process), or until a
 * farewell (farewell.h) waits.
 */
#ifndef MQKV_SERVERK_DAEMON_CONTROL_H
#define MQKV_SERVERK_DAEMON_CONTROL_H

#include "mqkv/error.h"
#include "serverk/daemon/reload.h"
#include "serverk/dispatch/service.h"

struct control;

/* Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR1 in this thread and in all that it starts later, and
 * takes them by signalfd. */
enum kv_status control_create(struct control **control, struct kv_error *error);

/* The daemon is stopping: a SIGTERM or SIGINT that comes more than a second from now, and not from
 * the process itself, ends it at once. Call it once. */
void control_expect_impatience(void);

/* NULL is harmless. */
void control_free(struct control *control);

/* The epoll set for the pidfds of sessions (session_table_create). */
int control_epoll(const struct control *control);

/* Readable when a signal may be waiting. */
int control_signals(const struct control *control);

/* The signal to stop that has come; 0: none. Notes a SIGHUP or SIGUSR1 for control_run. */
int control_take_signal(struct control *control);

/* Serves until a signal to stop comes, whose number it returns, or, with --idle-exit, until nobody
 * has been connected for that time (0). SIGHUP and SIGUSR1 do what reload.h
 * says, in a thread of their own, so that the rest goes on beside a long reload. A reload may be
 * under way when it returns. */
int control_run(struct control *control, const struct service *service, struct reload *reload);

/* Serves on until all is followed that came before the signal to stop: a reload may take minutes.
 * After control_expect_impatience, so that a second signal ends these. */
void control_finish_reload(struct control *control, const struct service *service);

#endif
