/*
 * handshake: the steps by which a session begins, in their order; connect.h takes them, with or
 * without waiting. Each tells the failure by a sentence.
 */
#ifndef MQKV_CLIENTK_SESSION_HANDSHAKE_H
#define MQKV_CLIENTK_SESSION_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "wire/message.h"
#include "wire/queue.h"

struct connection;

/* Opens lane 0 and finds out who serves it. KV_DENIED: not the uid that the server must have. */
enum kv_status handshake_find_server(struct connection *connection, struct kv_error *error);

/* Says HELLO with the connection's nonce; waits until wait_ms for room in the lane. KV_TIMEOUT:
 * there was none. */
enum kv_status handshake_send_hello(struct connection *connection, const char *reply_queue,
                                    uint64_t deadline_ms, uint64_t wait_ms, struct kv_error *error);

/* Reads the answer to HELLO. KV_OK: it is a WELCOME, kept in the connection. */
enum kv_status handshake_read_answer(struct connection *connection,
                                     const struct wire_header *header, struct read_cursor *body,
                                     struct kv_error *error);

/* What became of a wait for the answer to HELLO, which ended with that status instead. KV_OK: wait
 * on. */
enum kv_status handshake_judge_silence(const struct connection *connection, enum kv_status status,
                                       bool time_is_over, struct kv_error *error);

/* Opens the lanes that the WELCOME named, in place of lane 0. KV_NO_SESSION: try again. */
enum kv_status handshake_open_lanes(struct connection *connection, struct kv_error *error);

/* What became of the first request (connect.c), which ended with that status. */
enum kv_status handshake_judge_first_request(const struct connection *connection,
                                             enum kv_status status, struct kv_error *error);

#endif
