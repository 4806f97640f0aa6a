#include "serverk/dispatch/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "serverk/dispatch/steward.h"
#include "serverk/dispatch/worker.h"
#include "wire/queue.h"

/* Interrupts a blocking receive when the pool stops. None of those that control takes: a worker
 * that has it open would take it away from there. */
#define WAKE_SIGNAL SIGUSR2

struct pool_worker {
    struct pool *pool;
    struct worker worker;
    pthread_t thread;
    bool started;
    _Atomic bool ended;
};

struct pool {
    const struct service *service;
    struct pool_feed feed;
    unsigned count;
    int stop_event;
    int shared_epoll;        /* LANES_AUTO: all lanes in use; else -1 */
    struct steward *steward; /* NULL unless workers park */
    struct farewell_pulse *steward_pulse;
    _Atomic bool stopping;
    _Atomic bool failed;
    pthread_mutex_t starting; /* held until all threads are there: none serves before */
    struct pool_worker workers[];
};

/* Threads -------------------------------------------------------------------------------------- */

static void *worker_main(void *argument)
{
    struct pool_worker *self = argument;
    pthread_mutex_lock(&self->pool->starting);
    pthread_mutex_unlock(&self->pool->starting);
    if (self->worker.receiver.blocking) {
        sigset_t wake;
        sigemptyset(&wake);
        sigaddset(&wake, WAKE_SIGNAL);
        pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
    }
    if (!worker_run(&self->worker)) {
        log_error("receiving from a request queue failed: %s; stopping", strerror(errno));
        atomic_store(&self->pool->failed, true);
        kill(getpid(), SIGTERM);
    }
    if (self->pool->feed.finish)
        self->pool->feed.finish(self->pool->feed.context);
    atomic_store(&self->ended, true);
    return NULL;
}

static void ignore_wake(int signal_number)
{
    (void)signal_number;
}

static enum kv_status start_pool_threads(struct pool *pool, struct kv_error *error)
{
    struct sigaction action = {.sa_handler = ignore_wake}; /* no SA_RESTART: it is to interrupt */
    sigaction(WAKE_SIGNAL, &action, NULL);
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard */
    sigdelset(&all, SIGSYS); /* syscall_filter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = 0;
    for (unsigned i = 0; i < pool->count && result == 0; i++) {
        result = pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]);
        pool->workers[i].started = result == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result == 0)
        return KV_OK;
    return kv_error_set_no_thread(error, result, "cannot start %u worker threads (-w)",
                                  pool->count);
}

/* Queues --------------------------------------------------------------------------------------- */

#define ALL_QUEUES ((1u << LANE_PLAN_MAX_QUEUES) - 1)

/* The queues (as bits) that worker number `worker` serves. */
static uint32_t queues_of(const struct pool *pool, unsigned worker)
{
    unsigned queues = lanes_queue_count(pool->service->lanes);
    if (pool->service->options->lanes == LANES_AUTO)
        return ALL_QUEUES;
    if (pool->count >= queues)
        return 1u << worker % queues;
    uint32_t bits = 0;
    for (unsigned queue = worker; queue < queues; queue += pool->count)
        bits |= 1u << queue;
    return bits;
}

static unsigned receivers_of(const struct pool *pool, uint32_t queues)
{
    unsigned receivers = 0;
    for (unsigned i = 0; i < pool->count; i++)
        receivers += (queues_of(pool, i) & queues) != 0;
    return receivers;
}

/* A farewell_nudge. */
static void interrupt_receive(void *context, unsigned receiver)
{
    const struct pool *pool = context;
    KV_ASSERT(receiver < pool->count);
    if (pool->workers[receiver].worker.receiver.blocking)
        pthread_kill(pool->workers[receiver].thread, WAKE_SIGNAL);
}

static int add_to_epoll(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Creates a set that has the stop event. -1: errno. */
static int create_epoll(const struct pool *pool)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll >= 0 && add_to_epoll(epoll, pool->stop_event) != 0) {
        close(epoll);
        return -1;
    }
    return epoll;
}

/* A lanes_listener: sessions may send to the lane from now on, or it is another queue. */
static void watch_lane(void *context, unsigned queue)
{
    const struct pool *pool = context;
    int fd = (int)lanes_queue(pool->service->lanes, queue);
    if (pool->shared_epoll >= 0)
        add_to_epoll(pool->shared_epoll, fd);
    for (unsigned i = 0; i < pool->count && pool->shared_epoll < 0; i++) {
        const struct receiver *receiver = &pool->workers[i].worker.receiver;
        if ((receiver->queues >> queue & 1) == 0)
            continue;
        if (receiver->blocking)
            interrupt_receive(context, i);
        else
            add_to_epoll(receiver->sleep_epoll, fd);
    }
}

/* Lanes that no session has been given are left out: nobody polls them, so a message there must not
 * wake anybody either. */
static int create_shared_epoll(struct pool *pool)
{
    struct lanes *lanes = pool->service->lanes;
    pool->shared_epoll = create_epoll(pool);
    if (pool->shared_epoll < 0)
        return -1;
    if (pool->service->aside && add_to_epoll(pool->shared_epoll, pool->service->aside->event) != 0)
        return -1;
    for (unsigned queue = 0; queue < LANE_PLAN_MAX_QUEUES; queue++)
        if ((served_lanes_set(lanes_served(lanes)) >> queue & 1) != 0 &&
            add_to_epoll(pool->shared_epoll, (int)lanes_queue(lanes, queue)) != 0)
            return -1;
    return 0;
}

static int create_own_epoll(const struct pool *pool, uint32_t queues)
{
    int epoll = create_epoll(pool);
    for (unsigned queue = 0; epoll >= 0 && queue < lanes_queue_count(pool->service->lanes); queue++)
        if ((queues >> queue & 1) &&
            add_to_epoll(epoll, (int)lanes_queue(pool->service->lanes, queue)) != 0) {
            close(epoll);
            return -1;
        }
    return epoll;
}

static enum kv_status set_up_receiver(struct pool *pool, unsigned number, struct kv_error *error)
{
    const struct service *service = pool->service;
    struct worker *worker = &pool->workers[number].worker;
    struct receiver *receiver = &worker->receiver;
    uint32_t queues = queues_of(pool, number);
    bool automatic = service->options->lanes == LANES_AUTO;
    KV_ASSERT(queues != 0); /* a worker without a queue would never have a message */
    worker->receivers = receivers_of(pool, queues);
    worker->handle = pool->feed.handle;
    worker->handle_context = pool->feed.context;
    *receiver = (struct receiver){.lanes = service->lanes,
                                  .served = lanes_served(service->lanes),
                                  .statistics = worker->statistics,
                                  .buffer_bytes = lanes_message_bytes(service->lanes),
                                  .queues = queues,
                                  .current = (unsigned)__builtin_ctz(queues),
                                  .blocking = !automatic && worker->receivers > 1,
                                  .sleep_epoll = -1,
                                  .shares = automatic ? service->shares : NULL,
                                  .stop_event = pool->stop_event,
                                  .sessions = service->sessions,
                                  .pulse = farewells_pulse(service->farewells, number, queues),
                                  .order = service->order,
                                  .aside = service->aside,
                                  .wants_priority = service->order || service->options->nice,
                                  .stopping = &pool->stopping};
    if (service->parking)
        receiver->place = parking_place(service->parking, number, &receiver->pulse->beat);
    struct wire_spin spin = service->options->spin;
    wire_waiter_init(&receiver->waiter, service->store ? spin : wire_spin_for_network(spin));
    if (service->options->nice)
        nice_init(&worker->nice);
    receiver->buffer = wire_queue_buffer(receiver->buffer_bytes);
    if (!receiver->buffer)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory for %u workers", pool->count);
    if (receiver->blocking) {
        lanes_set_blocking(service->lanes, receiver->current, true);
        return KV_OK;
    }
    receiver->sleep_epoll = automatic ? pool->shared_epoll : create_own_epoll(pool, queues);
    if (receiver->sleep_epoll < 0)
        return kv_error_set_errno(error, "cannot watch the request queues");
    return KV_OK;
}

/* Life ----------------------------------------------------------------------------------------- */

static enum kv_status set_up_workers(struct pool *pool, struct kv_error *error)
{
    const struct service *service = pool->service;
    for (unsigned i = 0; i < pool->count; i++) {
        pool->workers[i].pool = pool;
        if (!worker_init(&pool->workers[i].worker, service, &service->statistics[i]))
            return kv_error_set(
                error, KV_NO_MEMORY,
                "out of memory for %u workers (-w): each reserves address space "
                "for three of the largest values (--max-value); ulimit -v bounds it",
                pool->count);
        enum kv_status status = set_up_receiver(pool, i, error);
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}

/* The steward receives as a worker does that owns nothing that workers share, of all tenants: one
 * whose messages keep all workers rests. */
static enum kv_status start_steward(struct pool *pool, struct kv_error *error)
{
    const struct service *service = pool->service;
    struct receiver receiver = {.lanes = service->lanes,
                                .served = lanes_served(service->lanes),
                                .buffer_bytes = lanes_message_bytes(service->lanes),
                                .queues = ALL_QUEUES,
                                .sleep_epoll = -1,
                                .stop_event = pool->stop_event,
                                .sessions = service->sessions,
                                .pulse = pool->steward_pulse,
                                .stopping = &pool->stopping};
    return steward_start(service, &service->statistics[pool->count], &receiver, &pool->steward,
                         error);
}

enum kv_status pool_start(const struct service *service, struct pool **result,
                          struct kv_error *error)
{
    const struct pool_feed *feed = service->feed;
    const struct server_options *options = service->options;
    unsigned count = dispatch_model_receivers(options->dispatch, options->workers);
    struct pool *pool = calloc(1, sizeof *pool + count * sizeof pool->workers[0]);
    if (!pool) {
        if (feed->free)
            feed->free(feed->context);
        return kv_error_set(error, KV_NO_MEMORY, "out of memory for %u workers (-w)", count);
    }
    pool->service = service;
    pool->feed = *feed;
    pool->count = count;
    pool->shared_epoll = -1;
    pthread_mutex_init(&pool->starting, NULL);
    for (unsigned i = 0; i < count; i++)
        pool->workers[i].worker.receiver.sleep_epoll = -1;
    pool->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum kv_status status = KV_OK;
    if (pool->stop_event < 0 ||
        (service->options->lanes == LANES_AUTO && create_shared_epoll(pool) != 0))
        status = kv_error_set_errno(error, "cannot watch the request queues");
    if (status == KV_OK)
        status = set_up_workers(pool, error);
    if (status == KV_OK && service->parking) /* before a worker looks at the pulses of others */
        pool->steward_pulse = farewells_pulse(service->farewells, count, ALL_QUEUES);
    lanes_set_listener(service->lanes, watch_lane, pool);
    pthread_mutex_lock(&pool->starting);
    if (status == KV_OK)
        status = start_pool_threads(pool, error);
    if (status == KV_OK && service->parking)
        status = start_steward(pool, error);
    atomic_store(&pool->stopping, status != KV_OK);
    pthread_mutex_unlock(&pool->starting);
    if (status != KV_OK) {
        pool_stop(pool);
        pool_free(pool);
        return status;
    }
    farewells_set_nudge(service->farewells, interrupt_receive, pool);
    *result = pool;
    return KV_OK;
}

void pool_stop(struct pool *pool)
{
    atomic_store(&pool->stopping, true);
    if (pool->stop_event >= 0)
        eventfd_write(pool->stop_event, 1);
    if (pool->service->parking)
        parking_stop(pool->service->parking);
    steward_stop(pool->steward);
    pool->steward = NULL;
    for (unsigned i = 0; i < pool->count; i++) {
        struct pool_worker *worker = &pool->workers[i];
        if (!worker->started)
            continue;
        /* A signal that comes just before the worker blocks is lost: so it is repeated. */
        while (worker->worker.receiver.blocking && !atomic_load(&worker->ended)) {
            pthread_kill(worker->thread, WAKE_SIGNAL);
            clock_sleep_ms(1);
        }
        pthread_join(worker->thread, NULL);
        worker->started = false;
    }
}

void pool_drain(struct pool *pool)
{
    struct lanes *lanes = pool->service->lanes;
    struct worker *worker = &pool->workers[0].worker;
    size_t taken;
    for (unsigned i = 0; i < pool->count; i++)
        KV_ASSERT(!pool->workers[i].started); /* this thread uses what is a worker's */
    worker->nice.on = false; /* it is that of the worker's thread, not of this one */
    while ((taken = receiver_take_aside(&worker->receiver)) > 0)
        worker_handle(worker, taken);
    struct message_order *order = worker->receiver.order;
    while (order && (taken = order->take(order, &worker->receiver)) > 0)
        worker_handle(worker, taken);
    for (unsigned queue = 0; queue < LANE_PLAN_MAX_QUEUES; queue++) {
        if ((served_lanes_set(lanes_served(lanes)) >> queue & 1) == 0)
            continue;
        worker->receiver.current = queue;
        lanes_set_blocking(lanes, queue, false);
        struct mq_attr attributes;
        if (mq_getattr(lanes_queue(lanes, queue), &attributes) != 0)
            continue;
        for (long i = 0; i < attributes.mq_curmsgs; i++) {
            ssize_t size = mq_receive(lanes_queue(lanes, queue), (char *)worker->receiver.buffer,
                                      worker->receiver.buffer_bytes, NULL);
            if (size > 0)
                worker_handle(worker, (size_t)size);
        }
    }
}

bool pool_failed(const struct pool *pool)
{
    return atomic_load(&pool->failed);
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    for (unsigned i = 0; i < pool->count; i++) {
        struct worker *worker = &pool->workers[i].worker;
        int epoll = worker->receiver.sleep_epoll;
        if (epoll >= 0 && epoll != pool->shared_epoll)
            close(epoll);
        free(worker->receiver.buffer);
        worker_free(worker);
    }
    if (pool->shared_epoll >= 0)
        close(pool->shared_epoll);
    if (pool->stop_event >= 0)
        close(pool->stop_event);
    lanes_set_listener(pool->service->lanes, NULL, NULL);
    if (pool->feed.free)
        pool->feed.free(pool->feed.context);
    pthread_mutex_destroy(&pool->starting);
    free(pool);
}
