/*
 * session: one client that is connected: its reply queue or ring, its lane, its segments.
 * session_table.h says how sessions are found, held and ended.
 *
 * Fields below "constant" are written before LIVE and after the last reference is gone; so a thread
 * that holds a session reads them freely.
 */
#ifndef MQKV_SERVERK_SESSION_SESSION_H
#define MQKV_SERVERK_SESSION_SESSION_H

#include <mqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/lanes/lanes.h"
#include "serverk/session/fragments.h"
#include "wire/queue_name.h"
#include "wire/reply_ring.h"
#include "wire/value_segment.h"

struct access_user;
struct session_hold;

enum session_end_reason {
    SESSION_BYE,       /* the client said so */
    SESSION_DIED,      /* its process ended */
    SESSION_FAULT,     /* it did not take its replies, or sent more than it has credits for */
    SESSION_SEGMENT,   /* it truncated its segment or ring while the server used it */
    SESSION_ABANDONED, /* nobody holds its reply queue any more */
    SESSION_REPLACED,  /* a new HELLO came for its reply queue */
    SESSION_SHUTDOWN,  /* the daemon stops */
    SESSION_KILLED,    /* its owner ended it, or lets its user in no more */
    SESSION_END_REASONS
};

/* A client may offer a larger segment than before; the earlier ones stay until nobody else holds
 * the session when another comes. Of those that are not mapped, and so keep a descriptor, one is
 * kept at most. */
#define SESSION_MAX_SEGMENTS          12u
#define SESSION_MAX_UNMAPPED_SEGMENTS 2u

struct session {
    _Atomic uint64_t state; /* session_state.h */

    /* constant while LIVE */
    uint32_t id;
    uint32_t reply_bytes;   /* of the largest message to it */
    uint64_t cookie;        /* what its messages must carry */
    uint64_t nonce;         /* what messages to it carry */
    mqd_t reply_queue;      /* O_NONBLOCK; or, if it has a ring, the descriptor of its object */
    struct wire_ring *ring; /* NULL: replies go to the reply queue */
    pid_t pid;       /* as the kernel knows it here; 0: in a PID namespace that is not seen */
    pid_t named_pid; /* as its names and HELLO have it: another in another PID namespace */
    uid_t uid;
    struct access_user
        *_Atomic access; /* what it may do; NULL: everything; changes with the rules */
    uint16_t threads;
    struct lane_assignment assignment;

    _Atomic bool lane_closed;             /* nobody else may open its lane (any more) */
    _Atomic uint16_t held_replies;        /* that wait for a sync (commit.h) */
    _Atomic uint16_t aside;               /* messages of it that were set aside (aside.h) */
    struct wire_segment *_Atomic segment; /* the one in use; NULL: none */

    struct fragments fragments;        /* has its lock */
    struct session_hold *_Atomic hold; /* NULL: it has made no backup */

    /* constant while LIVE, rarely read */
    int pidfd;         /* -1: its process is not seen */
    bool client_died;  /* written by session_end */
    _Atomic bool lost; /* nobody waits for its replies: it ended otherwise than by BYE */
    /* Reasons; SESSION_END_REASONS: none yet. */
    _Atomic unsigned final_bye; /* of the one that was sent for it */
    _Atomic unsigned counted;   /* by session_retire */
    _Atomic bool audited;       /* its end is for the audit log, too */
    _Atomic uint64_t
        final_bye_until_ms; /* until then room is looked for it (monotonic); 0: it is not due */
    dev_t reply_device;     /* with the inode: which queue it is, whatever its name */
    ino_t reply_inode;
    uint64_t opened_ms; /* monotonic */
    char reply_name[WIRE_QUEUE_NAME_BYTES];

    /* guarded by fragments.lock */
    struct wire_segment *segments[SESSION_MAX_SEGMENTS];
    unsigned segment_count;
    char segment_name[WIRE_QUEUE_NAME_BYTES]; /* of the last; "": none */
} __attribute__((aligned(128)));

/* Told, by any thread, of the process of a session that it left by dying, after what is known of it
 * was removed; 0: session_send_due_byes is to be called soon. */
typedef void (*session_death_listener)(void *context, pid_t pid);

/* Adds a reference to the session, which the caller holds already. */
void session_retain(struct session *session);

/* Sends without ever waiting, and changes nothing but queue or ring: also a forked child may call
 * it. False: there is no room. */
static inline bool session_put(const struct session *session, const void *message, size_t size)
{
    return session->ring ? wire_ring_put(session->ring, message, size)
                         : mq_send(session->reply_queue, message, size, 0) == 0;
}

/* Makes `segment`, whose name is `name`, the one that the session uses from now on; false: too many
 * were offered (the caller closes it). */
bool session_add_segment(struct session *session, struct wire_segment *segment, const char *name);

/* Returns true once nobody waits for what is still being done for the session: its client died, or
 * does not take its replies. False after a BYE: what was sent before it is executed. */
static inline bool session_is_lost(const struct session *session)
{
    return atomic_load_explicit(&session->lost, memory_order_relaxed);
}

/* Closes a reply queue. Not mq_close, though that does the same: checkers that follow descriptors
 * from thread to thread know close alone. */
void session_close_queue(mqd_t reply_queue);

/* Returns the name of the reason: "bye" ... */
const char *session_end_reason_name(enum session_end_reason reason);

#endif
