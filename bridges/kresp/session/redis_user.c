#include "bridges/kresp/session/redis_user.h"

#include <stdlib.h>

/* Returns true if a user with this many connections may have one more. */
static bool user_has_room(const struct redis_users *users, uint64_t connections)
{
    uint64_t left = users->max_connections > users->connections
                        ? users->max_connections - users->connections
                        : 0;
    return left > 0 && (!users->shared || connections < SHARE_OF_REST * left);
}

struct redis_user *redis_user_enter(struct redis_users *users, uint32_t uid)
{
    pthread_mutex_lock(&users->lock);
    struct redis_user *user = users->first;
    while (user && user->uid != uid)
        user = user->next;
    if (!user_has_room(users, user ? user->connections : 0)) {
        user = NULL;
    } else if (!user && (user = calloc(1, sizeof *user))) {
        user->uid = uid;
        user->next = users->first;
        users->first = user;
    }
    if (user) {
        user->connections++;
        users->connections++;
    }
    pthread_mutex_unlock(&users->lock);
    return user;
}

void redis_user_leave(struct redis_users *users, struct redis_user *user)
{
    pthread_mutex_lock(&users->lock);
    users->connections--;
    if (--user->connections == 0) {
        struct redis_user **link = &users->first;
        while (*link != user)
            link = &(*link)->next;
        *link = user->next;
        free(user);
    }
    pthread_mutex_unlock(&users->lock);
}

uint64_t redis_users_connections(struct redis_users *users)
{
    pthread_mutex_lock(&users->lock);
    uint64_t connections = users->connections;
    pthread_mutex_unlock(&users->lock);
    return connections;
}
