/*
 * live_server: a real serverk for tests of its clients: $MQKV_BUILD/serverk (MQKV_BUILD: "build" by
 * default) on a directory and a queue name of its own, that can be stopped, killed, frozen and
 * started again. It dies with the process that started it, and leaves nothing.
 */
#ifndef MQKV_TESTS_SUPPORT_LIVE_SERVER_H
#define MQKV_TESTS_SUPPORT_LIVE_SERVER_H

#include <sys/types.h>

#include "tests/support/store_files.h"

struct live_server {
    char dir[STORE_DIR_BYTES];
    char queue[64];
    pid_t pid; /* 0: not running */
    pid_t janitor;
    int janitor_pipe;
};

/* All functions end the test if the system does not play along. */

/* Makes the directory and starts it, with up to two more options (NULL: fewer); it is ready
 * then. */
void live_server_start(struct live_server *server, const char *option1, const char *option2);

/* Starts it once more on the same directory and queue. It need not be ready when this returns:
 * clients wait. */
void live_server_restart(struct live_server *server, const char *option1, const char *option2);

/* Sends the signal; waits until it has stopped (SIGSTOP) or ended (SIGTERM, SIGKILL). Returns the
 * exit status, 128 + the signal that ended it, or 0. */
int live_server_signal(struct live_server *server, int signal_number);

/* Sends what it will drop to each of its lanes, until they are full: for one that stands still. */
void live_server_fill_lanes(const struct live_server *server);

/* Stops it, and removes the directory and what it left. */
void live_server_remove(struct live_server *server);

#endif
