#include "lab/schedule/cost_order.h"

#include <stdlib.h>

#include "common/time/clock.h"
#include "lab/schedule/cost_estimate.h"
#include "lab/schedule/schedule.h"
#include "serverk/daemon/json_writer.h"
#include "serverk/receive/receiver.h"

struct cost_order {
    struct message_order order; /* first: an order of messages is a cost_order */
    struct schedule *schedule;
};

static struct schedule *schedule_of(const struct message_order *order)
{
    return ((const struct cost_order *)order)->schedule;
}

/* Receiving ------------------------------------------------------------------------------------ */

/* While messages wait in the schedule, the queues are looked at after COLLECT_EVERY_NS: each look
 * costs a system call a queue. COLLECT_MESSAGES at most are received at once, lest a worker be kept
 * from working. */
#define COLLECT_EVERY_NS 20000u
#define COLLECT_MESSAGES 64u

/* The message received gets a place in the schedule, unless it belongs to no session. Receiving it
 * is charged now, what it asks for when that is done. Without a door, all messages are one
 * user's. */
static void add_received(struct schedule *schedule, struct receiver *receiver, size_t size)
{
    struct wire_header header;
    receiver_look_up_session(receiver, size, &header);
    uint64_t now_ns = clock_monotonic_ns();
    if (!receiver_drop_stray(receiver, &header, receiver->session)) {
        struct kv_slice message = kv_slice(receiver->buffer, size);
        unsigned tenant = receiver->shares ? lanes_tenant(receiver->current) : TENANT_OWN;
        struct message_source source = {
            .session = receiver->session, .queue = receiver->current, .tenant = tenant};
        schedule_add(schedule, message, source, receiver->priority, cost_estimate_ns(message),
                     now_ns);
    }
    if (receiver->shares)
        receiver_charge(receiver, now_ns, now_ns);
}

/* The queues (as bits) for whose messages the schedule has no room. */
static uint32_t queues_without_room(const struct schedule *schedule)
{
    return schedule_full(schedule) ? UINT32_MAX : lanes_of_tenants(schedule_full_tenants(schedule));
}

/* Receives what has come into the schedule. -1: errno. */
static ssize_t collect(struct schedule *schedule, struct receiver *receiver, uint64_t now_ns)
{
    ssize_t size = 0;
    receiver->collected_ns = now_ns;
    for (unsigned i = 0; i < COLLECT_MESSAGES && !schedule_full(schedule); i++) {
        receiver->closed_queues = queues_without_room(schedule);
        size = receiver_poll(receiver);
        if (size <= 0)
            break;
        add_received(schedule, receiver, (size_t)size);
    }
    return size < 0 ? -1 : 0;
}

/* Moves the first message of those tenants (as bits) to the receiver. */
static size_t take_due(struct schedule *schedule, struct receiver *receiver, uint32_t tenants)
{
    uint64_t waited_ns, now_ns = clock_monotonic_ns();
    struct message_source source = {.queue = receiver->current};
    size_t size = schedule_take(schedule, tenants, receiver->buffer, &source, &receiver->priority,
                                now_ns, &waited_ns);
    receiver->session = source.session;
    receiver->current = source.queue;
    receiver->began_ns = receiver->shares && shares_contended(receiver->shares) ? now_ns : 0;
    if (size > 0)
        histogram_record(&receiver->statistics->stages[STAGE_QUEUE_WAIT], waited_ns);
    return size;
}

/* The tenants (as bits) that do not rest. */
static uint32_t due_tenants(const struct receiver *receiver, uint64_t now_ns)
{
    uint64_t until_ns;
    if (!receiver->shares || !shares_contended(receiver->shares))
        return UINT32_MAX;
    return ~shares_resting(receiver->shares, now_ns, &until_ns);
}

static ssize_t cost_order_receive(struct message_order *order, struct receiver *receiver)
{
    struct schedule *schedule = schedule_of(order);
    uint64_t now_ns = clock_monotonic_ns();
    bool is_due = (schedule_tenants(schedule) & due_tenants(receiver, now_ns)) == 0 ||
                  now_ns - receiver->collected_ns > COLLECT_EVERY_NS;
    if (is_due && collect(schedule, receiver, now_ns) < 0)
        return -1;
    size_t size = take_due(schedule, receiver, due_tenants(receiver, clock_monotonic_ns()));
    if (size > 0 && schedule_waiting(schedule) > 0)
        receiver->found_empty = false;
    receiver->closed_queues = queues_without_room(schedule);
    return (ssize_t)size;
}

static size_t cost_order_take(struct message_order *order, struct receiver *receiver)
{
    return take_due(schedule_of(order), receiver, UINT32_MAX);
}

static unsigned cost_order_waiting(const struct message_order *order)
{
    return schedule_waiting(schedule_of(order));
}

/* Statistics ----------------------------------------------------------------------------------- */

static void put_waits(struct json *json, const struct schedule_statistics *statistics)
{
    static const char *const names[SCHEDULE_CLASSES] = {"0-7", "8-15", "16-23", "24-31"};
    json_begin_member(json, "waits_by_priority");
    json_open_object(json);
    for (unsigned i = 0; i < SCHEDULE_CLASSES; i++)
        json_put_quantiles(json, names[i], &statistics->waits[i]);
    json_close_object(json);
}

static void cost_order_put_stats(struct message_order *order, struct json *json)
{
    struct schedule_statistics *statistics = malloc(sizeof *statistics);
    if (!statistics)
        return;
    schedule_statistics(schedule_of(order), statistics);
    json_put_number(json, "capacity", statistics->capacity);
    json_put_number(json, "received", statistics->received);
    json_put_number(json, "waiting", statistics->waiting);
    json_put_number(json, "waiting_max", statistics->waiting_max);
    json_begin_member(json, "waiting_mean");
    fprintf(json->stream, "%.3f", statistics->waiting_mean);
    json_put_number(json, "full", statistics->full);
    put_waits(json, statistics);
    free(statistics);
}

/* Life ----------------------------------------------------------------------------------------- */

static void cost_order_free(struct message_order *order)
{
    schedule_free(schedule_of(order));
    free(order);
}

struct message_order *cost_order_create(unsigned capacity, unsigned tenants, size_t message_bytes,
                                        unsigned workers)
{
    struct cost_order *order = malloc(sizeof *order);
    if (!order)
        return NULL;
    *order =
        (struct cost_order){.order = {.receive = cost_order_receive,
                                      .take = cost_order_take,
                                      .waiting = cost_order_waiting,
                                      .put_stats = cost_order_put_stats,
                                      .free = cost_order_free},
                            .schedule = schedule_create(capacity, tenants, message_bytes, workers)};
    if (order->schedule)
        return &order->order;
    free(order);
    return NULL;
}
