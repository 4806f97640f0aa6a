/*
 * explore_daemon: what several harnesses need: a daemon (its lanes, its pool of workers and
 * steward, its sessions and its main thread), and clients that speak its protocol message by
 * message. A request is a STATS with a number of its own; some keep their worker for long.
 */
#ifndef MQKV_TESTS_EXPLORE_DAEMON_H
#define MQKV_TESTS_EXPLORE_DAEMON_H

#include <mqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "serverk/session/session_table.h"
#include "wire/message.h"

#define EXPLORED_NAME   "/explored" /* of its queues */
#define EXPLORED_STORE  "/machine/a"
#define DAEMON          1u /* its process */
#define FIRST_CLIENT    2u
#define DAEMON_CLIENTS  3u
#define CLIENT_REQUESTS 30u

struct daemon_plan {
    unsigned workers;
    mode_t mode;         /* of its queues */
    bool has_long_ones;  /* some requests keep their worker for long */
    bool leaves_clients; /* it stops while clients are there */
    uint32_t datafiles; /* of its store, whose writes are synced before they are answered: a request
                            is a PUT of two keys; 0: there is none */
    bool is_sound;      /* its disk fails no sync */
};

/* What became of a client's requests. */
struct request_fate {
    _Atomic bool is_tried; /* it is about to be sent */
    _Atomic bool is_sent;
    _Atomic bool is_in_time;   /* sent before the daemon was told to stop */
    _Atomic bool is_forbidden; /* through the lane of another user */
    _Atomic unsigned executed;
    unsigned answered;
    enum kv_status status; /* of a PUT that was answered */
};

/* The keys that a PUT writes, each with its own name as the value. */
#define KEYS_OF_PUT 2u
struct explored_put {
    char keys[KEYS_OF_PUT][16];
};
struct explored_put explore_put_of(unsigned client, unsigned request);

struct daemon_client {
    unsigned number; /* 0 .. DAEMON_CLIENTS - 1 */
    mqd_t door, reply, lane;
    int server; /* its pidfd */
    char reply_name[WIRE_QUEUE_NAME_BYTES], lane_name[WIRE_QUEUE_NAME_BYTES];
    struct wire_welcome welcome;
    uint32_t session;
    uint64_t nonce;
    uint64_t asked_ns; /* when it sent its last HELLO */
    unsigned names;    /* reply queues so far */
    unsigned sent;     /* requests so far, of all sessions */
    unsigned in_flight;
    bool was_welcome;
    struct request_fate fates[CLIENT_REQUESTS];
};

/* Starts the daemon as process DAEMON, and waits until it serves. */
void explore_daemon_start(const struct daemon_plan *plan);

/* Waits until no session is left (unless the plan leaves clients), stops it, and waits for its end.
 * What it counted. */
void explore_daemon_stop(struct session_counts *counts);

/* After it was killed, if it had a store. */
void explore_daemon_forget(void);

struct daemon_client *explore_client(unsigned number);

enum client_outcome { CLIENT_JOINED, CLIENT_LATE, CLIENT_REFUSED, CLIENT_ALONE };

/* Gets a session, as a client does. LATE: its lane was closed; ALONE: the server is gone. */
enum client_outcome explore_client_open(struct daemon_client *client);

/* Sends a request; false: the server is gone. At most as many as there are credits are in
 * flight. */
bool explore_client_send(struct daemon_client *client);

/* Sends one through the queue of that name, if that is open: one that may not be executed. */
void explore_client_intrude(struct daemon_client *client, const char *name);

/* Waits for an answer; false: the server is gone. */
bool explore_client_take(struct daemon_client *client);

/* Executes one operation, with nothing else in flight; the result's value is in the message. False:
 * the server is gone. */
bool explore_client_ask(struct daemon_client *client, const struct wire_operation *operation,
                        struct wire_result *result, uint8_t message[WIRE_MIN_REPLY_BYTES]);

void explore_client_say_bye(const struct daemon_client *client);
void explore_client_close(struct daemon_client *client);

/* Ends the schedule if a request was executed twice, or was sent and not executed. */
void explore_daemon_judge(void);

#endif
