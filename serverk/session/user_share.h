/*
 * user_share: how much of what all users share one user may have, and how much all users together
 * who are neither the daemon's own user nor root. The rest is for these two, so that the owner gets
 * in whatever others do.
 *
 * A user has a quarter of what is taken for the time of a request (places, bytes, entries of the
 * schedule), so that three greedy users leave room for a fourth; all users together have three
 * quarters. Sessions are held for as long as a client runs, and a user with many processes needs
 * many: below USER_SHARE_FEW_SESSIONS a share is half of them, and all users together have seven
 * eighths, since an owner needs few of them.
 */
#ifndef MQKV_SERVERK_SESSION_USER_SHARE_H
#define MQKV_SERVERK_SESSION_USER_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* A share of sessions is half of all where it would be less. */
#define USER_SHARE_FEW_SESSIONS 256u

/* Sessions for processes of the owner that have none. */
#define USER_SHARE_MOST_RESERVED 8u

/* The daemon's own user and root may have all. */
static inline bool user_share_is_owner(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* Returns what one user may have of `all`. */
static inline uint64_t user_share_of_one(uint64_t all)
{
    return all / 4;
}

/* Returns what all users but the owner and root may have of `all` together. */
static inline uint64_t user_share_of_others(uint64_t all)
{
    return all / 4 * 3;
}

/* Returns what one user may have of `capacity` sessions. */
static inline unsigned user_share_sessions_of_one(unsigned capacity)
{
    unsigned few = USER_SHARE_FEW_SESSIONS, half = capacity / 2, quarter = capacity / 4;
    unsigned share = quarter >= few ? quarter : half < few ? half : few;
    return share > 0 ? share : 1;
}

static inline unsigned user_share_sessions_of_others(unsigned capacity)
{
    return capacity - capacity / 8;
}

/* Returns the number of `capacity` sessions that are left to processes of the owner and of root
 * that have none yet. */
static inline unsigned user_share_sessions_reserved(unsigned capacity)
{
    return capacity / 8 < USER_SHARE_MOST_RESERVED ? capacity / 8 : USER_SHARE_MOST_RESERVED;
}

#endif
