/*
 * session_table: the clients that are connected: one session for each reply queue or ring.
 *
 * A session's id is its slot in the table and the slot's generation, so that an id of an ended
 * session is recognised. On the hot path a session is found and held with one atomic add, and let
 * go with one atomic subtraction, on the session's own cache line; there is no lock and nothing
 * that sessions share.
 *
 * Life of a slot: FREE -> LIVE (session_open) -> CLOSING (session_end, any thread, any time) ->
 * DISPOSING (by whoever lets go last) -> FREE with the next generation.
 */
#ifndef MQKV_SERVERK_SESSION_SESSION_TABLE_H
#define MQKV_SERVERK_SESSION_SESSION_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/session/session.h"

struct session_table;

/* The most sessions of a table. */
#define SESSION_MAX_SESSIONS 4096u

/* What a new session is made from. */
struct session_start {
    mqd_t reply_queue;      /* becomes the session's */
    struct wire_ring *ring; /* likewise */
    int pidfd;              /* likewise; -1: the process is not seen here */
    uint32_t reply_bytes;
    uint16_t reply_depth;
    uint16_t threads;
    uint64_t nonce;
    pid_t pid;       /* session.h */
    pid_t named_pid; /* session.h */
    uid_t uid;
    struct access_user *access; /* session.h */
    bool knows_guests;          /* lanes.h */
    bool reads_only;            /* its lane is the read lane */
    const char *reply_name;
};

/* Makes a table for `capacity` sessions. watch_epoll: an epoll set that has the pidfd of every
 * session until it ends (EPOLLIN, data.u64 the id). NULL: out of memory or descriptors. */
struct session_table *session_table_create(unsigned capacity, struct lanes *lanes, int watch_epoll,
                                           struct fragment_budget *budget);

unsigned session_table_capacity(const struct session_table *table);

/* Ends all sessions; nobody may hold one. */
void session_table_free(struct session_table *table);

/* If there is no session, closes the table: none is opened any more. Returns whether it is. */
bool session_table_close(struct session_table *table);

/* Returns a new session, held. NULL: the table is full, or (errno) the process cannot be watched,
 * or ESHUTDOWN: the table is closed. Queue, ring and pidfd then are still the caller's. */
struct session *session_open(struct session_table *table, const struct session_start *start);

/* Finds the live session of the id `id`, if its cookie is right, and holds it; NULL if not. */
struct session *session_acquire(struct session_table *table, uint32_t id, uint64_t cookie);

/* Notes that a message of the session came through its lane, which until the first one was open to
 * others. */
void session_close_lane(struct session_table *table, struct session *session);

/* Notes that the session's client asks again for what it was welcomed with: so the lane is open to
 * others again, if nothing of the session has come through it yet. */
void session_reopen_lane(struct session_table *table, struct session *session);

/* Lets go. The last to let go of an ended session tells the client, where it was the server that
 * ended it and there is room, closes its queue, frees its memory, and unlinks names that its dead
 * client left. */
void session_release(struct session_table *table, struct session *session);

/* Ends the session (at most once; the caller holds it and still must release it). */
void session_end(struct session_table *table, struct session *session,
                 enum session_end_reason reason);

/* The process of the session has ended: the session, if it lives still, ends with reason
 * SESSION_DIED when what the client sent to its lane is executed, a BYE among that excepted. For
 * that a message goes through the lane, which nobody else can write (session_final_bye); if no room
 * is found for it in a second, the session ends so. */
void session_client_died(struct session_table *table, uint32_t id);

/* Returns a timer that becomes readable while there are sessions whose process is not seen. */
int session_unseen_timer(const struct session_table *table);

/* To be called when the timer is readable: sessions of such processes that hold the lock of their
 * reply queue no more end as by session_client_died. */
void session_unseen_tick(struct session_table *table);

/* Looks once more for room for such messages. False: none is due any more. */
bool session_send_due_byes(struct session_table *table);

/* Returns whether a BYE of the session with that request_id is such a message; *reason: for which
 * the session ends then. */
bool session_final_bye(const struct session_table *table, const struct session *session,
                       uint64_t request_id, enum session_end_reason *reason);

/* Notes that the session is about to end for that reason; false: that was noted before. The session
 * is not counted, watched or shown any more, but found by its messages until session_end. A BYE
 * counts also if it was only handled after that. */
bool session_retire(struct session_table *table, struct session *session,
                    enum session_end_reason reason);

/* Returns whether the user `uid` may have sessions at all (lanes_set_mode). */
bool session_table_admits(const struct session_table *table, uid_t uid);

void session_set_death_listener(struct session_table *table, session_death_listener death_listener,
                                void *context);

/* Counts a BYE that came when there was no such session any more. If the session ended lately
 * because its process did, the client had left with a word, and counts so: the end of a process may
 * be noticed before a worker takes its last message. */
void session_bye_after_end(struct session_table *table, uint32_t id, uint64_t cookie);

/* Ends sessions of process `pid` that has closed their reply queues without a word, as
 * session_client_died; 0: of all processes, at once. */
void session_end_abandoned(struct session_table *table, pid_t pid);

/* Returns whether the client has truncated the segment that a request may have used: what was read
 * from it may be zeros, what was written is lost. */
bool session_segment_is_broken(const struct session *session);
#define SESSION_SEGMENT_IS_BROKEN \
    "the segment was shortened while the server used it: the session ends"

/* Sends without ever waiting. False: the client has no room for it, which breaks the rule of
 * credits and ends the session. */
bool session_send(struct session_table *table, struct session *session, const void *message,
                  size_t size);

/* Calls visit with each live session, held during the call, until it returns false. */
void session_each(struct session_table *table,
                  bool (*visit)(void *context, struct session *session), void *context);

/* Reads of single keys that clients with a ring say they have made in place (wire/reply_ring.h),
 * since the start. */
struct session_reads {
    uint64_t found, absent;
};

/* Reads these counts. Threads: any. */
void session_reads(struct session_table *table, struct session_reads *reads);

struct session_counts {
    uint64_t live;
    uint64_t opened;
    uint64_t ended[SESSION_END_REASONS];
    uint64_t refused[KV_STATUS_COUNT]; /* who got none, by why */
};

/* Counts a process that gets no session, with the status that says why: KV_DENIED, KV_LIMIT, ... */
void session_count_refusal(struct session_table *table, enum kv_status status);
void session_counts(const struct session_table *table, struct session_counts *counts);

#endif
