#include "bridges/kresp/bridge/bridge_thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "bridges/kresp/bridge/redis_connection.h"
#include "bridges/kresp/bridge/relay.h"
#include "bridges/kresp/bridge/user_queue.h"
#include "bridges/kresp/session/redis_batch.h"

#define MAX_EVENTS 256

/* Sockets that were given to the thread and that it has not taken over yet. */
#define MAX_GIVEN 64u

/* At its end a thread waits LINGER_MS for clients to read their last replies, and up to
 * STOP_AT_MOST_MS in all if the store takes its time to answer what was received. */
#define LINGER_MS       1000u
#define STOP_AT_MOST_MS 4000u

struct given_socket {
    int fd;
    struct redis_user *user;
};

/* What a round has for itself, since it may be paused and others run meanwhile. */
struct round_tools {
    struct redis_batch *batch; /* for the next round */
    struct thread_scripts scripts;
};

/* One thread for all but the system, which sees those of the relay. */
struct bridge_thread {
    struct redis_service *service;
    struct relay relay;
    int epoll_fd, wake_fd;
    _Atomic uint64_t connection_count;
    _Atomic uint64_t rounds;
    atomic_bool stopping;
    pthread_mutex_t lock; /* covers `given` */
    struct given_socket given[MAX_GIVEN];
    size_t given_count;
    /* Only the thread uses these: */
    struct round_tools tools[RELAY_RUNNERS];
    struct redis_connection *connections;
    struct user_queues queues;
    struct user_queue *queue; /* that has a round */
    uint64_t turn_ns;         /* monotonic: since when */
    bool is_over;             /* what is paused is to end */
    struct redis_mailbox mailbox;
    struct byte_buffer outgoing; /* messages of this round for other kresp */
    uint64_t stop_ms; /* monotonic: when the wait for clients ends; 0: the thread is not stopping */
    uint64_t stop_at_most_ms;
};

static struct round_tools *tools_of(struct bridge_thread *thread)
{
    return &thread->tools[thread->relay.holder->number];
}

/* The connection has something to do: it waits in its user's queue. */
static void activate(struct redis_connection *connection)
{
    if (connection->active)
        return;
    connection->active = true;
    user_queue_push(connection->queue, connection);
}

/* Watches for room in the socket only while a reply waits for it: the kernel reports room after
 * every reply that a client has read, which would wake the thread for nothing. */
static void set_room_interest(struct bridge_thread *thread, struct redis_connection *connection)
{
    bool wanted = !connection->writable && !connection->broken;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (wanted ? EPOLLOUT : 0),
                                .data.ptr = connection};
    if (connection->room_interest == wanted)
        return;
    if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) < 0) {
        log_warn("a connection cannot be watched: error %d", errno);
        connection->broken = true;
    }
    connection->room_interest = wanted;
}

/* Returns the monotonic time if users compete for the thread, else `alone_ns`: then time does not
 * matter. */
static uint64_t turn_time_ns(const struct bridge_thread *thread, uint64_t alone_ns)
{
    return user_queues_are_several(&thread->queues) ? clock_monotonic_ns() : alone_ns;
}

/* Connections that come and go ----------------------------------------------------------------- */

static void leave_queue(struct bridge_thread *thread, struct user_queue *queue)
{
    if (--queue->connections == 0)
        user_queues_purge(&thread->queues, clock_monotonic_ns());
}

/* Forgets which keys the client has read, for which its user rests: it may take a while. */
static void forget_tracking(const struct bridge_thread *thread, struct redis_session *session)
{
    uint64_t start_ns = turn_time_ns(thread, 0);
    key_tracker_stop(&session->tracker);
    uint64_t end_ns = turn_time_ns(thread, 0);
    if (end_ns - start_ns >= USER_SHORT_NS)
        redis_user_rest(session->user, end_ns, end_ns - start_ns);
}

static void drop(struct bridge_thread *thread, struct redis_connection *connection)
{
    if (connection->session.tracker.mode)
        forget_tracking(thread, &connection->session);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        thread->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    leave_queue(thread, connection->queue);
    redis_connection_close(connection);
    atomic_fetch_sub(&thread->connection_count, 1);
}

/* Gives up a socket because there is no memory for its connection. */
static void close_given_socket(struct bridge_thread *thread, const struct given_socket *given)
{
    close(given->fd);
    redis_user_leave(&thread->service->users, given->user);
    atomic_fetch_sub(&thread->connection_count, 1);
}

static void adopt(struct bridge_thread *thread, const struct given_socket *given)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    struct user_queue *queue = user_queue_of(&thread->queues, given->user);
    if (!queue) {
        close_given_socket(thread, given);
        return;
    }
    queue->connections++;
    struct redis_connection *connection =
        redis_connection_open(thread->service, given->fd, given->user);
    if (!connection) {
        leave_queue(thread, queue);
        close_given_socket(thread, given);
        return;
    }
    connection->queue = queue;
    connection->session.subscriber.inbox.mailbox = &thread->mailbox;
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

/* Messages have come for the client. */
static void take_mail(struct redis_inbox *inbox)
{
    struct redis_connection *connection = redis_connection_of(inbox);
    connection->has_mail = true;
    activate(connection);
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
    redis_channels_empty_mailbox(&thread->service->channels, &thread->mailbox, take_mail);
}

/* One round ------------------------------------------------------------------------------------ */

/* Returns how long to wait for events; UINT64_MAX: until there is one. */
static uint64_t wait_ns(const struct bridge_thread *thread)
{
    uint64_t rest_ns;
    if (user_queue_next(&thread->queues, turn_time_ns(thread, 0), &rest_ns))
        return 0;
    if (thread->stop_ms == 0)
        return rest_ns;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t stop_ns = now_ms < thread->stop_ms ? (thread->stop_ms - now_ms) * 1000000 : 0;
    return rest_ns < stop_ns ? rest_ns : stop_ns;
}

/* Waits as epoll_pwait2 does; where the kernel has none, in milliseconds. */
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
            continue; /* what comes from now on is not read */
        if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) && thread->stop_ms == 0)
            connection->readable = true;
        if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            connection->hung_up = true;
        if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
            connection->writable = true;
        activate(connection);
    }
}

/* Reads from the connection and plans the commands that have come. */
static void read_commands(struct bridge_thread *thread, struct redis_connection *connection)
{
    if (redis_connection_unwritten(connection) > 0)
        redis_connection_write(connection);
    if (connection->broken)
        return;
    redis_connection_read(connection);
    if (connection->has_more && !connection->broken && redis_connection_may_take(connection))
        connection->has_more = redis_batch_take(tools_of(thread)->batch, &connection->session);
}

/* Takes at least `at_least` connections of the queue, and further ones while the batch has room. */
static void take_some(struct bridge_thread *thread, struct connection_list *queue, size_t at_least,
                      struct connection_list *taken)
{
    const struct redis_batch *batch = tools_of(thread)->batch;
    for (size_t i = 0; queue->first && (i < at_least || !redis_batch_is_full(batch)); i++) {
        struct redis_connection *connection = connection_list_pop(queue);
        read_commands(thread, connection);
        connection_list_push(taken, connection);
    }
}

/* Takes connections of the queue for a batch. Small requests do not wait for large ones: of these,
 * each batch has one connection, if it has the time. */
static void take_connections(struct bridge_thread *thread, struct user_queue *queue)
{
    const struct redis_batch *batch = tools_of(thread)->batch;
    bool large_first = queue->large_is_due && queue->large.first;
    if (large_first)
        take_some(thread, &queue->large, 1, &queue->taken);
    take_some(thread, &queue->small, 0, &queue->taken);
    queue->large_is_due = !large_first && batch->is_spent;
    if (!large_first && !batch->is_spent)
        take_some(thread, &queue->large, 1, &queue->taken);
}

/* Answers what the queue has in its batch. False: the time has come before, and the rest waits for
 * the user's next turn. */
static bool answer_batch(struct bridge_thread *thread, struct user_queue *queue)
{
    struct round_tools *tools = tools_of(thread);
    struct redis_batch *batch = queue->batch ? queue->batch : tools->batch;
    while (!redis_batch_run(batch)) {
        struct redis_batch *next =
            queue->batch ? NULL : redis_batch_new(thread->service, &tools->scripts);
        if (next)
            tools->batch = next;
        if (next || queue->batch) {
            queue->batch = batch;
            return false;
        }
        redis_batch_begin(batch, UINT64_MAX); /* no memory to keep it for later */
    }
    redis_batch_free(queue->batch);
    queue->batch = NULL;
    return true;
}

/* The connection's commands were answered: writes the replies. */
static void write_replies(struct redis_connection *connection)
{
    redis_connection_release(connection);
    redis_connection_deliver(connection);
    redis_connection_write(connection);
}

/* The connection leaves the round: it waits for the next, or for its client, or is dropped. */
static void leave_round(struct bridge_thread *thread, struct redis_connection *connection)
{
    const struct redis_session *session = &connection->session;
    bool commands_wait = connection->has_more || session->unfinished;
    bool may_go_on = redis_connection_may_take(connection) && !session->is_waiting;
    bool has_more = ((commands_wait || connection->has_mail) && may_go_on) ||
                    redis_connection_may_read(connection);
    set_room_interest(thread, connection);
    connection->active = false;
    if (redis_connection_is_done(connection))
        drop(thread, connection);
    else if (has_more)
        activate(connection);
}

/* The user's turn begins, or goes on. */
static void begin_turn(struct bridge_thread *thread, struct user_queue *queue, uint64_t now_ns)
{
    struct redis_batch *batch = queue->batch ? queue->batch : tools_of(thread)->batch;
    redis_batch_begin(batch, now_ns + ROUND_NS);
    /* One that an earlier round has left may be from a thread whose scripts are paused. */
    redis_batch_set_scripts(batch, &tools_of(thread)->scripts);
    thread->queue = queue;
    thread->turn_ns = now_ns;
    atomic_fetch_add(&queue->user->rounds_running, 1);
}

static void run_round(struct bridge_thread *thread, struct user_queue *queue, uint64_t start_ns)
{
    begin_turn(thread, queue, start_ns);
    if (!queue->batch)
        take_connections(thread, queue);
    bool is_answered = answer_batch(thread, queue);
    atomic_fetch_sub(&queue->user->rounds_running, 1);
    if (byte_buffer_size(&thread->outgoing) > 0 || thread->outgoing.failed)
        channel_link_send(thread->service->link, &thread->outgoing);
    struct connection_list written = {0}, *taken = &queue->taken;
    struct redis_connection *connection;
    while (is_answered && (connection = connection_list_pop(taken))) {
        write_replies(connection);
        connection_list_push(&written, connection);
    }
    /* Its connections may be its last ones. */
    user_queue_charge(&thread->queues, queue, thread->turn_ns,
                      turn_time_ns(thread, thread->turn_ns));
    while ((connection = connection_list_pop(&written)))
        leave_round(thread, connection);
}

static bool give_way(void *context);

/* Makes what a round needs, if it is not there; false: no memory. */
static bool make_tools(struct bridge_thread *thread, struct round_tools *tools)
{
    tools->scripts.give_way = give_way;
    tools->scripts.context = thread;
    if (!tools->batch)
        tools->batch = redis_batch_new(thread->service, &tools->scripts);
    return tools->batch != NULL;
}

/* For a command that is under way: see thread_scripts. */
static bool give_way(void *context)
{
    struct bridge_thread *thread = context;
    struct user_queue *queue = thread->queue;
    struct round_tools *tools = tools_of(thread);
    uint64_t now_ns = clock_monotonic_ns(), now_ms = clock_monotonic_coarse_ms();
    if (thread->is_over || now_ns - thread->turn_ns < ROUND_NS)
        return !thread->is_over;
    const struct relay_runner *spare = relay_spare(&thread->relay);
    if (!spare || !make_tools(thread, &thread->tools[spare->number]))
        return true;
    atomic_fetch_sub(&queue->user->rounds_running, 1);
    user_queue_charge(&thread->queues, queue, thread->turn_ns, now_ns);
    queue->paused = thread->relay.holder;
    relay_pause(&thread->relay);
    queue->paused = NULL;
    tools->scripts.paused_ms += clock_monotonic_coarse_ms() - now_ms;
    begin_turn(thread, queue, clock_monotonic_ns());
    return !thread->is_over;
}

/* The end -------------------------------------------------------------------------------------- */

/* From now on clients have LINGER_MS to read their replies. */
static void linger(struct bridge_thread *thread)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + LINGER_MS;
    thread->stop_ms = until_ms < thread->stop_at_most_ms ? until_ms : thread->stop_at_most_ms;
}

static bool is_done(const struct bridge_thread *thread)
{
    uint64_t rest_ns;
    if (thread->stop_ms == 0)
        return false;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (now_ms >= thread->stop_at_most_ms)
        return true;
    if (user_queue_next(&thread->queues, turn_time_ns(thread, 0), &rest_ns) ||
        rest_ns != UINT64_MAX)
        return false;
    if (now_ms >= thread->stop_ms)
        return true;
    for (const struct redis_connection *connection = thread->connections; connection;
         connection = connection->next)
        if (redis_connection_unwritten(connection) > 0)
            return false;
    return true;
}

/* Has the thread begun to stop? What has come until now is answered before it ends. */
static void look_for_stop(struct bridge_thread *thread)
{
    if (thread->stop_ms > 0 || !atomic_load(&thread->stopping))
        return;
    adopt_given(thread);
    thread->stop_at_most_ms = clock_monotonic_coarse_ms() + STOP_AT_MOST_MS;
    linger(thread);
    for (struct redis_connection *connection = thread->connections; connection;
         connection = connection->next) {
        connection->readable = true;
        activate(connection);
    }
}

/* The loop of the relay. */
static struct relay_runner *run_bridge_thread(void *argument)
{
    struct bridge_thread *thread = argument;
    uint64_t rest_ns;
    while (!thread->is_over && !is_done(thread)) {
        take_events(thread);
        atomic_fetch_add_explicit(&thread->rounds, 1, memory_order_relaxed);
        look_for_stop(thread);
        uint64_t now_ns = clock_monotonic_ns();
        struct user_queue *queue = user_queue_next(&thread->queues, now_ns, &rest_ns);
        if (queue && queue->paused)
            return queue->paused;
        if (queue)
            run_round(thread, queue, now_ns);
        if (queue && thread->stop_ms > 0)
            linger(thread);
    }
    thread->is_over = true;
    const struct user_queue *paused = user_queues_paused(&thread->queues);
    if (paused)
        return paused->paused;
    user_queues_forget_batches(&thread->queues);
    while (thread->connections)
        drop(thread, thread->connections);
    user_queues_purge(&thread->queues, 0);
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
    for (unsigned i = 0; i < RELAY_RUNNERS; i++) {
        redis_batch_free(thread->tools[i].batch);
        if (thread->tools[i].scripts.vm)
            thread->tools[i].scripts.free(thread->tools[i].scripts.vm);
    }
    free(thread);
}

static void wake_for_mail(void *thread)
{
    bridge_thread_wake(thread);
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
    struct bridge_thread *started = calloc(1, sizeof *started);
    if (!started)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    started->service = service;
    started->epoll_fd = started->wake_fd = -1;
    pthread_mutex_init(&started->lock, NULL);
    started->relay.loop = run_bridge_thread;
    started->relay.context = started;
    snprintf(started->relay.name, sizeof started->relay.name, "kresp/%u", number);
    started->mailbox = (struct redis_mailbox){.outgoing = service->link ? &started->outgoing : NULL,
                                              .wake = wake_for_mail,
                                              .context = started};
    enum kv_status status = make_tools(started, &started->tools[0])
                                ? open_descriptors(started, error)
                                : kv_error_set(error, KV_NO_MEMORY, "out of memory");
    if (status == KV_OK)
        status = relay_start(&started->relay, error);
    if (status != KV_OK) {
        release(started);
        return status;
    }
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
    if (!relay_join(&thread->relay, timeout_ms))
        return false;
    release(thread);
    return true;
}
