#include "bridges/kresp/session/redis_user.h"

#include <stdlib.h>

#include "common/time/clock.h"

/* Returns true if a user with this many connections may have one more. */
static bool user_has_room(const struct redis_users *users, uint64_t connections)
{
    uint64_t left = users->max_connections > users->connections
                        ? users->max_connections - users->connections
                        : 0;
    return left > 0 && (!users->shared || connections < SHARE_OF_REST * left);
}

/* Forgets those without connections who have rested at now_ns. Under the lock. */
static void forget_rested_users(struct redis_users *users, uint64_t now_ns)
{
    for (struct redis_user **link = &users->first; *link;) {
        struct redis_user *user = *link;
        if (user->connections > 0 || redis_user_rest_ns(user, now_ns) > 0) {
            link = &user->next;
            continue;
        }
        *link = user->next;
        free(user);
    }
}

struct redis_user *redis_user_enter(struct redis_users *users, uint32_t uid)
{
    pthread_mutex_lock(&users->lock);
    forget_rested_users(users, clock_monotonic_ns());
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
    user->connections--;
    forget_rested_users(users, clock_monotonic_ns());
    pthread_mutex_unlock(&users->lock);
}

void redis_users_free(struct redis_users *users)
{
    forget_rested_users(users, UINT64_MAX);
}

void redis_user_rest(struct redis_user *user, uint64_t now_ns, uint64_t rest_ns)
{
    uint64_t before_ns = atomic_load(&user->rests_until_ns), until_ns;
    do {
        until_ns = (before_ns > now_ns ? before_ns : now_ns) + rest_ns;
        if (until_ns > now_ns + REDIS_USER_MAX_REST_NS)
            until_ns = now_ns + REDIS_USER_MAX_REST_NS;
    } while (!atomic_compare_exchange_weak(&user->rests_until_ns, &before_ns, until_ns));
}

uint64_t redis_users_connections(struct redis_users *users)
{
    pthread_mutex_lock(&users->lock);
    uint64_t connections = users->connections;
    pthread_mutex_unlock(&users->lock);
    return connections;
}
