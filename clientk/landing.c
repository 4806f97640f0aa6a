#include "clientk/landing.h"

#include <stdlib.h>

#include "clientk/translate.h"

static void complete(struct traffic *traffic, void *tag)
{
    traffic->completing = true;
    traffic->complete(traffic->context, tag, &traffic->result);
    traffic->completing = false;
}

/* Completes an operation that has no result of its own, because its message was stopped. */
static void complete_stopped(struct traffic *traffic, void *tag, bool uncertain,
                             enum kv_status status)
{
    if (uncertain && status != KV_TIMEOUT)
        status = KV_OUTCOME_UNKNOWN;
    if (traffic->status == KV_OK)
        traffic->status = status;
    result_clear(&traffic->result, status);
    complete(traffic, tag);
}

static void park_or_stop(struct traffic *traffic, const struct wire_operation *operation,
                         const struct flight_note *note, uint64_t value_bytes, bool uncertain)
{
    struct parked *parked = park(&traffic->parked, operation, note->tag);
    if (!parked) {
        complete_stopped(traffic, note->tag, uncertain, KV_NO_MEMORY);
        return;
    }
    parked->value_bytes = value_bytes;
    parked->uncertain = uncertain;
}

/* Stopped ----------------------------------------------------------------------------------- */

struct stop {
    struct traffic *traffic;
    enum kv_status status;
};

static void visit_stopped(void *context, const struct wire_operation *operation,
                          const struct flight_note *note)
{
    (void)operation;
    struct stop *stop = context;
    complete_stopped(stop->traffic, note->tag, note->uncertain, stop->status);
}

void landing_stopped(struct traffic *traffic, const struct flight *flight, enum kv_status status)
{
    struct stop stop = {.traffic = traffic, .status = status};
    flight_each(flight, visit_stopped, &stop);
}

void landing_parked_stopped(struct traffic *traffic, enum kv_status status)
{
    struct parked *parked;
    while ((parked = unpark(&traffic->parked))) {
        complete_stopped(traffic, parked->tag, parked->uncertain, status);
        free(parked);
    }
}

/* Answered ---------------------------------------------------------------------------------- */

struct arrival {
    struct traffic *traffic;
    const struct batch *batch;
    struct read_cursor *body;
    bool repeated;
    bool any; /* a result was read */
};

/* Whether an operation that was refused for want of room is worth another try: when it was sent again,
 * only if it had not all the room that it needs. */
static bool worth_another_try(const struct arrival *arrival, uint64_t value_bytes)
{
    return !arrival->repeated || batch_lacked_room(arrival->batch, value_bytes);
}

static void visit_answered(void *context, const struct wire_operation *operation,
                           const struct flight_note *note)
{
    struct arrival *arrival = context;
    struct traffic *traffic = arrival->traffic;
    struct room *room = &traffic->connection.room;
    struct wire_result result;
    if (wire_get_result(arrival->body, &result) != KV_OK) {
        complete_stopped(traffic, note->tag, operation_writes(operation), KV_IO);
        return;
    }
    /* Left over when the message had used its time; at least the first is executed. */
    bool left_over = result.status == KV_OVERLOADED && arrival->any;
    arrival->any = true;
    if (left_over) {
        park_or_stop(traffic, operation, note, 0, false);
        return;
    }
    uint64_t value_bytes = result.value.size;
    if (operation_reads_entry(operation->opcode))
        room_expect(room, value_bytes);
    if (result.status == KV_BUFFER_TOO_SMALL && worth_another_try(arrival, value_bytes)) {
        park_or_stop(traffic, operation, note, value_bytes, false);
        return;
    }
    translate_result(&result, room, operation_gives_value(operation->opcode), &traffic->result);
    complete(traffic, note->tag);
}

void landing_answered(struct traffic *traffic, struct flight *flight, bool repeated)
{
    struct arrival arrival = {.traffic = traffic,
                              .batch = &flight->batch,
                              .body = &flight->exchange.body,
                              .repeated = repeated};
    flight_each(flight, visit_answered, &arrival);
}

/* Lost -------------------------------------------------------------------------------------- */

struct loss {
    struct traffic *traffic;
    bool delivered;
};

static void visit_lost(void *context, const struct wire_operation *operation,
                       const struct flight_note *note)
{
    struct loss *loss = context;
    struct traffic *traffic = loss->traffic;
    bool uncertain = note->uncertain || (loss->delivered && operation_writes(operation));
    if (!uncertain || operation_repeatable(operation, traffic->repeat_writes))
        park_or_stop(traffic, operation, note, 0, uncertain);
    else
        complete_stopped(traffic, note->tag, uncertain, KV_OUTCOME_UNKNOWN);
}

void landing_lost(struct traffic *traffic, const struct flight *flight)
{
    struct loss loss = {.traffic = traffic,
                        .delivered = flight->in_flight && flight->exchange.delivered};
    flight_each(flight, visit_lost, &loss);
}
