#include "bridges/kresp/bridge/user_queue.h"

#include <stdlib.h>

#include "bridges/kresp/bridge/redis_connection.h"

struct user_queue *user_queue_of(struct user_queues *queues, struct redis_user *user)
{
    struct user_queue *queue = queues->last;
    while (queue && queue->user != user)
        queue = queue->next != queues->last ? queue->next : NULL;
    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->user = user;
    queue->next = queues->last ? queues->last->next : queue;
    if (queues->last)
        queues->last->next = queue;
    queues->last = queue;
    return queue;
}

void user_queue_remove(struct user_queues *queues, struct user_queue *queue)
{
    struct user_queue *previous = queue;
    while (previous->next != queue)
        previous = previous->next;
    previous->next = queue->next;
    if (queues->last == queue)
        queues->last = previous != queue ? previous : NULL;
    free(queue);
}

/* Returns true if the connection reads large values, or has a pipeline that takes several
 * batches. */
static bool is_large(const struct redis_connection *connection)
{
    const struct redis_session *session = &connection->session;
    return connection->has_more || session->unfinished ||
           session->value_bytes >= BATCH_SESSION_BYTES / 4;
}

void connection_list_push(struct connection_list *queue, struct redis_connection *connection)
{
    connection->next_waiting = NULL;
    if (queue->first)
        queue->last->next_waiting = connection;
    else
        queue->first = connection;
    queue->last = connection;
}

void user_queue_push(struct user_queue *queue, struct redis_connection *connection)
{
    connection_list_push(is_large(connection) ? &queue->large : &queue->small, connection);
}

struct redis_connection *connection_list_pop(struct connection_list *queue)
{
    struct redis_connection *connection = queue->first;
    if (connection)
        queue->first = connection->next_waiting;
    return connection;
}

/* Counts the other users whose connections wait, or who had a batch just now. */
static unsigned count_active_others(const struct user_queue *queue, uint64_t now_ns)
{
    unsigned count = 0;
    for (const struct user_queue *other = queue->next; other != queue; other = other->next)
        count += user_queue_waits(other) || now_ns - other->active_ns < USER_ACTIVE_NS;
    return count;
}

struct user_queue *user_queue_next(const struct user_queues *queues, uint64_t now_ns,
                                   uint64_t *rest_ns)
{
    struct user_queue *queue = queues->last;
    *rest_ns = UINT64_MAX;
    if (!queue)
        return NULL;
    do {
        queue = queue->next;
        if (!user_queue_waits(queue))
            continue;
        if (queue->rests_until_ns <= now_ns || count_active_others(queue, now_ns) == 0)
            return queue;
        if (queue->rests_until_ns - now_ns < *rest_ns)
            *rest_ns = queue->rests_until_ns - now_ns;
    } while (queue != queues->last);
    return NULL;
}

void user_queue_charge(struct user_queues *queues, struct user_queue *queue, uint64_t start_ns,
                       uint64_t end_ns)
{
    uint64_t used_ns = end_ns - start_ns;
    queues->last = queue;
    queue->active_ns = end_ns;
    queue->rests_until_ns = 0;
    if (used_ns < USER_SHORT_NS || !user_queues_are_several(queues))
        return;
    uint64_t rest_ns = used_ns * count_active_others(queue, start_ns);
    queue->rests_until_ns = end_ns + (rest_ns < USER_MAX_REST_NS ? rest_ns : USER_MAX_REST_NS);
}
