/*
 * redis_user: the users that are connected: those behind the Unix socket by uid, and all who come
 * by TCP as one, since nothing tells them apart. Connections and buffers are shared among them: if
 * others than kresp's own user may connect, nobody has more than three quarters of either, and less
 * if several want much.
 *
 * Threads: any.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_USER_H
#define MQKV_KRESP_SESSION_REDIS_USER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bridges/kresp/channels/redis_channels.h"
#include "bridges/kresp/protocol/byte_buffer.h"

/* Stands for a uid that is not known, as of all who come by TCP. */
#define REDIS_USER_OF_TCP UINT32_MAX

struct redis_user {
    struct redis_user *next; /* in the table; the table's lock covers this, uid, connections */
    uint32_t uid;
    uint64_t connections;
    struct buffer_owner buffers;
    struct redis_channel_share channels; /* under the lock of the channels */
    _Atomic unsigned scripts_running;    /* of the user, now */
    _Atomic uint64_t script_kills;       /* each ends the scripts that run then */
};

/* The users who are connected now. */
struct redis_users {
    pthread_mutex_t lock;
    struct redis_user *first;
    uint64_t connections; /* connections of all users */
    uint64_t max_connections;
    bool shared; /* each user may have a share of them; else the first to come may have all */
};

#define REDIS_USERS_EMPTY                 \
    {                                     \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Counts one more connection of the user. NULL: there are as many as allowed, in all or for this
 * user; or no memory. */
struct redis_user *redis_user_enter(struct redis_users *users, uint32_t uid);

/* Uncounts a connection, which is gone with all of its buffers. */
void redis_user_leave(struct redis_users *users, struct redis_user *user);

/* Returns the number of connections of all users. */
uint64_t redis_users_connections(struct redis_users *users);

#endif
