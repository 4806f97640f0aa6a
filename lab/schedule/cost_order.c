#include "lab/schedule/cost_order.h"

#include <stdlib.h>

#include "lab/schedule/cost_estimate.h"
#include "lab/schedule/schedule.h"
#include "serverk/daemon/json_writer.h"

struct cost_order {
    struct message_order order; /* first: an order of messages is a cost_order */
    struct schedule *schedule;
};

static struct schedule *schedule_of(const struct message_order *order)
{
    return ((const struct cost_order *)order)->schedule;
}

static bool cost_order_is_full(const struct message_order *order)
{
    return schedule_full(schedule_of(order));
}

static uint32_t cost_order_full_payers(const struct message_order *order)
{
    return schedule_full_payers(schedule_of(order));
}

static void cost_order_add(struct message_order *order, struct kv_slice message,
                           struct message_source source, unsigned priority, uint64_t now_ns)
{
    schedule_add(schedule_of(order), message, source, priority, cost_estimate_ns(message), now_ns);
}

static size_t cost_order_take(struct message_order *order, uint32_t payers, uint8_t *buffer,
                              struct message_source *source, unsigned *priority, uint64_t now_ns,
                              uint64_t *waited_ns)
{
    return schedule_take(schedule_of(order), payers, buffer, source, priority, now_ns, waited_ns);
}

static unsigned cost_order_waiting(const struct message_order *order)
{
    return schedule_waiting(schedule_of(order));
}

static uint32_t cost_order_payers(const struct message_order *order)
{
    return schedule_payers(schedule_of(order));
}

static void put_waits(struct json *json, const struct schedule_statistics *statistics)
{
    static const char *const names[SCHEDULE_CLASSES] = {"0-7", "8-15", "16-23", "24-31"};
    begin_member(json, "waits_by_priority");
    open_object(json);
    for (unsigned i = 0; i < SCHEDULE_CLASSES; i++)
        put_quantiles(json, names[i], &statistics->waits[i]);
    close_object(json);
}

static void cost_order_put_stats(struct message_order *order, struct json *json)
{
    struct schedule_statistics *statistics = malloc(sizeof *statistics);
    if (!statistics)
        return;
    schedule_statistics(schedule_of(order), statistics);
    put_number(json, "capacity", statistics->capacity);
    put_number(json, "received", statistics->received);
    put_number(json, "waiting", statistics->waiting);
    put_number(json, "waiting_max", statistics->waiting_max);
    begin_member(json, "waiting_mean");
    fprintf(json->stream, "%.3f", statistics->waiting_mean);
    put_number(json, "full", statistics->full);
    put_waits(json, statistics);
    free(statistics);
}

static void cost_order_free(struct message_order *order)
{
    schedule_free(schedule_of(order));
    free(order);
}

struct message_order *cost_order_create(unsigned capacity, unsigned payers, size_t message_bytes,
                                        unsigned workers)
{
    struct cost_order *order = malloc(sizeof *order);
    if (!order)
        return NULL;
    *order =
        (struct cost_order){.order = {.is_full = cost_order_is_full,
                                      .full_payers = cost_order_full_payers,
                                      .add = cost_order_add,
                                      .take = cost_order_take,
                                      .waiting = cost_order_waiting,
                                      .payers = cost_order_payers,
                                      .put_stats = cost_order_put_stats,
                                      .free = cost_order_free},
                            .schedule = schedule_create(capacity, payers, message_bytes, workers)};
    if (order->schedule)
        return &order->order;
    free(order);
    return NULL;
}
