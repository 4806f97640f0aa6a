/*
 * session: the clients that are connected: one session for each reply queue or ring.
 *
 * A session's id is its slot in the table and the slot's generation, so that an id of an ended
 * session is recognised. On the hot path a session is found and held with one atomic add, and let
 * go with one atomic subtraction, on the session's own cache line; there is no lock and nothing
 * that sessions share.
 *
 * Life of a slot: FREE -> LIVE (session_open) -> CLOSING (session_end, any thread, any time) ->
 * DISPOSING (by whoever lets go last) -> FREE with the next generation. Fields below "constant" are
 * written before LIVE and after the last hold is gone; so who holds a session reads them freely.
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

struct session_table;

enum session_end_reason {
    SESSION_BYE,       /* the client said so */
    SESSION_DIED,      /* its process ended */
    SESSION_FAULT,     /* it did not take its replies */
    SESSION_SEGMENT,   /* it truncated its segment or ring while the server used it */
    SESSION_ABANDONED, /* nobody holds its reply queue any more */
    SESSION_REPLACED,  /* a new HELLO came for its reply queue */
    SESSION_SHUTDOWN,  /* the daemon stops */
    SESSION_END_REASONS
};

/* A client may offer a larger segment than before; the earlier ones stay until nobody else holds
 * the session when another comes. Of those that are not mapped, and so keep a descriptor, one is
 * kept at most. */
#define SESSION_MAX_SEGMENTS          12u
#define SESSION_MAX_UNMAPPED_SEGMENTS 2u

/* Of a table. */
#define SESSION_MAX_SESSIONS 4096u

struct session {
    _Atomic uint64_t state; /* session.c */

    /* constant while LIVE */
    uint32_t id;
    uint32_t reply_bytes;   /* of the largest message to it */
    uint64_t cookie;        /* what its messages must carry */
    uint64_t nonce;         /* what messages to it carry */
    mqd_t reply_queue;      /* O_NONBLOCK; or, if it has a ring, the descriptor of its object */
    struct wire_ring *ring; /* NULL: replies go to the reply queue */
    pid_t pid;
    uid_t uid;
    uint16_t threads;
    struct lane_assignment assignment;

    _Atomic bool lane_closed;             /* nobody else may open its lane (any more) */
    struct wire_segment *_Atomic segment; /* the one in use; NULL: none */

    struct fragments fragments; /* has its lock */

    /* constant while LIVE, rarely read */
    int pidfd;
    bool client_died;  /* written by session_end */
    _Atomic bool lost; /* nobody waits for its replies: it ended otherwise than by BYE */
    /* Reasons; SESSION_END_REASONS: none yet. */
    _Atomic unsigned final_bye; /* of the one that was sent for it */
    _Atomic unsigned counted;   /* by session_retire */
    _Atomic uint64_t
        final_bye_until_ms; /* until then room is looked for it (monotonic); 0: it is not due */
    dev_t reply_device;     /* with the inode: which queue it is, whatever its name */
    ino_t reply_inode;
    char reply_name[WIRE_QUEUE_NAME_BYTES];

    /* guarded by fragments.lock */
    struct wire_segment *segments[SESSION_MAX_SEGMENTS];
    unsigned segment_count;
    char segment_name[WIRE_QUEUE_NAME_BYTES]; /* of the last; "": none */
} __attribute__((aligned(128)));

/* What a new session is made from. */
struct session_start {
    mqd_t reply_queue;      /* becomes the session's */
    struct wire_ring *ring; /* likewise */
    int pidfd;              /* likewise */
    uint32_t reply_bytes;
    uint16_t reply_depth;
    uint16_t threads;
    uint64_t nonce;
    pid_t pid;
    uid_t uid;
    bool knows_guests; /* lanes.h */
    const char *reply_name;
};

/* watch_epoll: an epoll set that has the pidfd of every session until it ends (EPOLLIN, data.u64
 * the id). NULL: out of memory. */
struct session_table *session_table_create(unsigned capacity, struct lanes *lanes, int watch_epoll,
                                           struct fragment_budget *budget);

unsigned session_table_capacity(const struct session_table *table);

/* Ends all sessions; nobody may hold one. */
void session_table_free(struct session_table *table);

/* The new session, held. NULL: the table is full, or (errno) it cannot be watched; queue, ring and
 * pidfd then are still the caller's. */
struct session *session_open(struct session_table *table, const struct session_start *start);

/* Holds the live session of that id if its cookie is right; NULL if not. */
struct session *session_acquire(struct session_table *table, uint32_t id, uint64_t cookie);

/* A message of the session came through its lane, which until the first one was open to others. */
void session_close_lane(struct session_table *table, struct session *session);

/* Its client asks again for what it was welcomed with: so that lane is open to others again, if
 * nothing of the session has come through it yet. */
void session_reopen_lane(struct session_table *table, struct session *session);

/* One more hold, for somebody who holds it already. */
void session_hold(struct session *session);

/* Lets go. The last to let go of an ended session closes its queue, frees its memory, and unlinks
 * names that its dead client left. */
void session_release(struct session_table *table, struct session *session);

/* Ends the session (at most once; the caller holds it and still must release it). */
void session_end(struct session_table *table, struct session *session,
                 enum session_end_reason reason);

/* The process of the session has ended: the session, if it lives still, ends with reason
 * SESSION_DIED when what the client sent to its lane is executed, a BYE among that excepted. For
 * that a message goes through the lane, which nobody else can write (session_final_bye); if no room
 * is found for it in a second, the session ends so. */
void session_client_died(struct session_table *table, uint32_t id);

/* Looks once more for room for such messages. False: none is due any more. */
bool session_send_due_byes(struct session_table *table);

/* Whether a BYE of the session with that request_id is such a message; *reason: for which it ends
 * then. */
bool session_final_bye(const struct session_table *table, const struct session *session,
                       uint64_t request_id, enum session_end_reason *reason);

/* The session is about to end for that reason; false: it was so before. It is not counted, watched
 * or shown any more, but found by its messages until session_end. A BYE counts also if it was only
 * handled after that. */
bool session_retire(struct session_table *table, struct session *session,
                    enum session_end_reason reason);

/* Told, by any thread, of the process of a session that it left by dying, after what is known of it
 * was removed; 0: session_send_due_byes is to be called soon. */
typedef void (*session_death_listener)(void *context, pid_t pid);
void session_set_death_listener(struct session_table *table, session_death_listener death_listener,
                                void *context);

/* A BYE that came when there was no such session any more. If it ended lately because its process
 * did, the client had left with a word, and counts so: the end of a process may be noticed before a
 * worker takes its last message. */
void session_bye_after_end(struct session_table *table, uint32_t id, uint64_t cookie);

/* Ends sessions of process `pid` that has closed their reply queues without a word, as
 * session_client_died; 0: of all processes, at once. */
void session_end_abandoned(struct session_table *table, pid_t pid);

/* Sends without ever waiting. False: the client has no room for it, which breaks the rule of
 * credits and ends the session. */
bool session_send(struct session_table *table, struct session *session, const void *message,
                  size_t size);

/* The part of session_send that changes nothing but queue or ring: also a forked child may call it.
 * False: there is no room. */
static inline bool session_put(const struct session *session, const void *message, size_t size)
{
    return session->ring ? wire_ring_put(session->ring, message, size)
                         : mq_send(session->reply_queue, message, size, 0) == 0;
}

/* Uses the segment from now on; false: too many were offered (the caller closes it). */
bool session_add_segment(struct session *session, struct wire_segment *segment, const char *name);

/* True once nobody waits for what is still being done for the session: its client died, or does not
 * take its replies. False after a BYE: what was sent before it is executed. */
static inline bool session_is_lost(const struct session *session)
{
    return atomic_load_explicit(&session->lost, memory_order_relaxed);
}

/* Calls visit with each live session, held during the call, until it returns false. */
void session_each(struct session_table *table,
                  bool (*visit)(void *context, struct session *session), void *context);

struct session_counts {
    uint64_t live;
    uint64_t opened;
    uint64_t ended[SESSION_END_REASONS];
};
void session_counts(const struct session_table *table, struct session_counts *counts);

/* Closes a reply queue. Not mq_close, though that does the same: checkers that follow descriptors
 * from thread to thread know close alone. */
void session_close_queue(mqd_t reply_queue);

/* "bye" ... */
const char *session_end_reason_name(enum session_end_reason reason);

#endif
