/*
 * own_user: whether a uid that the kernel shows is this process's user. In a user namespace (a
 * container) the kernel shows one uid, the overflow uid (65534, nobody), for all users that the
 * namespace does not map: there nobody who has that uid can be told from the others.
 *
 * Threads: any.
 */
#ifndef MQKV_WIRE_OWN_USER_H
#define MQKV_WIRE_OWN_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* True if `uid` stands for more than one user in this user namespace; also where that cannot be
 * seen (/proc) and `uid` is 65534. */
bool wire_uid_is_shared(uid_t uid);

/* True if `uid` is the effective one of this process, and stands for one user only. */
bool wire_uid_is_own(uid_t uid);

#endif
