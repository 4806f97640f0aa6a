/*
 * server_access: the mode that a reply queue needs so that the server can send to it. The narrower
 * it is, the fewer others can open the queue while it has its name, and fill it later.
 *   0600   the server has our uid, or is root with the right to open everything
 *   0620   it is in the group of its request queue, and so are we
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

/* Decides by the owner and group of the server's lane, and by what /proc says of its process (0:
 * unknown). */
struct server_access server_access_needed(mqd_t lane, pid_t server);

/* Gives the queue, created with mode 0600, that group and mode, or 0622 if it cannot have the
 * group. */
enum kv_status server_access_grant(mqd_t queue, struct server_access access,
                                   struct kv_error *error);

#endif
