/*
 * bridge_thread: one thread with its connections. Each round of its loop asks the kernel once which
 * sockets have something, reads all of those, executes the commands of all in one turn
 * (redis_turn.h), and writes each connection's replies at once.
 */
#ifndef MQKV_KRESP_BRIDGE_BRIDGE_THREAD_H
#define MQKV_KRESP_BRIDGE_BRIDGE_THREAD_H

#include "bridges/kresp/session/redis_service.h"
#include "mqkv/error.h"

struct bridge_thread;

/* Starts the thread. */
enum kv_status bridge_thread_start(struct redis_service *service, unsigned number,
                                   struct bridge_thread **thread, struct kv_error *error);

/* Connections that it has, about. From any thread. */
uint64_t bridge_thread_connections(const struct bridge_thread *thread);

/* Rounds of its loop. From any thread. */
uint64_t bridge_thread_rounds(const struct bridge_thread *thread);

/* Makes it go one round, though there may be nothing to do. From any thread. */
void bridge_thread_wake(struct bridge_thread *thread);

/* Gives it a socket of the user, who has entered; the connection is then its own. From one thread
 * at a time. */
void bridge_thread_give(struct bridge_thread *thread, int fd, struct redis_user *user);

/* Asks it to answer what was received, and to end; clients that do not read are waited for but a
 * moment. */
void bridge_thread_stop(struct bridge_thread *thread);

/* Waits up to so many milliseconds until it has ended; true: it has, and is freed. */
bool bridge_thread_join(struct bridge_thread *thread, uint64_t timeout_ms);

#endif
