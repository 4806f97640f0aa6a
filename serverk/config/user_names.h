/*
 * user_names: users and members of groups by name. At the start whatever the system knows
 * (nsswitch.conf(5)); a daemon in its sandbox can load no module and ask no service, and reads
 * /etc/passwd and /etc/group.
 *
 * Threads: one at a time.
 */
#ifndef MQKV_SERVERK_CONFIG_USER_NAMES_H
#define MQKV_SERVERK_CONFIG_USER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* From now on, only those files are read. */
void user_names_use_files(void);

/* Finds the uid of the user `name`, a name or a number. False: there is no such user. */
bool user_names_find(const char *name, uid_t *uid);

/* Finds the members of `group`, a name or a number: users whose first group it is, and those that
 * it lists, without one whose uid stands for more users (wire/own_user.h). *uids is to be freed.
 * False: there is no such group, or no memory. */
bool user_names_members(const char *group, uid_t **uids, size_t *count);

#endif
