#include "serverk/receive/receiver.h"

#include <errno.h>
#include <mqueue.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/session/session_table.h"
#include "wire/message.h"

/* A queue is cold if it gave none of the last COLD_AFTER messages; then it is polled in every
 * COLD_ROUNDS-th round. */
#define COLD_AFTER  64u
#define COLD_ROUNDS 8u

/* A worker sleeps for this time at most while messages of tenants that rest lie aside. */
#define ASIDE_SLEEP_NS (2u * 1000 * 1000)

/* What comes through the door is told apart by nobody: its messages count for twice the time they
 * take. And garbage for several times, wherever it comes from, because it keeps the CPUs busy in
 * other places: each one that is received wakes who sleeps in the next mq_send. */
#define DOOR_WEIGHT    2u
#define GARBAGE_WEIGHT 4u

/* Returns the number of workers whose time is dealt out: the clients need the CPUs, too, so that is
 * half of them. */
static unsigned workers_to_share(const struct receiver *receiver)
{
    unsigned workers = receiver->place ? parking_counts(receiver->place->parking).active / 2 : 1;
    return workers > 0 ? workers : 1;
}

/* The queues (as bits) that the receiver serves and clients may be sending to. */
static uint32_t served_queues(const struct receiver *receiver)
{
    return receiver->queues & served_lanes_set(receiver->served);
}

/* Returns those of the served queues whose tenants do not rest. */
static uint32_t due_queues(struct receiver *receiver)
{
    uint32_t served = served_queues(receiver);
    receiver->began_ns = 0;
    receiver->resting = 0;
    if (!receiver->shares || !shares_contended(receiver->shares))
        return served;
    receiver->began_ns = clock_monotonic_ns();
    uint32_t tenants =
        shares_resting(receiver->shares, receiver->began_ns, &receiver->resting_until_ns);
    receiver->resting = tenants;
    return served & ~lanes_of_tenants(tenants);
}

void receiver_charge(struct receiver *receiver, uint64_t received_ns, uint64_t done_ns)
{
    unsigned tenant = lanes_tenant(receiver->current);
    unsigned weight =
        (tenant == TENANT_DOOR ? DOOR_WEIGHT : 1) * (receiver->wasted ? GARBAGE_WEIGHT : 1);
    uint64_t start_ns = receiver->began_ns ? receiver->began_ns : received_ns;
    struct share_use use = {.start_ns = start_ns ? start_ns : done_ns,
                            .end_ns = done_ns,
                            .waited_ns = receiver->waited_ns,
                            .written_bytes = receiver->written_bytes,
                            .weight = weight,
                            .was_away = receiver->was_away};
    receiver->wasted = receiver->was_away = false;
    receiver->waited_ns = receiver->written_bytes = 0;
    if (!shares_is_alone(receiver->shares, tenant))
        shares_charge(receiver->shares, tenant, &use, workers_to_share(receiver));
}

/* Takes the lowest bit out of the set, which is not empty. Returns the number of the bit. */
static unsigned take_lowest(uint32_t *set)
{
    KV_ASSERT(*set != 0);
    unsigned lowest = (unsigned)__builtin_ctz(*set);
    *set &= *set - 1;
    return lowest;
}

/* One attempt at one queue: > 0 the size of a message, 0 nothing (left) there, -1 errno. */
static ssize_t receive_from(struct receiver *receiver, unsigned queue)
{
    KV_ASSERT(served_queues(receiver) >> queue & 1 || lanes_is_guest(queue));
    ssize_t size =
        mq_receive(receiver->served->queues[queue], (char *)receiver->buffer,
                   receiver->buffer_bytes, receiver->wants_priority ? &receiver->priority : NULL);
    if (size == 0) /* an empty message is none of ours, and would look like "nothing there" */
        statistics_add(&receiver->statistics->dropped[DROPPED_MALFORMED], 1);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (size < 0 && errno == EBADF && lanes_is_guest(queue)) /* the lane has just been given up */
        return 0;
    return size;
}

/* Returns the queues of the set that have given nothing for long. */
static uint32_t cold_queues(const struct receiver *receiver, uint32_t set)
{
    uint32_t cold = 0;
    while (set != 0) {
        unsigned queue = take_lowest(&set);
        if (receiver->taken - receiver->last_taken[queue] > COLD_AFTER)
            cold |= UINT32_C(1) << queue;
    }
    return cold;
}

/* Tries each queue of the set once, beginning behind the one that gave the last message. */
static ssize_t try_queues(struct receiver *receiver, uint32_t set)
{
    uint32_t up_to_last = (UINT32_C(2) << receiver->current) - 1;
    uint32_t behind = set & ~up_to_last, rest = set & up_to_last;
    while ((behind | rest) != 0) {
        unsigned queue = take_lowest(behind != 0 ? &behind : &rest);
        ssize_t size = receive_from(receiver, queue);
        if (size != 0) {
            receiver->last_taken[queue] = ++receiver->taken;
            receiver->current = queue;
            return size;
        }
    }
    return 0;
}

/* Takes the first message from those queues that was set aside. The pulse beats, for that tells
 * that the worker is not away. */
static size_t take_aside(struct receiver *receiver, uint32_t queues)
{
    if (!receiver->aside || aside_waiting(receiver->aside) == 0)
        return 0;
    if (receiver->pulse)
        farewell_enter(receiver->pulse);
    size_t size = aside_take(receiver->aside, queues, receiver->buffer, &receiver->session,
                             &receiver->current);
    receiver_settle(receiver);
    return size;
}

size_t receiver_take_aside(struct receiver *receiver)
{
    return take_aside(receiver, UINT32_MAX);
}

/* What was set aside came before all else; messages of tenants that rest wait there, too. Cold
 * queues come first when it is their turn: behind those that always have something they would wait
 * for ever where both counts have a divisor in common. */
ssize_t receiver_poll(struct receiver *receiver)
{
    KV_ASSERT(!receiver->blocking);
    uint32_t served = due_queues(receiver);
    size_t before = take_aside(receiver, ~lanes_of_tenants(receiver->resting));
    if (before > 0)
        return (ssize_t)before;
    served &= ~receiver->closed_queues;
    if (receiver->pulse)
        farewell_enter(receiver->pulse);
    uint32_t cold = cold_queues(receiver, served);
    bool cold_too = ++receiver->round % COLD_ROUNDS == 0;
    ssize_t size = cold_too ? try_queues(receiver, cold) : 0;
    if (size == 0)
        size = try_queues(receiver, served & ~cold);
    if (size != 0)
        return size;
    receiver->found_empty = true;
    receiver_settle(receiver);
    return 0;
}

ssize_t receiver_look(struct receiver *receiver)
{
    receiver->round = COLD_ROUNDS - 1;
    ssize_t size = receiver_poll(receiver);
    if (size < 0)
        receiver_settle(receiver);
    return size;
}

void receiver_look_up_session(struct receiver *receiver, size_t size, struct wire_header *header)
{
    struct read_cursor cursor = read_cursor(receiver->buffer, size);
    *header = (struct wire_header){0};
    wire_get_header(&cursor, header);
    receiver->session = header->session != 0
                            ? session_acquire(receiver->sessions, header->session, header->secret)
                            : NULL;
    receiver_settle(receiver);
}

void receiver_drop(struct receiver *receiver, enum dropped_reason reason)
{
    receiver->wasted = true;
    lanes_count_garbage(receiver->lanes, receiver->current);
    statistics_add(&receiver->statistics->dropped[reason], 1);
}

bool receiver_drop_stray(struct receiver *receiver, const struct wire_header *header,
                         const struct session *session)
{
    if (session || (header->kind == WIRE_HELLO && header->session == 0))
        return false;
    if (header->session == 0)
        receiver_drop(receiver, DROPPED_MALFORMED);
    else if (header->kind == WIRE_BYE)
        session_bye_after_end(receiver->sessions, header->session, header->secret);
    else
        receiver_drop(receiver, DROPPED_UNKNOWN_SESSION);
    return true;
}

uint32_t receiver_source(const struct receiver *receiver)
{
    bool own = receiver->pulse && !receiver->order;
    return own ? UINT32_C(1) << receiver->current : UINT32_MAX;
}

/* A wire_attempt. */
static ssize_t poll_round(void *receiver)
{
    return receiver_poll(receiver);
}

/* A wire_attempt. */
static ssize_t ordered_round(void *context)
{
    struct receiver *receiver = context;
    return receiver->order->receive(receiver->order, receiver);
}

/* Sleeps until a queue of a tenant that does not rest has something (and there is a place for it),
 * the first of those that rest may be served, or the pool stops. In the set of all queues, the full
 * queues of tenants that rest would end each sleep at once. So would what those tenants have aside;
 * beside that the sleep is short, since the steward may be adding a message of another tenant. */
static void sleep_beside_resting(const struct receiver *receiver)
{
    struct pollfd events[LANE_PLAN_MAX_QUEUES + 2] = {
        {.fd = receiver->stop_event, .events = POLLIN}};
    nfds_t count = 1;
    bool some_aside = receiver->aside && aside_waiting(receiver->aside) > 0;
    if (receiver->aside && !some_aside)
        events[count++] = (struct pollfd){.fd = receiver->aside->event, .events = POLLIN};
    uint32_t queues =
        served_queues(receiver) & ~lanes_of_tenants(receiver->resting) & ~receiver->closed_queues;
    while (queues != 0)
        events[count++] = (struct pollfd){.fd = (int)receiver->served->queues[take_lowest(&queues)],
                                          .events = POLLIN};
    KV_ASSERT(count <= sizeof events / sizeof events[0]);
    uint64_t now_ns = clock_monotonic_ns();
    if (now_ns >= receiver->resting_until_ns)
        return;
    uint64_t left_ns = receiver->resting_until_ns - now_ns;
    if (some_aside && left_ns > ASIDE_SLEEP_NS)
        left_ns = ASIDE_SLEEP_NS;
    struct timespec timeout = {.tv_sec = (time_t)(left_ns / 1000000000u),
                               .tv_nsec = (long)(left_ns % 1000000000u)};
    ppoll(events, count, &timeout, NULL);
}

/* Sleeps until a queue has something, or the pool stops. The next round looks at cold queues
 * too. */
static void sleep_on_queues(struct receiver *receiver)
{
    struct epoll_event event;
    statistics_add(&receiver->statistics->sleeps, 1);
    if (receiver->place)
        parking_fall_asleep(receiver->place);
    if (receiver->resting != 0)
        sleep_beside_resting(receiver);
    else
        epoll_wait(receiver->sleep_epoll, &event, 1, -1);
    if (receiver->place)
        parking_wake_up(receiver->place);
    receiver->round = COLD_ROUNDS - 1;
}

static ssize_t take_polling(struct receiver *receiver)
{
    wire_attempt attempt = receiver->order ? ordered_round : poll_round;
    while (!atomic_load_explicit(receiver->stopping, memory_order_relaxed)) {
        ssize_t size = wire_wait(&receiver->waiter, attempt, receiver);
        if (size != 0)
            return size;
        if (!receiver->place || !parking_park(receiver->place))
            sleep_on_queues(receiver);
    }
    return 0;
}

static ssize_t take_blocking(struct receiver *receiver)
{
    while (!atomic_load_explicit(receiver->stopping, memory_order_relaxed)) {
        farewell_enter(receiver->pulse);
        ssize_t size = receive_from(receiver, receiver->current);
        receiver->taken++;
        if (size != 0)
            return size;
        receiver_settle(receiver);
    }
    return 0;
}

ssize_t receiver_take(struct receiver *receiver)
{
    return receiver->blocking ? take_blocking(receiver) : take_polling(receiver);
}

static unsigned queue_backlog(const struct receiver *receiver, unsigned queue)
{
    struct mq_attr attributes;
    if (mq_getattr(receiver->served->queues[queue], &attributes) != 0)
        return 0;
    return (unsigned)attributes.mq_curmsgs;
}

unsigned receiver_backlog(const struct receiver *receiver)
{
    unsigned waiting = receiver->order ? receiver->order->waiting(receiver->order) : 0;
    for (uint32_t queues = served_queues(receiver); queues != 0;)
        waiting += queue_backlog(receiver, take_lowest(&queues));
    return waiting;
}

unsigned receiver_backlog_behind(const struct receiver *receiver)
{
    return queue_backlog(receiver, receiver->current);
}
