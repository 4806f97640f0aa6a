/*
 * bridge_thread: one thread with its connections. Each round of its loop asks the kernel once which
 * sockets have something, reads all of those, executes the commands of one user's connections in
 * one batch (redis_batch.h), and writes each connection's replies at once.
 */
#ifndef MQKV_KRESP_BRIDGE_BRIDGE_THREAD_H
#define MQKV_KRESP_BRIDGE_BRIDGE_THREAD_H

#include "bridges/kresp/session/redis_service.h"
#include "mqkv/error.h"

struct bridge_thread;

/* Starts the thread. */
enum kv_status bridge_thread_start(struct redis_service *service, unsigned number,
                                   struct bridge_thread **thread, struct kv_error *error);

/* Returns about how many connections the thread has. From any thread. */
uint64_t bridge_thread_connections(const struct bridge_thread *thread);

/* Returns how many rounds its loop has made. From any thread. */
uint64_t bridge_thread_rounds(const struct bridge_thread *thread);

/* Makes the thread go one round, though there may be nothing to do. From any thread. */
void bridge_thread_wake(struct bridge_thread *thread);

/* Gives the thread a socket of `user`, who has entered (redis_user_enter); the thread makes the
 * connection. From one thread at a time. */
void bridge_thread_give(struct bridge_thread *thread, int fd, struct redis_user *user);

/* Asks the thread to answer what was received, and to end; it waits only a moment for clients that
 * do not read. */
void bridge_thread_stop(struct bridge_thread *thread);

/* Waits up to timeout_ms for the thread's end; true: the thread has ended and is freed. */
bool bridge_thread_join(struct bridge_thread *thread, uint64_t timeout_ms);

#endif
