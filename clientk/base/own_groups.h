/*
 * own_groups: the groups whose permissions this process has.
 */
#ifndef MQKV_CLIENTK_BASE_OWN_GROUPS_H
#define MQKV_CLIENTK_BASE_OWN_GROUPS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the group is the effective one, or one of the supplementary ones. Who is in more than 256
 * of these counts as in none of them. Any thread. */
bool own_groups_have(gid_t group);

#endif
