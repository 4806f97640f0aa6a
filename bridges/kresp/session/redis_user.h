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

#include "bridges/kresp/channels/tracking_table.h"
#include "bridges/kresp/protocol/byte_buffer.h"

/* Stands for a uid that is not known, as of all who come by TCP. */
#define REDIS_USER_OF_TCP UINT32_MAX

struct redis_user {
    struct redis_user *next; /* in the table; the table's lock covers this, uid, connections */
    uint32_t uid;
    uint64_t connections;
    struct buffer_owner buffers;
    struct redis_channel_share channels; /* under the lock of the channels */
    struct tracking_share tracking;      /* under the lock of the table */
    _Atomic unsigned scripts_running;    /* of the user, now */
    _Atomic uint64_t script_kills;       /* each ends the scripts that run then */
    _Atomic uint64_t rests_until_ns;     /* monotonic: its rounds have taken long */
    _Atomic unsigned rounds_running;     /* of the user, now, in all threads */
};

/* The users who are connected now, or rest. */
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

/* Uncounts a connection, which is gone with all of its buffers. With the last one the user is
 * forgotten, once the rest is over: nobody gets out of it by connecting anew. */
void redis_user_leave(struct redis_users *users, struct redis_user *user);

/* No rest is longer: what one command can take, ten times. */
#define REDIS_USER_MAX_REST_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/* The user rests so much longer, from now_ns (monotonic) on or behind the rest that is not over; at
 * most REDIS_USER_MAX_REST_NS from now. */
void redis_user_rest(struct redis_user *user, uint64_t now_ns, uint64_t rest_ns);

/* Returns how long the user still rests. */
static inline uint64_t redis_user_rest_ns(const struct redis_user *user, uint64_t now_ns)
{
    uint64_t until_ns = atomic_load(&user->rests_until_ns);
    return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* Forgets those who rest; nobody is connected any more. */
void redis_users_free(struct redis_users *users);

/* Returns the number of connections of all users. */
uint64_t redis_users_connections(struct redis_users *users);

#endif
