/*
 * handshake: the steps by which a session begins, in their order. connect.c takes them, with or
 * without waiting. After a failure *error says what is wrong.
 *
 * Threads: as the connection.
 */
#ifndef MQKV_CLIENTK_SESSION_HANDSHAKE_H
#define MQKV_CLIENTK_SESSION_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "wire/message.h"
#include "wire/queue.h"

struct connection;

/* Opens lane 0 and finds out which process serves it. KV_NO_SERVER: none does; KV_DENIED: the lane
 * belongs to another uid than the server must have; or as wire_entrance_open says. */
enum kv_status handshake_find_server(struct connection *connection, struct kv_error *error);

/* Sends HELLO with connection->nonce and the name `reply_queue`; waits until wait_ms for room in
 * the lane. The server need not answer after deadline_ms. KV_TIMEOUT: there was no room;
 * KV_NO_SERVER; KV_IO. */
enum kv_status handshake_send_hello(struct connection *connection, const char *reply_queue,
                                    uint64_t deadline_ms, uint64_t wait_ms, struct kv_error *error);

/* Reads the answer to HELLO: its *header, and its *body. KV_OK: a WELCOME, now in
 * connection->welcome; KV_UNSUPPORTED: an answer that makes no sense; or the status of the
 * refusal. */
enum kv_status handshake_read_answer(struct connection *connection,
                                     const struct wire_header *header, struct read_cursor *body,
                                     struct kv_error *error);

/* Decides what a wait for the answer to HELLO means that ended with `status` instead. time_is_over:
 * the deadline has come. KV_OK: wait on. */
enum kv_status handshake_judge_silence(const struct connection *connection, enum kv_status status,
                                       bool time_is_over, struct kv_error *error);

/* Opens the lanes that the WELCOME named, in place of lane 0. KV_NO_SESSION: try a new session; or
 * as wire_queue_open says. */
enum kv_status handshake_open_lanes(struct connection *connection, struct kv_error *error);

/* Decides what it means that the first request of a guest lane (connect.c) ended with `status`. */
enum kv_status handshake_judge_first_request(const struct connection *connection,
                                             enum kv_status status, struct kv_error *error);

#endif
