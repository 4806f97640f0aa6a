/*
 * worker_fixture: a worker of serverk with everything it needs, in the process of the test: a
 * store, lanes, sessions, a commit queue, but no threads of the daemon. Whatever fails that is not
 * under test ends the test.
 */
#ifndef MQKV_TESTS_SUPPORT_WORKER_FIXTURE_H
#define MQKV_TESTS_SUPPORT_WORKER_FIXTURE_H

#include <mqueue.h>
#include <stdbool.h>

#include "serverk/daemon/stats_source.h"
#include "serverk/dispatch/worker.h"
#include "serverk/session/access.h"
#include "tests/support/store_files.h"
#include "wire/message.h"
#include "wire/queue.h"

#define FIXTURE_MESSAGE_BYTES 8192u

struct worker_fixture {
    char dir[STORE_DIR_BYTES];
    char name[WIRE_QUEUE_NAME_BYTES];
    struct server_options options;
    struct service service;
    struct live_settings live;
    struct access access; /* without rules */
    struct stats_source stats;
    struct fragment_budget budget;
    int epoll;
    struct worker worker;
};

/* A client of the worker: its session and the reading end of its reply queue. */
struct fixture_client {
    struct session *session; /* held */
    mqd_t replies;
    char reply_name[WIRE_QUEUE_NAME_BYTES];
    uint64_t request_id;
    uint8_t message[FIXTURE_MESSAGE_BYTES]; /* the last reply */
};

/* max_value_bytes of the store; the rest are defaults. */
void fixture_open(struct worker_fixture *fixture, enum kvstore_durability durability,
                  uint32_t max_value_bytes);

/* The same with a store that keeps its keys in order, too; the order is whole. */
void fixture_open_ordered(struct worker_fixture *fixture, enum kvstore_durability durability,
                          uint32_t max_value_bytes);
void fixture_close(struct worker_fixture *fixture);

void fixture_connect(struct worker_fixture *fixture, struct fixture_client *client,
                     struct wire_geometry replies);

/* The same as a client whose process is that of the pidfd, which becomes the session's. */
void fixture_connect_process(struct worker_fixture *fixture, struct fixture_client *client,
                             struct wire_geometry replies, int pidfd);
void fixture_disconnect(struct worker_fixture *fixture, struct fixture_client *client);

/* A header of the client's session with a new request id. */
struct wire_header fixture_header(struct fixture_client *client, enum wire_kind kind,
                                  uint16_t count);

/* Has the worker handle these bytes. */
void fixture_handle(struct worker_fixture *fixture, const void *message, size_t size);

/* Has it handle a request of these operations under that header. */
void fixture_request(struct worker_fixture *fixture, const struct wire_header *header,
                     const struct wire_operation *operations);

/* The next reply: its header, and a cursor at what follows. False: none came within wait_ms. */
bool fixture_reply(struct fixture_client *client, unsigned wait_ms, struct wire_header *header,
                   struct read_cursor *cursor);

/* An operation with text for key and value, and nothing else. */
struct wire_operation fixture_operation(enum wire_opcode opcode, const char *key,
                                        const char *value);

/* Request and reply of one operation; the result's value lies in client->message. */
struct wire_result fixture_call(struct worker_fixture *fixture, struct fixture_client *client,
                                struct wire_operation operation);

#endif
