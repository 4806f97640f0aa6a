/*
 * raw_client: a client that speaks the messages of wire/ itself, for tests that a well-behaved
 * client library cannot make: it waits for nothing, repeats nothing and judges nothing.
 */
#ifndef MQKV_TESTS_SUPPORT_RAW_CLIENT_H
#define MQKV_TESTS_SUPPORT_RAW_CLIENT_H

#include <mqueue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "wire/message.h"
#include "wire/queue.h"

#define RAW_MESSAGE_BYTES 8192u

/* Plain data; start from {0}. */
struct raw_client {
    const char *server; /* NAME of -m */
    char reply_name[WIRE_QUEUE_NAME_BYTES];
    mqd_t reply_queue;
    mqd_t lane;      /* of the session; lane 0 before it has one */
    mqd_t bulk_lane; /* -1 where lanes take the largest messages */
    uint64_t nonce;
    uint64_t last_request_id;
    uint32_t session;
    struct wire_welcome welcome;
    uint8_t message[RAW_MESSAGE_BYTES]; /* the last one received */
};

/* Creates and locks a reply queue with that geometry, and opens lane 0. */
enum kv_status raw_prepare(struct raw_client *client, const char *server,
                           struct wire_geometry reply_geometry, struct kv_error *error);

/* Sends HELLO on lane 0. */
bool raw_send_hello(struct raw_client *client);

/* raw_prepare, HELLO, WELCOME, and the lanes opened. unlink_reply: as clients should. */
enum kv_status raw_connect(struct raw_client *client, const char *server,
                           struct wire_geometry reply_geometry, bool unlink_reply,
                           struct kv_error *error);

/* Closes and unlinks without a word to the server. */
void raw_close(struct raw_client *client);

/* The header of the client's next request, with a new request id. */
struct wire_header raw_header(struct raw_client *client, enum wire_kind kind, uint16_t count);

/* Sends to the lane that takes so large a message; waits up to a second for room. */
bool raw_send(struct raw_client *client, const void *message, size_t size);

/* Sends a request of these operations, which must fit a message. Returns its id, 0 if it was not
 * sent. */

uint64_t raw_request(struct raw_client *client, const struct wire_operation *operations,
                     uint16_t count);

/* The next message within timeout_ms: its size (in client->message), 0 if none came. */
size_t raw_receive(struct raw_client *client, struct wire_header *header, unsigned timeout_ms);

/* Sends one operation and receives its result (value in client->message). KV_TIMEOUT after 5 s;
 * else the status of the message if it failed, or of the result. */
enum kv_status raw_call(struct raw_client *client, const struct wire_operation *operation,
                        struct wire_result *result);

#endif
