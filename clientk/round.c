#include "clientk/round.h"

#include "clientk/order_guard.h"
#include "clientk/translate.h"
#include "wire/operation.h"

#define REASONABLE_ROOM_BYTES ((uint64_t)8 << 20)

/* Packing ----------------------------------------------------------------------------------- */

/* Puts the operation under the part that it continues, or one of its own, for which there is room. */
static void note_packed(struct round *round, struct request *request, size_t index, bool again)
{
    struct round_part *last = round->part_count ? &round->parts[round->part_count - 1] : NULL;
    if (last && last->request == request && last->again == again &&
        (again || last->first + last->count == index)) {
        last->count = index + 1 - last->first;
        return;
    }
    round->parts[round->part_count++] =
        (struct round_part){.request = request, .first = index, .count = 1, .again = again};
}

/* Where one value needs room, makes room for all that were refused with it, within reason. */
static void ask_for_all(struct batch *batch, uint64_t refused_bytes)
{
    if (refused_bytes > REASONABLE_ROOM_BYTES)
        refused_bytes = REASONABLE_ROOM_BYTES;
    if (refused_bytes > batch->needed_bytes)
        batch->needed_bytes = refused_bytes;
}

/* Packs what is due of one request. BATCH_ADDED: all that may go into this message. */
static enum batch_verdict pack_request(struct round *round, const struct connection *connection,
                                       struct request *request)
{
    struct order_guard guard;
    order_guard_reset(&guard);
    bool redoing = request->redo < request->redo_end;
    size_t index;
    bool again;
    while (request_due(request, &index, &again) && again == redoing) {
        struct wire_operation operation;
        enum kv_status status =
            request_operation(request, index, connection->welcome.max_value_bytes, &operation);
        if (status != KV_OK) {
            result_clear(&request->results[index], status);
            request_advance(request, again);
            continue;
        }
        if (request->count > 1 && !order_guard_admits(&guard, &operation))
            break;
        if (round->part_count == ROUND_MAX_PARTS)
            return BATCH_FULL;
        enum batch_verdict verdict =
            batch_add(&round->batch, &operation, again ? request->results[index].value.size : 0);
        if (verdict == BATCH_NEEDS_ROOM && again)
            ask_for_all(&round->batch, request->redo_bytes);
        if (verdict != BATCH_ADDED)
            return verdict;
        note_packed(round, request, index, again);
        request->sent = true;
        request_advance(request, again);
    }
    return BATCH_ADDED;
}

static enum batch_verdict pack_all(struct round *round, struct connection *connection,
                                   struct request *first)
{
    round->part_count = 0;
    round->full = false;
    if (!batch_begin(&round->batch, connection, 0, connection->room.bytes))
        return BATCH_NO_MEMORY;
    for (struct request *request = first; request; request = request->following) {
        if (request->finished)
            continue;
        uint32_t packed_before = round->batch.count;
        enum batch_verdict verdict = pack_request(round, connection, request);
        if (round->batch.count == packed_before)
            request_finish_if_done(request);
        round->full = verdict == BATCH_FULL;
        if (round->full)
            return BATCH_ADDED;
        if (verdict != BATCH_ADDED)
            return verdict;
    }
    return BATCH_ADDED;
}

/* The latest: until then somebody waits for a part of the message. */
static uint64_t latest_deadline_ms(const struct round *round)
{
    uint64_t latest_ms = 0;
    for (unsigned i = 0; i < round->part_count; i++)
        if (round->parts[i].request->deadline_ms > latest_ms)
            latest_ms = round->parts[i].request->deadline_ms;
    return latest_ms;
}

enum kv_status round_pack(struct round *round, struct connection *connection, struct request *first,
                          uint64_t deadline_ms)
{
    enum batch_verdict verdict;
    while ((verdict = pack_all(round, connection, first)) == BATCH_NEEDS_ROOM) {
        enum kv_status status = room_grow(connection, round->batch.needed_bytes, deadline_ms);
        if (status != KV_OK)
            return status;
    }
    if (verdict == BATCH_NO_MEMORY)
        return KV_NO_MEMORY;
    if (round->batch.count == 0)
        return KV_OK;
    uint64_t request_id;
    uint64_t latest_ms = latest_deadline_ms(round);
    size_t size = batch_finish(&round->batch, connection, latest_ms, &request_id);
    exchange_begin(&round->exchange, round->batch.message, size, request_id, latest_ms);
    round->in_flight = true;
    return KV_OK;
}

/* Results ----------------------------------------------------------------------------------- */

/* Visits the operations of a part. Start with index = part->first; false: that was all. */
static bool part_has(const struct round_part *part, size_t *index)
{
    const struct request *request = part->request;
    if (request && part->again)
        while (*index < part->first + part->count &&
               request->results[*index].status != KV_BUFFER_TOO_SMALL)
            (*index)++;
    return *index < part->first + part->count;
}

static void take_result(const struct batch *batch, struct request *request, size_t index,
                        const struct wire_result *result)
{
    struct room *room = batch->room;
    enum wire_opcode opcode = request_opcode(request, index);
    bool gives_value = operation_gives_value(opcode);
    translate_result(result, room, gives_value, &request->results[index]);
    if (!gives_value)
        return;
    uint64_t value_bytes = result->value.size;
    if (operation_reads_entry(opcode))
        room_expect(room, value_bytes);
    if (result->status == KV_BUFFER_TOO_SMALL && batch_lacked_room(batch, value_bytes))
        request_refused(request, index, value_bytes);
}

/* The operation was left over when the message had used its time: it and those behind it are due again.
 * The result of one that was refused before stays: it tells the room that it needs. */
static void take_left_over(struct request *request, size_t index, bool again)
{
    if (again)
        request_refused(request, index, request->results[index].value.size);
    else
        request_rewind(request, index, false, false);
}

/* Reads the results in the order of the operations. False: the reply is not what was asked for. */
static bool take_results(struct round *round)
{
    struct read_cursor *body = &round->exchange.body;
    bool first = true;
    if (round->exchange.answer.count != round->batch.count)
        return false;
    for (unsigned i = 0; i < round->part_count; i++) {
        struct round_part *part = &round->parts[i];
        for (size_t index = part->first; part_has(part, &index); index++) {
            struct wire_result result;
            if (wire_get_result(body, &result) != KV_OK)
                return false;
            /* A server executes at least the first: so this comes to an end. */
            bool left_over = result.status == KV_OVERLOADED && !first;
            first = false;
            if (part->request && left_over)
                take_left_over(part->request, index, part->again);
            else if (part->request)
                take_result(&round->batch, part->request, index, &result);
        }
    }
    return true;
}

/* Gives the operations of the request that are in the message the status, and stops it. */
static void refuse(const struct round *round, struct request *request, enum kv_status status)
{
    enum kv_status status_of_request = status;
    for (unsigned i = 0; i < round->part_count; i++) {
        const struct round_part *part = &round->parts[i];
        if (part->request != request)
            continue;
        for (size_t index = part->first; part_has(part, &index); index++)
            if (request_not_executed(request, index, status) == KV_OUTCOME_UNKNOWN)
                status_of_request = KV_OUTCOME_UNKNOWN;
    }
    request_stop(request, status_of_request, status);
}

/* The server refused the message as a whole: nothing of it was executed. */
static void take_refusal(struct round *round)
{
    enum kv_status status = round->exchange.answer.status;
    struct read_cursor *body = &round->exchange.body;
    size_t size = read_cursor_left(body);
    const uint8_t *sentence = read_bytes(body, size);
    for (unsigned i = 0; i < round->part_count; i++) {
        struct request *request = round->parts[i].request;
        if (!request || request->finished)
            continue;
        refuse(round, request, status);
        if (size > 0 && request->status == status)
            kv_error_set(request->error, status, "server refused: %.*s", (int)size,
                         (const char *)sentence);
    }
}

static void finish_done(struct round *round)
{
    for (unsigned i = 0; i < round->part_count; i++)
        if (round->parts[i].request)
            request_finish_if_done(round->parts[i].request);
}

enum kv_status round_complete(struct round *round, struct connection *connection,
                              uint64_t deadline_ms)
{
    enum kv_status status = exchange_continue(&round->exchange, connection, deadline_ms);
    if (status != KV_OK)
        return status;
    enum kv_status answer = round->exchange.answer.status;
    if (answer == KV_NO_SESSION)
        return KV_NO_SESSION;
    if (answer == KV_OK && !take_results(round))
        return KV_IO;
    if (answer != KV_OK)
        take_refusal(round);
    round->in_flight = false;
    finish_done(round);
    return KV_OK;
}

/* Losses ------------------------------------------------------------------------------------ */

static void rewind_part(struct round_part *part, bool uncertain)
{
    for (size_t index = part->first; part_has(part, &index); index++)
        request_rewind(part->request, index, part->again, uncertain);
}

static bool part_repeatable(const struct round_part *part, bool repeat_writes)
{
    for (size_t index = part->first; part_has(part, &index); index++) {
        struct wire_operation operation;
        if (request_operation(part->request, index, UINT64_MAX, &operation) == KV_OK &&
            !operation_repeatable(&operation, repeat_writes))
            return false;
    }
    return true;
}

static bool request_repeatable(const struct round *round, const struct request *request,
                               bool repeat_writes)
{
    for (unsigned i = 0; i < round->part_count; i++)
        if (round->parts[i].request == request && !part_repeatable(&round->parts[i], repeat_writes))
            return false;
    return true;
}

/* Gives the operations of a request that are on their way these statuses, and takes the request
 * out of the round. */
static void abandon(struct round *round, struct request *request, enum kv_status of_reads,
                    enum kv_status of_writes)
{
    for (unsigned i = 0; i < round->part_count; i++) {
        struct round_part *part = &round->parts[i];
        if (part->request != request)
            continue;
        size_t sent = 0;
        for (size_t index = part->first; part_has(part, &index); index++, sent++) {
            struct wire_operation operation;
            bool writes = request_operation(request, index, UINT64_MAX, &operation) == KV_OK &&
                          operation_writes(&operation);
            result_clear(&request->results[index], writes ? of_writes : of_reads);
        }
        part->request = NULL;
        part->count = sent; /* so that the reply can be skipped without it */
    }
}

void round_lost(struct round *round, bool repeat_writes)
{
    if (!round->in_flight)
        return;
    bool refused = round->exchange.answered && round->exchange.answer.status == KV_NO_SESSION;
    bool surely_not_executed = !round->exchange.delivered || refused;
    for (unsigned i = 0; i < round->part_count; i++) {
        struct round_part *part = &round->parts[i];
        if (!part->request)
            continue;
        if (surely_not_executed || request_repeatable(round, part->request, repeat_writes)) {
            rewind_part(part, !surely_not_executed);
        } else {
            struct request *request = part->request;
            abandon(round, request, KV_NO_SERVER, KV_OUTCOME_UNKNOWN);
            request_stop(request, KV_OUTCOME_UNKNOWN, KV_NO_SERVER);
        }
    }
    round->in_flight = false;
}

static bool abandoned_by_all(const struct round *round)
{
    for (unsigned i = 0; i < round->part_count; i++)
        if (round->parts[i].request)
            return false;
    return true;
}

/* Takes the message back, of which nothing that the server could execute was sent: for it would be
 * executed after all if it were sent later, for the sake of others in it. */
static void take_back(struct round *round, struct connection *connection)
{
    for (unsigned i = 0; i < round->part_count; i++)
        if (round->parts[i].request)
            rewind_part(&round->parts[i], false);
    round->in_flight = false;
    connection->suspect |= round->exchange.sent_bytes > 0;
}

static bool has_part_of(const struct round *round, const struct request *request)
{
    for (unsigned i = 0; i < round->part_count; i++)
        if (round->parts[i].request == request)
            return true;
    return false;
}

void round_expire(struct round *round, struct connection *connection, struct request *request)
{
    if (!round->in_flight || !has_part_of(round, request)) {
        request_stop(request, KV_DEADLINE, KV_DEADLINE);
    } else if (!round->exchange.delivered) {
        take_back(round, connection);
        request_stop(request, KV_DEADLINE, KV_DEADLINE);
    } else {
        abandon(round, request, KV_TIMEOUT, KV_TIMEOUT);
        request_stop(request, KV_TIMEOUT, KV_DEADLINE);
        if (abandoned_by_all(round)) {
            round->in_flight = false;
            connection->suspect = true;
        }
    }
}

void round_free(struct round *round)
{
    batch_free(&round->batch);
    exchange_free(&round->exchange);
}
