/*
 * server_access: how wide the mode of a reply queue must be for the server to send to it. The narrower it
 * is, the fewer others can open the queue while it has its name, and fill it later.
 *
 *   0600   the server has our uid, or is root with the right to open everything
 *   0620   it has a group of ours, which is that of its request queue
 *   0622   else
 */
#ifndef MQKV_CLIENTK_SESSION_SERVER_ACCESS_H
#define MQKV_CLIENTK_SESSION_SERVER_ACCESS_H

#include <mqueue.h>
#include <sys/types.h>

#include "mqkv/error.h"

struct server_access {
    mode_t mode;
    gid_t group; /* with 0620 */
};

/* By the owner and group of the server's lane, and what /proc says of its process (0: unknown). */
struct server_access server_access_needed(mqd_t lane, pid_t server);

/* Gives the queue, created with mode 0600, that group and mode; where the group can not be given, 0622. */
enum kv_status server_access_grant(mqd_t queue, struct server_access access,
                                   struct kv_error *error);

#endif
