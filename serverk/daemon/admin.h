/*
 * admin: what the owner of a running daemon tells it to do (WIRE_OP_ADMIN): a table of commands,
 * each with one argument, a text, and a text as its answer.
 */
#ifndef MQKV_SERVERK_DAEMON_ADMIN_H
#define MQKV_SERVERK_DAEMON_ADMIN_H

#include <stdbool.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "serverk/daemon/reload.h"
#include "serverk/daemon/stats_source.h"
#include "serverk/execute/execution_context.h"

/* What the commands work on; constant while the daemon serves. */
struct admin {
    const struct stats_source *stats;
    struct reload *reload;
};

/* An admin_runner of a struct admin. KV_DENIED: the session is another user's than the daemon's and
 * root's; KV_NOT_FOUND: there is no such command; KV_USAGE, ...: as the command says. A failure has
 * a sentence as its text. Threads: any. */
enum kv_status admin_run(void *admin, struct admin_call *call);

/* Returns whether the command may have to wait for a data file, a disk, or a reload that does. */
bool admin_waits(struct kv_slice command);

#endif
