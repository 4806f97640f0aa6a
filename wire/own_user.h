/*
 * own_user: whether a uid or gid that the kernel shows is this process's own. In a user namespace
 * (a container) the kernel shows one uid, the overflow uid (65534, nobody), for all users that the
 * namespace does not map: users with that uid cannot be told from each other there.
 *
 * Threads: any.
 */
#ifndef MQKV_WIRE_OWN_USER_H
#define MQKV_WIRE_OWN_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns true if `uid` stands for more than one user in this user namespace; also if it is 65534
 * and /proc does not show whether it does. */
bool wire_uid_is_shared(uid_t uid);

/* Returns true if `uid` is the effective one of this process, and stands for one user only. */
bool wire_uid_is_own(uid_t uid);

/* Returns true if `gid` is the effective group of this process, or one of its supplementary groups.
 * Of a process that is in more than 256 of these, only the effective group counts. */
bool wire_gid_is_own(gid_t gid);

#endif
