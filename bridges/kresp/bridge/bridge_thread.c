#include "bridges/kresp/bridge/bridge_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "bridges/kresp/bridge/redis_connection.h"
#include "bridges/kresp/bridge/turn_share.h"
#include "bridges/kresp/session/redis_turn.h"

#define MAX_EVENTS 256

/* Sockets that were given and not yet taken over. */
#define MAX_GIVEN 64u

/* When it is to stop: so long it waits for clients to read their last replies; and so long in all,
 * where the store takes its time to answer what was received. */
#define LINGER_MS       1000u
#define STOP_AT_MOST_MS 4000u

struct given_socket {
    int fd;
    struct redis_user *user;
};

struct bridge_thread {
    struct redis_service *service;
    pthread_t handle;
    int epoll_fd, wake_fd;
    _Atomic uint64_t connection_count;
    _Atomic uint64_t rounds;
    atomic_bool stopping;
    pthread_mutex_t lock; /* of given */
    struct given_socket given[MAX_GIVEN];
    size_t given_count;
    /* Of the thread alone: */
    struct redis_turn turn;
    struct redis_connection *connections;
    struct turn_shares shares;
    uint64_t stop_ms; /* monotonic: when clients have had time to read; 0: it is not to stop */
    uint64_t stop_at_most_ms;
};

/* There is something to do for it. */
static void activate(struct redis_connection *connection)
{
    if (connection->active)
        return;
    connection->active = true;
    turn_share_push(connection->share, connection);
}

/* Watches for room in the socket only while a reply waits for it: the kernel tells of room after
 * every reply that a client has read, which would wake the thread for nothing. */
static void watch_for_room(struct bridge_thread *thread, struct redis_connection *connection)
{
    bool wanted = !connection->writable && !connection->broken;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (wanted ? EPOLLOUT : 0),
                                .data.ptr = connection};
    if (connection->watched_for_room == wanted)
        return;
    if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) < 0) {
        log_warn("a connection cannot be watched: error %d", errno);
        connection->broken = true;
    }
    connection->watched_for_room = wanted;
}

/* Connections that come and go ----------------------------------------------------------------- */

static void leave_share(struct bridge_thread *thread, struct turn_share *share)
{
    if (--share->connections == 0)
        turn_share_remove(&thread->shares, share);
}

static void drop(struct bridge_thread *thread, struct redis_connection *connection)
{
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        thread->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    leave_share(thread, connection->share);
    redis_connection_close(connection);
    atomic_fetch_sub(&thread->connection_count, 1);
}

/* There is no memory for a connection. */
static void close_given_socket(struct bridge_thread *thread, const struct given_socket *given)
{
    close(given->fd);
    redis_user_leave(&thread->service->users, given->user);
    atomic_fetch_sub(&thread->connection_count, 1);
}

static void adopt(struct bridge_thread *thread, const struct given_socket *given)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    struct turn_share *share = turn_share_of(&thread->shares, given->user);
    if (!share) {
        close_given_socket(thread, given);
        return;
    }
    share->connections++;
    struct redis_connection *connection =
        redis_connection_open(thread->service, given->fd, given->user);
    if (!connection) {
        leave_share(thread, share);
        close_given_socket(thread, given);
        return;
    }
    connection->share = share;
    connection->next = thread->connections;
    if (thread->connections)
        thread->connections->previous = connection;
    thread->connections = connection;
    event.data.ptr = connection;
    if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, given->fd, &event) < 0) {
        log_warn("a connection cannot be watched: error %d", errno);
        drop(thread, connection);
    }
}

static void adopt_given(struct bridge_thread *thread)
{
    uint64_t wakes;
    struct given_socket given[MAX_GIVEN];
    if (read(thread->wake_fd, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
        log_warn("the wake-up of a thread cannot be read: error %d", errno);
    pthread_mutex_lock(&thread->lock);
    size_t count = thread->given_count;
    for (size_t i = 0; i < count; i++)
        given[i] = thread->given[i];
    thread->given_count = 0;
    pthread_mutex_unlock(&thread->lock);
    for (size_t i = 0; i < count; i++)
        adopt(thread, &given[i]);
}

/* One round ------------------------------------------------------------------------------------ */

/* The monotonic time, where it matters whose turn it is. */
static uint64_t turn_time_ns(const struct bridge_thread *thread)
{
    return turn_shares_are_several(&thread->shares) ? clock_monotonic_ns() : 0;
}

/* How long to wait for events; UINT64_MAX: until there is one. */
static uint64_t wait_ns(const struct bridge_thread *thread)
{
    uint64_t rest_ns;
    if (turn_share_next(&thread->shares, turn_time_ns(thread), &rest_ns))
        return 0;
    if (thread->stop_ms == 0)
        return rest_ns;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t stop_ns = now_ms < thread->stop_ms ? (thread->stop_ms - now_ms) * 1000000 : 0;
    return rest_ns < stop_ns ? rest_ns : stop_ns;
}

/* epoll_pwait2, and where the kernel has none, milliseconds. */
static int wait_for_events(const struct bridge_thread *thread, struct epoll_event *events,
                           uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                               .tv_nsec = (long)(timeout_ns % 1000000000)};
    if (timeout_ns == 0 || timeout_ns == UINT64_MAX)
        return epoll_wait(thread->epoll_fd, events, MAX_EVENTS, timeout_ns == 0 ? 0 : -1);
    int count = epoll_pwait2(thread->epoll_fd, events, MAX_EVENTS, &timeout, NULL);
    if (count >= 0 || errno == EINTR)
        return count;
    return epoll_wait(thread->epoll_fd, events, MAX_EVENTS, (int)(timeout_ns / 1000000 + 1));
}

static void take_events(struct bridge_thread *thread)
{
    struct epoll_event events[MAX_EVENTS];
    int count = wait_for_events(thread, events, wait_ns(thread));
    for (int i = 0; i < count; i++) {
        struct redis_connection *connection = events[i].data.ptr;
        if (!connection) {
            adopt_given(thread);
            continue;
        }
        if (thread->stop_ms > 0 && events[i].events == EPOLLIN)
            continue; /* what comes now is not read any more */
        if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) && thread->stop_ms == 0)
            connection->readable = true;
        if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            connection->hung_up = true;
        if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
            connection->writable = true;
        activate(connection);
    }
}

/* Reads, and plans what has come. */
static void read_commands(struct bridge_thread *thread, struct redis_connection *connection)
{
    if (redis_connection_unwritten(connection) > 0)
        redis_connection_write(connection);
    if (connection->broken)
        return;
    redis_connection_read(connection);
    if (connection->has_more && !connection->broken && redis_connection_may_take(connection))
        connection->has_more = redis_turn_take(&thread->turn, &connection->session);
}

/* Writes the replies; true: it has more to do in the next round. */
static bool write_replies(struct redis_connection *connection)
{
    redis_connection_release(connection);
    redis_connection_write(connection);
    bool commands_wait = connection->has_more || connection->session.unfinished;
    return (commands_wait && redis_connection_may_take(connection)) ||
           redis_connection_may_read(connection);
}

/* Takes connections of the queue, at least so many of them, and further ones while the turn has
 * room. */
static void take_some(struct bridge_thread *thread, struct turn_queue *queue, size_t at_least,
                      struct turn_queue *taken)
{
    for (size_t i = 0; queue->first && (i < at_least || !redis_turn_is_full(&thread->turn)); i++) {
        struct redis_connection *connection = turn_queue_pop(queue);
        read_commands(thread, connection);
        turn_queue_push(taken, connection);
    }
}

/* A turn of one user's connections, if it is anybody's; true: it was. Small requests do not wait
 * for large ones, of which each turn has one. */
static bool run_round(struct bridge_thread *thread)
{
    uint64_t rest_ns, start_ns = turn_time_ns(thread);
    struct turn_share *share = turn_share_next(&thread->shares, start_ns, &rest_ns);
    if (!share)
        return false;
    struct turn_queue taken = {0};
    take_some(thread, &share->small, 0, &taken);
    take_some(thread, &share->large, 1, &taken);
    redis_turn_run(&thread->turn);
    share->connections++; /* it stays while its connections go */
    struct redis_connection *connection;
    while ((connection = turn_queue_pop(&taken))) {
        bool has_more = write_replies(connection);
        watch_for_room(thread, connection);
        connection->active = false;
        if (redis_connection_is_done(connection))
            drop(thread, connection);
        else if (has_more)
            activate(connection);
    }
    turn_share_charge(&thread->shares, share, start_ns, turn_time_ns(thread));
    leave_share(thread, share);
    return true;
}

/* The end -------------------------------------------------------------------------------------- */

/* Clients have time to read, from now on. */
static void linger(struct bridge_thread *thread)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + LINGER_MS;
    thread->stop_ms = until_ms < thread->stop_at_most_ms ? until_ms : thread->stop_at_most_ms;
}

/* What has come until now is answered. */
static void begin_to_stop(struct bridge_thread *thread)
{
    adopt_given(thread);
    thread->stop_at_most_ms = clock_monotonic_coarse_ms() + STOP_AT_MOST_MS;
    linger(thread);
    for (struct redis_connection *connection = thread->connections; connection;
         connection = connection->next) {
        connection->readable = true;
        activate(connection);
    }
}

static bool is_done(const struct bridge_thread *thread)
{
    uint64_t rest_ns;
    if (thread->stop_ms == 0)
        return false;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (now_ms >= thread->stop_at_most_ms)
        return true;
    if (turn_share_next(&thread->shares, turn_time_ns(thread), &rest_ns) || rest_ns != UINT64_MAX)
        return false;
    if (now_ms >= thread->stop_ms)
        return true;
    for (const struct redis_connection *connection = thread->connections; connection;
         connection = connection->next)
        if (redis_connection_unwritten(connection) > 0)
            return false;
    return true;
}

static void *run_bridge_thread(void *argument)
{
    struct bridge_thread *thread = argument;
    while (!is_done(thread)) {
        take_events(thread);
        atomic_fetch_add_explicit(&thread->rounds, 1, memory_order_relaxed);
        if (thread->stop_ms == 0 && atomic_load(&thread->stopping))
            begin_to_stop(thread);
        if (run_round(thread) && thread->stop_ms > 0)
            linger(thread);
    }
    while (thread->connections)
        drop(thread, thread->connections);
    return NULL;
}

/* From other threads --------------------------------------------------------------------------- */

static void release(struct bridge_thread *thread)
{
    if (thread->epoll_fd >= 0)
        close(thread->epoll_fd);
    if (thread->wake_fd >= 0)
        close(thread->wake_fd);
    pthread_mutex_destroy(&thread->lock);
    redis_turn_free(&thread->turn);
    free(thread);
}

static enum kv_status open_descriptors(struct bridge_thread *thread, struct kv_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->epoll_fd < 0 || thread->wake_fd < 0 ||
        epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->wake_fd, &event) < 0)
        return kv_error_set_errno(error, "cannot watch sockets");
    return KV_OK;
}

enum kv_status bridge_thread_start(struct redis_service *service, unsigned number,
                                   struct bridge_thread **thread, struct kv_error *error)
{
    char name[16];
    struct bridge_thread *started = calloc(1, sizeof *started);
    if (!started)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    started->service = service;
    started->epoll_fd = started->wake_fd = -1;
    pthread_mutex_init(&started->lock, NULL);
    redis_turn_init(&started->turn, service);
    enum kv_status status = open_descriptors(started, error);
    if (status == KV_OK) {
        int error_number = pthread_create(&started->handle, NULL, run_bridge_thread, started);
        if (error_number != 0)
            status = kv_error_set_no_thread(error, error_number, "cannot start a thread");
    }
    if (status != KV_OK) {
        release(started);
        return status;
    }
    snprintf(name, sizeof name, "kresp/%u", number);
    pthread_setname_np(started->handle, name);
    *thread = started;
    return KV_OK;
}

uint64_t bridge_thread_rounds(const struct bridge_thread *thread)
{
    return atomic_load_explicit(&thread->rounds, memory_order_relaxed);
}

uint64_t bridge_thread_connections(const struct bridge_thread *thread)
{
    return atomic_load_explicit(&thread->connection_count, memory_order_relaxed);
}

void bridge_thread_wake(struct bridge_thread *thread)
{
    const uint64_t one = 1;
    if (write(thread->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_warn("a thread cannot be woken: error %d", errno);
}

void bridge_thread_give(struct bridge_thread *thread, int fd, struct redis_user *user)
{
    atomic_fetch_add(&thread->connection_count, 1);
    for (;;) {
        pthread_mutex_lock(&thread->lock);
        bool given = thread->given_count < MAX_GIVEN;
        if (given)
            thread->given[thread->given_count++] = (struct given_socket){fd, user};
        pthread_mutex_unlock(&thread->lock);
        if (given)
            break;
        clock_sleep_ms(1);
    }
    bridge_thread_wake(thread);
}

void bridge_thread_stop(struct bridge_thread *thread)
{
    atomic_store(&thread->stopping, true);
    bridge_thread_wake(thread);
}

bool bridge_thread_join(struct bridge_thread *thread, uint64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (pthread_timedjoin_np(thread->handle, NULL, &until) != 0)
        return false;
    release(thread);
    return true;
}
