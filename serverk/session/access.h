/*
 * access: what each user may do (access_rules.h), and how much of it they do.
 *
 * A user that is restricted has one account from its first session on; sessions point at it. There
 * is none for the daemon's own user and root, nor where no rule restricts users. Sessions that came
 * through the read lane have an account, whoever they are of: it may only read.
 *
 * The rules change while sessions are served (access_replace). Whoever looks at the rule of an
 * account counts itself in and out there, in one of two counters by turns; the old rules go when
 * nobody is counted in the one before. So a check takes no lock, and a child process that was
 * forked in the middle of one waits for nobody.
 *
 * Threads: any. Locks: access->lock, of the rules, their users' list, and of access_replace.
 */
#ifndef MQKV_SERVERK_SESSION_ACCESS_H
#define MQKV_SERVERK_SESSION_ACCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "serverk/config/access_rules.h"
#include "wire/operation.h"

/* Users that have had a session; more are refused. */
#define ACCESS_MAX_USERS 1024u

struct access_user {
    uid_t uid;
    bool reads_only;
    const struct access *access;
    const struct access_rule *_Atomic rule; /* NULL: all keys */
    _Atomic unsigned lookers[2];            /* at the rule */
    _Atomic uint64_t second;                /* that is counted, of CLOCK_MONOTONIC */
    _Atomic uint64_t used;                  /* operations in it */
    _Atomic uint64_t operations;            /* since the start, like the next two */
    _Atomic uint64_t denied;                /* not permitted */
    _Atomic uint64_t over_quota;            /* too many in a second */
    struct access_user *next;
};

struct access {
    pthread_mutex_t lock;
    const struct access_rules *rules; /* guarded by lock; NULL: nobody is restricted */
    const char *file;                 /* that they are from */
    _Atomic unsigned epoch;           /* which counter of lookers is used */
    struct access_user *_Atomic users;
    unsigned count;
};

/* Finds or makes the user's account (reads_only: the one that may only read); *user is NULL if the
 * user is not restricted. KV_DENIED: no rule is for it; KV_LIMIT, KV_NO_MEMORY. Holds: lock. */
enum kv_status access_enter(struct access *access, uid_t uid, bool reads_only,
                            struct access_user **user, struct kv_error *error);

/* Returns the number of sessions that the user may have by its rule; 0: it has none, or user is
 * NULL. Holds: lock. */
unsigned access_max_sessions(const struct access_user *user);

/* Puts other rules (NULL: none) in the place of those in force, for the accounts that there are,
 * too: one for which there is no rule any more may do nothing. When it returns nobody looks at the
 * old ones, which stay the caller's. Holds: lock. */
void access_replace(struct access *access, const struct access_rules *rules);

void access_free(struct access *access);

/* Returns whether the user may read the key; user NULL: yes. */
bool access_may_read(struct access_user *user, struct kv_slice key);

/* Below 0, 0, above 0: in the order of their bytes, a key before those that it begins. */
int access_compare_keys(struct kv_slice a, struct kv_slice b);

/* A part of the keys that the user may read: those that begin with `prefix`, from `edge` on, or
 * before it (reverse); empty: all of them. */
struct access_part {
    struct kv_slice prefix;
    struct kv_slice edge;
};

/* Goes from *part (prefix.data NULL: begin) to the next part that the user may read, in the order
 * of the keys, or backwards (reverse). Parts have no key in common, and nothing lies between two of
 * them that the user may read when the second one is asked for: its rule may be replaced at any
 * time. `room`, of WIRE_MAX_KEY_BYTES, is the same for all parts; *part points into it. False:
 * there is no other. user NULL, and one without a rule: all keys, once. */
bool access_next_part(struct access_user *user, bool reverse, uint8_t *room,
                      struct access_part *part);

/* Returns whether the user may write all keys that begin with `prefix`, or all those from `from` on
 * and before `to`. */
bool access_may_write_range(struct access_user *user, struct kv_slice from, struct kv_slice to,
                            struct kv_slice prefix);

/* Checks whether the user may execute the operation, and counts it: KV_OK, KV_DENIED, KV_QUOTA. */
enum kv_status access_check(struct access_user *user, const struct wire_operation *operation);

/* Checks whether the user may read, or write, the key, for a part of an operation that was checked;
 * counts as an operation. KV_OK, KV_DENIED, KV_QUOTA. */
enum kv_status access_check_key(struct access_user *user, struct kv_slice key, bool writes);

/* The same of an operation that was counted before and has waited since: KV_OK, KV_DENIED. */
enum kv_status access_check_again(struct access_user *user, const struct wire_operation *operation);

#endif
