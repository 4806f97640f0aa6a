#include "bridges/kresp/bridge/turn_share.h"

#include <stdlib.h>

#include "bridges/kresp/bridge/redis_connection.h"

struct turn_share *turn_share_of(struct turn_shares *shares, struct redis_user *user)
{
    struct turn_share *share = shares->last;
    while (share && share->user != user)
        share = share->next != shares->last ? share->next : NULL;
    if (share)
        return share;
    share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    share->user = user;
    share->next = shares->last ? shares->last->next : share;
    if (shares->last)
        shares->last->next = share;
    shares->last = share;
    return share;
}

void turn_share_remove(struct turn_shares *shares, struct turn_share *share)
{
    struct turn_share *previous = share;
    while (previous->next != share)
        previous = previous->next;
    previous->next = share->next;
    if (shares->last == share)
        shares->last = previous != share ? previous : NULL;
    free(share);
}

/* Large values, or a pipeline that takes several turns. */
static bool is_large(const struct redis_connection *connection)
{
    const struct redis_session *session = &connection->session;
    return connection->has_more || session->unfinished ||
           session->value_bytes >= TURN_SESSION_BYTES / 4;
}

void turn_queue_push(struct turn_queue *queue, struct redis_connection *connection)
{
    connection->next_waiting = NULL;
    if (queue->first)
        queue->last->next_waiting = connection;
    else
        queue->first = connection;
    queue->last = connection;
}

void turn_share_push(struct turn_share *share, struct redis_connection *connection)
{
    turn_queue_push(is_large(connection) ? &share->large : &share->small, connection);
}

struct redis_connection *turn_queue_pop(struct turn_queue *queue)
{
    struct redis_connection *connection = queue->first;
    if (connection)
        queue->first = connection->next_waiting;
    return connection;
}

/* Others that have connections which wait, or had a turn just now. */
static unsigned count_active_others(const struct turn_share *share, uint64_t now_ns)
{
    unsigned count = 0;
    for (const struct turn_share *other = share->next; other != share; other = other->next)
        count += turn_share_waits(other) || now_ns - other->active_ns < TURN_SHARE_ACTIVE_NS;
    return count;
}

struct turn_share *turn_share_next(const struct turn_shares *shares, uint64_t now_ns,
                                   uint64_t *rest_ns)
{
    struct turn_share *share = shares->last;
    *rest_ns = UINT64_MAX;
    if (!share)
        return NULL;
    do {
        share = share->next;
        if (!turn_share_waits(share))
            continue;
        if (share->rests_until_ns <= now_ns || count_active_others(share, now_ns) == 0)
            return share;
        if (share->rests_until_ns - now_ns < *rest_ns)
            *rest_ns = share->rests_until_ns - now_ns;
    } while (share != shares->last);
    return NULL;
}

void turn_share_charge(struct turn_shares *shares, struct turn_share *share, uint64_t start_ns,
                       uint64_t end_ns)
{
    uint64_t used_ns = end_ns - start_ns;
    shares->last = share;
    share->active_ns = end_ns;
    share->rests_until_ns = 0;
    if (used_ns < TURN_SHARE_SHORT_NS || !turn_shares_are_several(shares))
        return;
    uint64_t rest_ns = used_ns * count_active_others(share, start_ns);
    share->rests_until_ns =
        end_ns + (rest_ns < TURN_SHARE_MAX_REST_NS ? rest_ns : TURN_SHARE_MAX_REST_NS);
}
