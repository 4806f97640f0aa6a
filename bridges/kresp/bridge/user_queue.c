#include "bridges/kresp/bridge/user_queue.h"

#include <stdlib.h>

#include "bridges/kresp/bridge/redis_connection.h"
#include "bridges/kresp/session/redis_batch.h"

struct user_queue *user_queue_of(struct user_queues *queues, struct redis_user *user)
{
    struct user_queue *queue = queues->last;
    while (queue && queue->uid != user->uid)
        queue = queue->next != queues->last ? queue->next : NULL;
    if (!queue) {
        queue = calloc(1, sizeof *queue);
        if (!queue)
            return NULL;
        queue->uid = user->uid;
        queue->next = queues->last ? queues->last->next : queue;
        if (queues->last)
            queues->last->next = queue;
        queues->last = queue;
    }
    queue->user = user;
    return queue;
}

void user_queues_purge(struct user_queues *queues, uint64_t now_ns)
{
    struct user_queue *previous = queues->last, *last = queues->last;
    for (bool ends = !last; !ends;) {
        struct user_queue *queue = previous->next;
        ends = queue == last;
        if (queue->connections > 0 || (now_ns > 0 && now_ns - queue->active_ns < USER_KEPT_NS)) {
            previous = queue;
            continue;
        }
        previous->next = queue->next;
        if (queue == last)
            queues->last = previous != queue ? previous : NULL;
        free(queue);
    }
}

void user_queues_forget_batches(struct user_queues *queues)
{
    struct user_queue *queue = queues->last;
    do {
        if (!queue)
            return;
        redis_batch_free(queue->batch);
        queue->batch = NULL;
        queue = queue->next;
    } while (queue != queues->last);
}

struct user_queue *user_queues_paused(const struct user_queues *queues)
{
    struct user_queue *queue = queues->last;
    while (queue && !queue->paused)
        queue = queue->next != queues->last ? queue->next : NULL;
    return queue;
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

static bool user_queue_rests(const struct user_queue *queue, uint64_t now_ns)
{
    return queue->connections > 0 && redis_user_rest_ns(queue->user, now_ns) > 0;
}

/* Returns true if the user's connections wait, or it had a round in the time before now_ns. */
static bool is_active(const struct user_queue *queue, uint64_t now_ns, uint64_t time_ns)
{
    return user_queue_waits(queue) || now_ns - queue->active_ns < time_ns;
}

static bool is_other_active(const struct user_queue *queue, uint64_t now_ns)
{
    const struct user_queue *other = queue->next;
    while (other != queue && !is_active(other, now_ns, USER_KEPT_NS))
        other = other->next;
    return other != queue;
}

/* Returns how long the user must not have a round where others are active; 0: it may. */
static uint64_t time_to_rest_ns(const struct redis_user *user, uint64_t now_ns)
{
    uint64_t left_ns = redis_user_rest_ns(user, now_ns);
    bool has_rested = now_ns - atomic_load(&user->rests_until_ns) < USER_KEPT_NS;
    return left_ns == 0 && has_rested && atomic_load(&user->rounds_running) > 0 ? USER_LOOK_NS
                                                                                : left_ns;
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
        uint64_t left_ns = time_to_rest_ns(queue->user, now_ns);
        if (left_ns == 0 || !is_other_active(queue, now_ns))
            return queue;
        if (left_ns < *rest_ns)
            *rest_ns = left_ns;
    } while (queue != queues->last);
    return NULL;
}

void user_queue_charge(struct user_queues *queues, struct user_queue *queue, uint64_t start_ns,
                       uint64_t end_ns)
{
    uint64_t used_ns = end_ns - start_ns, rest_ns = 0;
    uint64_t time_ns = used_ns > USER_ACTIVE_NS ? used_ns : USER_ACTIVE_NS;
    queues->last = queue;
    queue->active_ns = end_ns;
    if (used_ns < USER_SHORT_NS)
        return;
    for (const struct user_queue *other = queue->next; other != queue; other = other->next)
        if (is_active(other, start_ns, time_ns) && !user_queue_rests(other, end_ns))
            rest_ns += used_ns;
    if (rest_ns > 0)
        redis_user_rest(queue->user, end_ns, rest_ns);
}
