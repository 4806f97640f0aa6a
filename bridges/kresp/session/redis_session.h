/*
 * redis_session: one client as the commands see it: what it sent, what it will be sent, and what
 * its earlier commands have said about later ones. It knows nothing of sockets.
 *
 * Threads: a session belongs to one thread.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_SESSION_H
#define MQKV_KRESP_SESSION_REDIS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "bridges/kresp/channels/key_tracker.h"
#include "bridges/kresp/channels/redis_subscriber.h"
#include "bridges/kresp/session/redis_job.h"
#include "bridges/kresp/session/redis_service.h"
#include "bridges/kresp/session/transaction.h"
#include "bridges/kresp/protocol/byte_buffer.h"
#include "bridges/kresp/protocol/resp_reply.h"
#include "bridges/kresp/protocol/resp_request.h"

#define REDIS_NAME_BYTES 64

struct redis_session {
    struct redis_service *service;
    struct redis_user *user;
    struct byte_buffer input;
    struct resp_request request; /* the request that is being read from input */
    struct resp_reply reply;
    uint64_t id;
    uint64_t since_ms;
    bool authenticated;
    bool closing; /* no further command is read; replies that were written are still sent */
    char name[REDIS_NAME_BYTES];
    char library[REDIS_NAME_BYTES], library_version[REDIS_NAME_BYTES];
    char address[128]; /* the peer, as CLIENT LIST shows it */
    struct redis_transaction transaction;
    struct redis_subscriber subscriber;
    struct key_tracker tracker; /* rings the subscriber's inbox */
    struct redis_job
        *unfinished; /* a command that continues in the next batch, and no other before; owned */
    bool is_waiting; /* it continues when the client's inbox rings (redis_subscriber_await) */
    uint64_t commands;
    size_t value_bytes; /* the largest value read lately, less with each batch; 0: at first */
};

/* Starts a session of `user`, who outlives it and to whom its buffers count. */
void redis_session_init(struct redis_session *session, struct redis_service *service,
                        struct redis_user *user);

/* Returns where the job's reply goes. */
static inline struct resp_reply *redis_job_reply(struct redis_job *job)
{
    return &job->session->reply;
}

/* Returns true if the client, in version 2 of the protocol, is subscribed to something: then it may
 * send few commands, since replies cannot be told from messages. */
static inline bool redis_session_only_subscribes(const struct redis_session *session)
{
    return session->reply.protocol == 2 && redis_subscriber_count(&session->subscriber) > 0;
}

/* The client is about to read the key: it is told of its changes, if it wants to be. */
static inline void redis_session_remember(struct redis_session *session, struct kv_slice key)
{
    if (key_tracker_wants_reads(&session->tracker))
        tracking_table_remember(session->tracker.table, &session->tracker.client, key);
}

/* The client has had these operations executed: it may not want to be told of its own writes. */
void redis_session_note_writes(struct redis_session *session,
                               const struct clientk_operation *operations,
                               const struct clientk_result *results, size_t count);

/* Frees what the session owns; the session itself is the caller's. */
void redis_session_free(struct redis_session *session);

/* Forgets the commands that were answered: their bytes leave the input. Must not be called while
 * one is unfinished. */
void redis_session_release(struct redis_session *session);

#endif
