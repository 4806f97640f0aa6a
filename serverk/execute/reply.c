#include "serverk/execute/reply.h"

#include <string.h>

#include "common/assert/assert.h"
#include "serverk/session/deliver.h"

/* Every field of a result, its place in the segment included. */
#define MAX_FIELDS_BYTES (WIRE_RESULT_MAX_FIELD_BYTES + 4u)

/* The fields that a result with a value nearly always has: the fixed ones and the version. */
#define USUAL_FIELDS_BYTES (WIRE_RESULT_FIXED_BYTES + 8u)

/* Larger values go through the window where there is one: a second page in a message costs more
 * than a copy through shared memory. */
#define INLINE_BYTES 4096u

#define WINDOW_ALIGNMENT 8u

static bool extend(struct reply *reply)
{
    if (reply->extended)
        return true;
    if (reply->may_stop && reply->results > 0)
        return false;
    if (!reply->reserved &&
        (!reply->budget || !fragments_reserve(&reply->session->fragments, reply->budget))) {
        reply->too_large = true;
        return false;
    }
    reply->extended = true;
    reply->cursor.end = reply->cursor.start + reply->buffer_bytes;
    return true;
}

static void open_window(struct reply *reply, const struct wire_header *request)
{
    reply->segment = request->window_bytes > 0 ? atomic_load(&reply->session->segment) : NULL;
    if (!reply->segment)
        return;
    uint64_t end = (uint64_t)request->window_offset + request->window_bytes;
    uint64_t segment_bytes = wire_segment_bytes(reply->segment);
    if (end > segment_bytes)
        end = segment_bytes;
    reply->window_end = end > UINT32_MAX ? UINT32_MAX : (uint32_t)end;
    reply->window_at = request->window_offset;
}

/* Room that results must find for their fields. */
static size_t promised_bytes(const struct reply *reply)
{
    return (reply->may_stop ? 1 : (size_t)reply->results_to_come) * MAX_FIELDS_BYTES;
}

enum kv_status reply_start(struct reply *reply, struct session *session,
                           struct fragment_budget *budget, bool reserved,
                           const struct wire_header *request, uint8_t *buffer, size_t buffer_bytes,
                           uint8_t *scratch, size_t scratch_bytes)
{
    *reply = (struct reply){.session = session,
                            .budget = budget,
                            .reserved = reserved,
                            .cursor = write_cursor(buffer, session->reply_bytes),
                            .buffer_bytes = buffer_bytes,
                            .may_stop = request->flags & WIRE_REQUEST_MAY_STOP,
                            .results_to_come = request->count,
                            .scratch = scratch,
                            .scratch_bytes = scratch_bytes};
    KV_ASSERT(session->reply_bytes <= buffer_bytes);
    struct wire_header header = deliver_header(session, request->request_id, KV_OK);
    wire_put_header(&reply->cursor, &header);
    open_window(reply, request);
    if (promised_bytes(reply) > write_cursor_left(&reply->cursor) && !extend(reply))
        return KV_OVERLOADED;
    return KV_OK;
}

bool reply_is_full(const struct reply *reply)
{
    return reply->may_stop && reply->results > 0 &&
           (reply->extended || write_cursor_left(&reply->cursor) < MAX_FIELDS_BYTES);
}

bool reply_has_room(const struct reply *reply, unsigned results)
{
    return !reply->may_stop || (!reply->extended && write_cursor_left(&reply->cursor) >=
                                                        (size_t)results * MAX_FIELDS_BYTES);
}

/* Bytes for the value of the next result, when its usual fields are before it. */
static size_t room_for_value(const struct reply *reply)
{
    size_t promised = promised_bytes(reply);
    size_t left = write_cursor_left(&reply->cursor);
    return left > promised ? left - promised : 0;
}

static struct reply_place place_in_message(const struct reply *reply)
{
    return (struct reply_place){.kind = PLACE_MESSAGE,
                                .at = reply->cursor.at + USUAL_FIELDS_BYTES,
                                .capacity = room_for_value(reply)};
}

/* The next free, aligned offset. */
static uint64_t window_next(const struct reply *reply)
{
    return ((uint64_t)reply->window_at + WINDOW_ALIGNMENT - 1) & ~(uint64_t)(WINDOW_ALIGNMENT - 1);
}

static struct reply_place place_in_window(const struct reply *reply)
{
    struct reply_place nowhere = {.kind = PLACE_NONE};
    if (!reply->segment)
        return nowhere;
    uint64_t at = window_next(reply);
    if (at >= reply->window_end)
        return nowhere;
    size_t capacity = (size_t)(reply->window_end - at);
    uint8_t *mapped = wire_segment_at(reply->segment, at, capacity);
    if (!mapped && capacity > reply->scratch_bytes)
        capacity = reply->scratch_bytes;
    return (struct reply_place){
        .kind = PLACE_WINDOW, .at = mapped ? mapped : reply->scratch, .capacity = capacity};
}

struct reply_place reply_place(struct reply *reply, size_t needed_bytes)
{
    struct reply_place in_message = place_in_message(reply);
    struct reply_place in_window = place_in_window(reply);
    bool window_fits = in_window.kind == PLACE_WINDOW && needed_bytes <= in_window.capacity;
    if (window_fits && needed_bytes > INLINE_BYTES)
        return in_window;
    if (needed_bytes <= in_message.capacity) {
        if (window_fits && in_message.capacity > INLINE_BYTES)
            in_message.capacity = INLINE_BYTES;
        return in_message;
    }
    if (window_fits)
        return in_window;
    if (!reply->extended && extend(reply) && needed_bytes <= room_for_value(reply))
        return place_in_message(reply);
    return (struct reply_place){.kind = PLACE_NONE};
}

struct reply_place reply_largest_place(struct reply *reply)
{
    struct reply_place in_message = place_in_message(reply);
    struct reply_place in_window = place_in_window(reply);
    return in_window.capacity > in_message.capacity ? in_window : in_message;
}

static void count_result(struct reply *reply)
{
    KV_ASSERT(reply->results_to_come > 0); /* an operation has one result */
    reply->results++;
    reply->results_to_come--;
}

static bool add_in_window(struct reply *reply, struct wire_result *result,
                          const struct reply_place *place)
{
    uint64_t at = window_next(reply);
    KV_ASSERT(at + result->value.size <= reply->window_end);
    if (place->at == reply->scratch) {
        if (result->value.size > reply->scratch_used)
            reply->scratch_used = result->value.size;
        if (!wire_segment_write(reply->segment, at, place->at, result->value.size))
            return false;
    }
    result->flags |= WIRE_RESULT_IN_SEGMENT;
    result->value_offset = (uint32_t)at;
    result->value.data = NULL;
    wire_put_result_fields(&reply->cursor, result);
    reply->window_at = (uint32_t)(at + result->value.size);
    return true;
}

/* The value lies behind where the usual fields end; the fields it has decide where it must be. */
static void add_in_message(struct reply *reply, const struct wire_result *result,
                           const struct reply_place *place)
{
    size_t fields_bytes = wire_result_size(result) - result->value.size;
    KV_ASSERT(wire_result_size(result) <= write_cursor_left(&reply->cursor));
    if (fields_bytes != USUAL_FIELDS_BYTES)
        memmove(reply->cursor.at + fields_bytes, place->at, result->value.size);
    wire_put_result_fields(&reply->cursor, result);
    write_room(&reply->cursor, result->value.size);
}

/* The window does not take the value, which is in the scratch buffer: it goes into the message. */
static bool add_elsewhere(struct reply *reply, const struct wire_result *result,
                          const struct reply_place *place)
{
    reply->segment = NULL;
    struct reply_place in_message = reply_place(reply, result->value.size);
    if (in_message.kind == PLACE_NONE)
        return false;
    memcpy(in_message.at, place->at, result->value.size);
    add_in_message(reply, result, &in_message);
    return true;
}

bool reply_add_placed(struct reply *reply, struct wire_result *result,
                      const struct reply_place *place)
{
    if (place->kind != PLACE_WINDOW)
        add_in_message(reply, result, place);
    else if (!add_in_window(reply, result, place) && !add_elsewhere(reply, result, place))
        return false;
    count_result(reply);
    return true;
}

void reply_add(struct reply *reply, const struct wire_result *result)
{
    KV_ASSERT(wire_result_size(result) <= write_cursor_left(&reply->cursor));
    wire_put_result(&reply->cursor, result);
    count_result(reply);
}

void reply_abandon(struct reply *reply)
{
    if (reply->extended)
        fragments_cancel(&reply->session->fragments, reply->budget);
    reply->extended = false;
}

struct kv_slice reply_finish(struct reply *reply)
{
    KV_ASSERT(reply->extended || write_cursor_used(&reply->cursor) <= reply->session->reply_bytes);
    wire_patch_count(reply->cursor.start, reply->results);
    return kv_slice(reply->cursor.start, write_cursor_used(&reply->cursor));
}
