/*
 * start_guard: lets a signal to stop end a daemon that is still opening its store, which takes long
 * where an index has to be rebuilt or the disk is slow. Nobody is served yet, and the store is left as by
 * kill -9, so there is nothing to finish: the queues are removed, and the signal ends the process
 * (control_end_process).
 */
#ifndef MQKV_SERVERK_START_GUARD_H
#define MQKV_SERVERK_START_GUARD_H

#include "common/error.h"
#include "serverk/control.h"
#include "serverk/lanes.h"

struct start_guard;

/* Starts a thread that takes the signals of `control`; the caller leaves both alone until
 * start_guard_free. KV_NO_MEMORY, KV_LIMIT, KV_IO. */
enum kv_status start_guard_create(const struct control *control, struct lanes *lanes,
                                  struct start_guard **guard, struct kv_error *error);

/* Signals wait for control_run from here on. */
void start_guard_free(struct start_guard *guard);

#endif
