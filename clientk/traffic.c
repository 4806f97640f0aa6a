#include "clientk/traffic.h"

#include <stdlib.h>

#include "clientk/key_hash.h"
#include "clientk/landing.h"
#include "clientk/last_error.h"
#include "clientk/translate.h"
#include "common/clock.h"

/* Losses ------------------------------------------------------------------------------------ */

/* Takes the flight out of the air. */
static void land(struct traffic *traffic, struct flight *flight)
{
    flight_leave_keys(flight, &traffic->keys);
    flight->in_flight = false;
    traffic->in_flight--;
}

/* The flight that was sent first, of those in the air; NULL: none is. */
static struct flight *first_sent(struct traffic *traffic)
{
    struct flight *first = NULL;
    for (unsigned i = 0; i <= traffic->window; i++) {
        struct flight *flight = &traffic->flights[i];
        if (flight->in_flight &&
            (!first || flight->exchange.request_id < first->exchange.request_id))
            first = flight;
    }
    return first;
}

/* The connection is lost: what may be sent again is parked, the rest is unknown. */
static void lose_connection(struct traffic *traffic, bool say_goodbye)
{
    struct flight *flight;
    while ((flight = first_sent(traffic))) {
        landing_lost(traffic, flight);
        land(traffic, flight);
    }
    if (traffic->filling) {
        landing_lost(traffic, traffic->filling);
        traffic->filling = NULL;
    }
    connection_close(&traffic->connection, say_goodbye);
}

/* Stops the flights whose time is over. */
static void expire(struct traffic *traffic)
{
    for (unsigned i = 0; i <= traffic->window; i++) {
        struct flight *flight = &traffic->flights[i];
        if (!flight->in_flight ||
            !settings_time_is_over(traffic->connection.settings, flight->deadline_ms))
            continue;
        landing_stopped(traffic, flight, flight->exchange.delivered ? KV_TIMEOUT : KV_DEADLINE);
        traffic->connection.suspect |= flight->exchange.sent_bytes > 0;
        land(traffic, flight);
    }
}

/* Receiving and sending --------------------------------------------------------------------- */

/* The flight has its answer. */
static void arrive(struct traffic *traffic, struct flight *flight)
{
    struct exchange *exchange = &flight->exchange;
    enum kv_status status = exchange->answer.status;
    if (status == KV_NO_SESSION) {
        exchange->delivered = false; /* it surely was not executed */
        lose_connection(traffic, false);
        return;
    }
    if (status == KV_OK && exchange->answer.count != flight->batch.count) {
        lose_connection(traffic, true);
        return;
    }
    if (status == KV_OK)
        landing_answered(traffic, flight, flight == &traffic->flights[traffic->window]);
    else
        landing_stopped(traffic, flight, status);
    land(traffic, flight);
}

static struct flight *flight_of(struct traffic *traffic, uint64_t request_id)
{
    for (unsigned i = 0; i <= traffic->window; i++)
        if (traffic->flights[i].in_flight && traffic->flights[i].exchange.request_id == request_id)
            return &traffic->flights[i];
    return NULL;
}

/* Waits for one message and deals with it. KV_TIMEOUT: none came until the deadline, and flights whose
 * time is over were stopped; else KV_OK. */
static enum kv_status receive(struct traffic *traffic, uint64_t deadline_ms)
{
    struct wire_header header;
    struct read_cursor body;
    enum kv_status status = connection_receive(&traffic->connection, deadline_ms, &header, &body);
    struct flight *flight = status == KV_OK ? flight_of(traffic, header.request_id) : NULL;
    if (flight) {
        status = exchange_take(&flight->exchange, &header, body);
        if (status == KV_OK && flight->exchange.to_send)
            status = exchange_send(&flight->exchange, &traffic->connection, deadline_ms);
        if (status == KV_OK && flight->exchange.answered)
            arrive(traffic, flight);
    }
    if (status == KV_TIMEOUT)
        expire(traffic);
    else if (status != KV_OK)
        lose_connection(traffic, status != KV_NO_SERVER);
    return status == KV_TIMEOUT ? KV_TIMEOUT : KV_OK;
}

static void drain(struct traffic *traffic, uint64_t deadline_ms)
{
    while (traffic->in_flight > 0)
        receive(traffic, deadline_ms);
}

/* Waits until one more message may be sent. */
static enum kv_status wait_for_credit(struct traffic *traffic, uint64_t deadline_ms)
{
    struct connection *connection = &traffic->connection;
    while (connection->open && connection->unanswered >= connection->welcome.credits)
        if (receive(traffic, deadline_ms) == KV_TIMEOUT)
            return KV_TIMEOUT;
    return connection->open ? KV_OK : KV_NO_SERVER;
}

static void add_to(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* Sends the flight, for which there is a credit. */
static enum kv_status take_off(struct traffic *traffic, struct flight *flight, uint64_t deadline_ms)
{
    struct connection *connection = &traffic->connection;
    if (!flight_enter_keys(flight, &traffic->keys))
        return KV_NO_MEMORY;
    flight->in_flight = true;
    flight->deadline_ms = deadline_ms;
    traffic->in_flight++;
    uint64_t request_id;
    size_t size = batch_finish(&flight->batch, connection, deadline_ms, &request_id);
    exchange_begin(&flight->exchange, flight->batch.message, size, request_id, deadline_ms);
    add_to(&traffic->messages, 1);
    add_to(&traffic->operations, flight->batch.count);
    return exchange_send(&flight->exchange, connection, deadline_ms);
}

/* Sends what has been filled; afterwards nothing is. */
static void send_filling(struct traffic *traffic, uint64_t deadline_ms)
{
    struct flight *flight = traffic->filling;
    if (!flight || flight->batch.count == 0) {
        traffic->filling = NULL; /* its share of the segment may change before it is filled */
        return;
    }
    /* Pieces of two messages can not be on their way at once. */
    if (flight->batch.in_pieces || traffic->connection.suspect)
        drain(traffic, deadline_ms);
    if (traffic->in_flight == 0 && !connection_usable(&traffic->connection)) {
        lose_connection(traffic, true);
        return;
    }
    enum kv_status status = wait_for_credit(traffic, deadline_ms);
    if (status == KV_NO_SERVER)
        return; /* it is parked with everything else */
    traffic->filling = NULL;
    if (status == KV_OK)
        status = take_off(traffic, flight, deadline_ms);
    if (status == KV_OK && flight->batch.in_pieces)
        drain(traffic, deadline_ms);
    if (status == KV_OK)
        return;
    if (status == KV_TIMEOUT || status == KV_NO_MEMORY) {
        landing_stopped(traffic, flight, status == KV_TIMEOUT ? KV_DEADLINE : status);
        if (flight->in_flight)
            land(traffic, flight);
    } else {
        lose_connection(traffic, status != KV_NO_SERVER);
    }
}

/* Sending again ----------------------------------------------------------------------------- */

/* The share of the segment that flight i may use. */
static bool begin_flight(struct traffic *traffic, struct flight *flight)
{
    uint64_t share = traffic->connection.room.bytes / (traffic->window + 1u) & ~(uint64_t)7;
    uint64_t start = share * (uint64_t)(flight - traffic->flights);
    return flight_begin(flight, &traffic->connection, start, start + share);
}

/* Makes every flight's share of the segment at least so big; nothing is in flight. */
static void grow_room(struct traffic *traffic, uint64_t share_bytes, uint64_t deadline_ms)
{
    enum kv_status status =
        room_grow(&traffic->connection, (share_bytes + 8) * (traffic->window + 1u), deadline_ms);
    if (status != KV_OK)
        lose_connection(traffic, true);
}

/* An answer that nobody waits for any more may still be written to the segment: nothing may be put there
 * before there is a new one. What is in flight is waited for; nothing is being filled. */
static void leave_suspect(struct traffic *traffic, uint64_t deadline_ms)
{
    if (!traffic->connection.suspect)
        return;
    drain(traffic, deadline_ms);
    lose_connection(traffic, true);
}

static enum kv_status ensure_connected(struct traffic *traffic, uint64_t deadline_ms,
                                       struct kv_error *error)
{
    struct connection *connection = &traffic->connection;
    if (connection->open)
        return KV_OK;
    enum kv_status status = connection_ensure(connection, deadline_ms, error);
    if (status == KV_OK)
        atomic_store_explicit(&traffic->reconnects, connection->handshakes - 1u,
                              memory_order_relaxed);
    return status;
}

/* Fills the flight from the parked operations. As batch_add for the first; then as many as fit. */
static enum batch_verdict add_parked(struct traffic *traffic, struct flight *flight)
{
    while (traffic->parked.first) {
        const struct parked *parked = traffic->parked.first;
        enum batch_verdict verdict = flight_add_parked(flight, parked);
        if (verdict == BATCH_FULL)
            return BATCH_ADDED;
        if (verdict != BATCH_ADDED)
            return verdict;
        free(unpark(&traffic->parked));
    }
    return BATCH_ADDED;
}

/* Sends one message of parked operations and waits until it is answered; nothing else is in flight. */
static void repeat_once(struct traffic *traffic, uint64_t deadline_ms)
{
    struct kv_error *error = last_error_of_thread();
    leave_suspect(traffic, deadline_ms);
    enum kv_status status = ensure_connected(traffic, deadline_ms, error);
    struct flight *flight = &traffic->flights[traffic->window];
    if (status == KV_OK && !begin_flight(traffic, flight))
        status = KV_NO_MEMORY;
    if (status != KV_OK) {
        landing_parked_stopped(traffic, status == KV_TIMEOUT ? KV_DEADLINE : status);
        return;
    }
    enum batch_verdict verdict = add_parked(traffic, flight);
    if (verdict == BATCH_NEEDS_ROOM) {
        grow_room(traffic, flight->batch.needed_bytes, deadline_ms);
    } else if (verdict == BATCH_NO_MEMORY) {
        landing_parked_stopped(traffic, KV_NO_MEMORY);
    } else {
        /* What is parked once more goes before the rest: it is older. */
        struct parked_list rest;
        parked_init(&rest);
        parked_append(&rest, &traffic->parked);
        traffic->filling = flight;
        send_filling(traffic, deadline_ms);
        drain(traffic, deadline_ms);
        parked_append(&traffic->parked, &rest);
    }
}

/* Sees to it that nothing is parked. */
static void repeat_parked(struct traffic *traffic, uint64_t deadline_ms)
{
    while (traffic->parked.first) {
        if (settings_time_is_over(traffic->connection.settings, deadline_ms)) {
            landing_parked_stopped(traffic, KV_DEADLINE);
            return;
        }
        send_filling(traffic, deadline_ms);
        drain(traffic, deadline_ms);
        if (traffic->parked.first)
            repeat_once(traffic, deadline_ms);
    }
}

/* For pipeline.c ---------------------------------------------------------------------------- */

enum kv_status traffic_open(struct traffic *traffic, const struct settings *settings,
                            unsigned window, uint64_t deadline_ms, struct kv_error *error)
{
    connection_init(&traffic->connection, settings, wire_window_ladder);
    traffic->repeat_writes = settings->repeat_writes;
    parked_init(&traffic->parked);
    enum kv_status status = ensure_connected(traffic, deadline_ms, error);
    if (status != KV_OK)
        return status;
    uint16_t credits = traffic->connection.welcome.credits;
    traffic->window = window == 0 || window > credits ? credits : window;
    traffic->flights = calloc(traffic->window + 1u, sizeof *traffic->flights);
    if (traffic->flights)
        return KV_OK;
    connection_close(&traffic->connection, true);
    return kv_error_set(error, KV_NO_MEMORY, "no memory for a pipeline");
}

void traffic_close(struct traffic *traffic, bool say_goodbye)
{
    connection_close(&traffic->connection, say_goodbye);
    for (unsigned i = 0; traffic->flights && i <= traffic->window; i++)
        flight_free(&traffic->flights[i]);
    free(traffic->flights);
    key_set_free(&traffic->keys);
    struct parked *parked;
    while ((parked = unpark(&traffic->parked)))
        free(parked);
    clientk_value_free(&traffic->result.value);
}

/* Provides a message to fill, unless operations were parked meanwhile (or the connection lost). */
static enum kv_status begin_filling(struct traffic *traffic, uint64_t deadline_ms,
                                    struct kv_error *error)
{
    if (traffic->filling)
        return KV_OK;
    leave_suspect(traffic, deadline_ms);
    if (traffic->parked.first)
        return KV_OK;
    enum kv_status status = ensure_connected(traffic, deadline_ms, error);
    while (status == KV_OK && traffic->in_flight == traffic->window)
        status = receive(traffic, deadline_ms);
    for (unsigned i = 0; status == KV_OK && i < traffic->window; i++) {
        if (traffic->flights[i].in_flight)
            continue;
        if (!traffic->connection.open || traffic->parked.first)
            return KV_OK; /* what was parked in between comes first */
        if (!begin_flight(traffic, &traffic->flights[i]))
            return KV_NO_MEMORY;
        traffic->filling = &traffic->flights[i];
        return KV_OK;
    }
    return status;
}

/* One try to add the operation. KV_OK and *added; or KV_OK, and the next try may succeed. */
static enum kv_status try_add(struct traffic *traffic, const struct wire_operation *operation,
                              void *tag, uint64_t deadline_ms, bool *added)
{
    if (key_set_conflicts(&traffic->keys, key_hash(operation->key), operation_writes(operation)))
        return receive(traffic, deadline_ms);
    struct flight *flight = traffic->filling;
    switch (flight_add(flight, operation, tag)) {
    case BATCH_ADDED:
        *added = true;
        if (traffic->batch_limit > 0 && flight->batch.count >= traffic->batch_limit)
            send_filling(traffic, deadline_ms);
        return KV_OK;
    case BATCH_FULL:
        send_filling(traffic, deadline_ms);
        return KV_OK;
    case BATCH_NEEDS_ROOM:
        traffic->filling = NULL; /* it is empty */
        drain(traffic, deadline_ms);
        if (traffic->connection.open)
            grow_room(traffic, flight->batch.needed_bytes, deadline_ms);
        return KV_OK;
    case BATCH_NO_MEMORY:
        break;
    }
    return KV_NO_MEMORY;
}

enum kv_status traffic_add(struct traffic *traffic, const struct wire_operation *operation,
                           void *tag, uint64_t deadline_ms, struct kv_error *error)
{
    bool added = false;
    do {
        repeat_parked(traffic, deadline_ms);
        enum kv_status status = begin_filling(traffic, deadline_ms, error);
        if (status == KV_OK)
            status = translate_check(operation, traffic->connection.welcome.max_value_bytes);
        if (status == KV_OK && traffic->filling)
            status = try_add(traffic, operation, tag, deadline_ms, &added);
        if (status != KV_OK)
            return status;
    } while (!added);
    repeat_parked(traffic, deadline_ms);
    return KV_OK;
}

void traffic_set_priority(struct traffic *traffic, unsigned priority, uint64_t deadline_ms)
{
    send_filling(traffic, deadline_ms);
    atomic_store_explicit(&traffic->connection.priority, priority, memory_order_relaxed);
}

enum kv_status traffic_finish(struct traffic *traffic, uint64_t deadline_ms)
{
    send_filling(traffic, deadline_ms);
    drain(traffic, deadline_ms);
    repeat_parked(traffic, deadline_ms);
    enum kv_status status = traffic->status;
    traffic->status = KV_OK;
    return status;
}
