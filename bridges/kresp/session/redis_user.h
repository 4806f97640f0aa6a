/*
 * redis_user: who is connected: the users of the host behind the Unix socket, by uid, and all who
 * come by TCP as one, since nothing tells them apart. Connections and buffers are shared among
 * them: where others than kresp's own user may connect, nobody has more than three quarters of
 * either, and less where several want much.
 *
 * Threads: any.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_USER_H
#define MQKV_KRESP_SESSION_REDIS_USER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"

/* In place of a uid: somebody who is not known by one. */
#define REDIS_USER_OF_TCP UINT32_MAX

struct redis_user {
    struct redis_user *next; /* of the table, as is all but the buffers */
    uint32_t uid;
    uint64_t connections;
    struct buffer_owner buffers;
};

/* Those who are connected now. */
struct redis_users {
    pthread_mutex_t lock;
    struct redis_user *first;
    uint64_t connections; /* of all */
    uint64_t max_connections;
    bool shared; /* there are shares of them; else they are for whoever comes first */
};

#define REDIS_USERS_EMPTY                 \
    {                                     \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Counts one more connection of the user. NULL: there are as many as there may be, or as the user
 * may have; or no memory. */
struct redis_user *redis_user_enter(struct redis_users *users, uint32_t uid);

/* The connection is gone, with all of its buffers. */
void redis_user_leave(struct redis_users *users, struct redis_user *user);

/* The connections of all. */
uint64_t redis_users_connections(struct redis_users *users);

#endif
