/*
 * nats_link: the connection to a NATS cluster: hundreds of requests under way at once, whose
 * answers are matched by the last part of the reply subject. A request is sent again while no
 * answer comes, until its deadline. A lost connection is made again, to any of the servers, for as
 * long as the link lives, even if the library has given it up; then with the options and files as
 * they are by then.
 *
 * Threads: any. Answers come on a thread of the NATS library or on the link's timer, no lock held;
 * both may send.
 */
#ifndef MQKV_NATSKV_NATS_LINK_H
#define MQKV_NATSKV_NATS_LINK_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "bridges/cluster/natskv/natskv_options.h"

struct nats_link;

enum link_outcome {
    LINK_ANSWERED,
    LINK_NOT_SENT, /* the deadline came, and surely no server has taken the request */
    LINK_SILENT,   /* the deadline came; a server may have taken the request */
    LINK_REFUSED   /* larger than the server takes (max_payload): surely no server has taken it */
};

/* A request. It belongs to the caller, and stays where it is until it is over. */
struct link_call {
    uint64_t deadline_ms; /* CLOCK_MONOTONIC */
    uint64_t begin_ms;    /* it is not sent before this time; 0: at once */
    uint32_t again_ms;    /* it is sent again after this time without an answer; 0: never */
    bool many;            /* it may have several answers */

    /* Makes the message with that reply subject; the link destroys it. False: out of memory. */
    bool (*make)(struct link_call *call, const char *reply, natsMsg **message);

    /* Messages that go before it on the same connection, each time that it is sent; then `make` is
     * called each time, too, before make_leading is, for each of them. The link destroys them. */
    uint32_t leading;
    bool (*make_leading)(struct link_call *call, uint32_t index, natsMsg **message);

    /* Called with an answer (message: the library's, valid during the call), or at the end without
     * one (message NULL). The call is over then, unless `many` is set and the function returns
     * true. The function may send a call that is over again, or free it. repeats: it was sent more
     * than once, and not all copies were answered. */
    bool (*answer)(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                   bool repeats);
};

struct link_counts {
    uint64_t calls;
    uint64_t repeats; /* requests that were sent again because no answer came */
    uint64_t nobody;  /* answers "no responders": no leader, or no such stream */
    uint64_t silent;  /* calls that ended without an answer */
    uint64_t reconnects;
    uint64_t in_flight;
    bool connected;
};

/* Connects, and waits some seconds for that. The strings of the options are borrowed. Errors: those
 * of natskv_open. */
enum kv_status nats_link_open(const struct natskv_options *options, struct nats_link **link,
                              struct kv_error *error);

/* Closes the link. No call may be under way. NULL is harmless. Waits some seconds for an attempt to
 * connect. */
void nats_link_close(struct nats_link *link);

/* Sends the call. False: too many are under way; it was not sent. */
bool nats_link_send(struct nats_link *link, struct link_call *call);

/* Returns the connection, which is not replaced before nats_link_release, though it may be lost. */
natsConnection *nats_link_retain(struct nats_link *link);
void nats_link_release(struct nats_link *link);

/* Returns how many bytes of a message, with headers, a server takes. */
uint64_t nats_link_max_payload(struct nats_link *link);

/* Returns the name of this instance, for ids of messages. */
const char *nats_link_instance(const struct nats_link *link);

void nats_link_counts(struct nats_link *link, struct link_counts *counts);

#endif
