/*
 * backend: lets `clientk bench` drive another server. A peer's load program is the clientk program,
 * object for object, linked with a backend instead of libclientk: the backend defines the functions
 * of mqkv/clientk.h on top of the peer's protocol. So loop, keys, sizes, mix, clock and report are
 * the same for all, and no difference is the tool's. -m names the peer's Unix socket (or queue).
 *
 * Each thread has a connection of its own, made at its first call; operations of one call are sent
 * before the first answer is read (the peer's pipelining). Only GET, PUT, DEL, EXISTS are spoken.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_BACKEND_H
#define MQKV_EXPERIMENTS_PEERS_BACKEND_H

#include "mqkv/clientk.h"

/* What a peer's file gives; backend.c makes the clientk_* functions of it. */

/* Connects this thread to the peer at `address`. NULL: the sentence is in *error. */
void *backend_connect(const char *address, struct kv_error *error);
void backend_disconnect(void *connection);

/* Executes the operations in one go; fills each result (value included). KV_OK, or what broke. */
enum kv_status backend_execute(void *connection, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results);

/* Copies the bytes to value, growing it. */
enum kv_status backend_set_value(struct clientk_value *value, const void *data, size_t size);

#endif
