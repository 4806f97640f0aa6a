/*
 * start_guard: lets a signal to stop end a daemon that is still opening its store. That takes long
 * where an index is rebuilt or the disk is slow. Nobody is served yet, and the store is left as by
 * kill -9, so there is nothing to finish: the guard removes the queues and the pid file, and the
 * signal ends the process (die_by_signal). As long as the start goes on, the guard tells the
 * service manager so, which then gives it more time.
 */
#ifndef MQKV_SERVERK_DAEMON_START_GUARD_H
#define MQKV_SERVERK_DAEMON_START_GUARD_H

#include "mqkv/error.h"
#include "serverk/daemon/control.h"
#include "serverk/daemon/pidfile.h"
#include "serverk/lanes/lanes.h"

struct start_guard;

/* Starts a thread that takes the signals of `control`. Until start_guard_free the caller must not
 * use control, lanes or pidfile (NULL: none). KV_NO_MEMORY, KV_LIMIT, KV_IO. */
enum kv_status start_guard_create(struct control *control, struct lanes *lanes,
                                  struct pidfile *pidfile, struct start_guard **guard,
                                  struct kv_error *error);

/* Ends the guard: from then on, signals wait for control_run. */
void start_guard_free(struct start_guard *guard);

#endif
