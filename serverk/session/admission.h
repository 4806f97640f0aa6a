/*
 * admission: who may have one more session.
 *
 * One reply queue has one session: the queue is known by its inode, not by its name. A user other
 * than the server's own (and root, who may do anything) has at most a share of the sessions
 * (user_share.h), and all such users together leave a reserve: so nobody can keep others out, and
 * the server's owner always gets in. The last places are for processes of the owner and of root
 * that have no session yet: when the owner's own programs have taken all others, `clientk stats`
 * still gets in.
 *
 * Threads: the caller sees to it that one newcomer is dealt with at a time.
 */
#ifndef MQKV_SERVERK_SESSION_ADMISSION_H
#define MQKV_SERVERK_SESSION_ADMISSION_H

#include "mqkv/error.h"
#include "serverk/session/session_table.h"

/* The process that asks for a session, as the kernel knows it. */
struct newcomer {
    mqd_t reply_queue;
    uint64_t nonce;
    pid_t pid;
    unsigned max_sessions; /* of the user, as its rule has it; 0: a share of all */
    uid_t uid;
};

/* Checks whether `newcomer` may have a session. KV_OK: there is room; or *session, else NULL, is
 * the one that this newcomer has already, held, since its HELLO came twice. KV_LIMIT: *error tells
 * who has the places. Before that, sessions that the process has left end, and one of the same
 * reply queue with another nonce. */
enum kv_status admission_check(struct session_table *table, const struct newcomer *newcomer,
                               struct session **session, struct kv_error *error);

#endif
