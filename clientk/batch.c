#include "clientk/batch.h"

#include <stdlib.h>

#include "clientk/translate.h"

/* A buffer that had to grow beyond this for one big message is given back. */
#define KEEP_BYTES            ((size_t)256 << 10)
/* Of a value in the segment, in its stead. */
#define OFFSET_BYTES          4u
/* The most that a result takes in the reply, without its value. */
#define RESULT_BYTES          (WIRE_RESULT_MAX_FIELD_BYTES + OFFSET_BYTES)
/* What it takes as a rule: its fixed fields and two more. Where the server may stop, the reply is filled by
 * that, and the rest kept free once. */
#define USUAL_RESULT_BYTES    (WIRE_RESULT_FIXED_BYTES + 16u)
/* A message that did not find room for all its values makes the segment grow up to so much. */
#define REASONABLE_ROOM_BYTES ((uint64_t)8 << 20)

/* What was in the message is lost. */
static bool reserve(struct batch *batch, size_t bytes)
{
    if (bytes <= batch->capacity)
        return true;
    uint8_t *message = wire_queue_buffer(bytes);
    if (!message)
        return false;
    free(batch->message);
    batch->message = message;
    batch->capacity = bytes;
    return true;
}

bool batch_begin(struct batch *batch, struct connection *connection, uint64_t region_start,
                 uint64_t region_end)
{
    if (batch->capacity > KEEP_BYTES)
        batch_free(batch);
    batch->message_limit_bytes = connection_message_bytes(connection);
    if (!reserve(batch, batch->message_limit_bytes))
        return false;
    batch->cursor = write_cursor(batch->message, batch->message_limit_bytes);
    write_room(&batch->cursor, WIRE_HEADER_BYTES);
    batch->count = 0;
    batch->in_pieces = false;
    batch->may_stop = connection->welcome.flags & WIRE_WELCOME_SHORT_REPLIES;
    batch->closed = false;
    batch->reply_left_bytes = connection->reply_geometry.message_bytes - WIRE_HEADER_BYTES;
    batch->room = &connection->room;
    batch->region_start = region_start;
    batch->region_used = region_start;
    batch->region_end = region_end;
    batch->region_promised = 0;
    return true;
}

static bool region_holds(const struct batch *batch, uint64_t bytes)
{
    return batch->region_used + batch->region_promised + room_align(bytes) <= batch->region_end;
}

/* The verdict on an operation that the region can not hold. */
static enum batch_verdict lacks_region(struct batch *batch, uint64_t bytes)
{
    if (batch->count > 0) {
        uint64_t more = 2 * (batch->region_end - batch->region_start);
        batch->room->wanted_bytes = more < REASONABLE_ROOM_BYTES ? more : REASONABLE_ROOM_BYTES;
        return BATCH_FULL;
    }
    batch->needed_bytes = batch->region_promised + room_align(bytes);
    if (batch->room->wanted_bytes > batch->needed_bytes)
        batch->needed_bytes = batch->room->wanted_bytes;
    return BATCH_NEEDS_ROOM;
}

/* Whether an earlier message would have liked a larger region. */
static bool wants_region(const struct batch *batch)
{
    return batch->count == 0 && !batch->room->unavailable &&
           batch->room->wanted_bytes > batch->region_end - batch->region_start;
}

/* False: it does not fit. */
static bool write_operation(struct batch *batch, const struct wire_operation *operation)
{
    if (!wire_put_operation(&batch->cursor, operation))
        return false;
    bool in_segment = operation->flags & WIRE_VALUE_IN_SEGMENT;
    batch->value_at = batch->cursor.at - (in_segment ? OFFSET_BYTES : operation->value.size);
    batch->key_at = batch->value_at - operation->key.size;
    batch->count++;
    return true;
}

/* Adds an operation without room in any message, to be sent in pieces. */
static enum batch_verdict add_in_pieces(struct batch *batch, const struct wire_operation *operation,
                                        size_t size)
{
    if (batch->count > 0)
        return BATCH_FULL;
    if (!reserve(batch, WIRE_HEADER_BYTES + size))
        return BATCH_NO_MEMORY;
    batch->cursor = write_cursor(batch->message, WIRE_HEADER_BYTES + size);
    write_room(&batch->cursor, WIRE_HEADER_BYTES);
    batch->in_pieces = true;
    write_operation(batch, operation);
    return BATCH_ADDED;
}

static enum batch_verdict add_inline(struct batch *batch, const struct wire_operation *operation)
{
    if (write_operation(batch, operation))
        return BATCH_ADDED;
    return add_in_pieces(batch, operation, wire_operation_size(operation));
}

/* Whether the value is better off in the segment: a big one, or one without which the rest of the
 * operation fits a message. */
static bool belongs_in_room(const struct batch *batch, const struct wire_operation *operation)
{
    if (batch->room->unavailable || operation->value.size == 0)
        return false;
    if (operation->value.size > ROOM_INLINE_MAX_BYTES)
        return true;
    size_t message_room = batch->message_limit_bytes - WIRE_HEADER_BYTES;
    size_t size = wire_operation_size(operation);
    return size > message_room && size - operation->value.size + OFFSET_BYTES <= message_room;
}

/* Adds the operation, with its value in the segment. */
static enum batch_verdict add_through_room(struct batch *batch,
                                           const struct wire_operation *operation)
{
    struct wire_operation placed = *operation;
    placed.flags |= WIRE_VALUE_IN_SEGMENT;
    placed.value_offset = (uint32_t)batch->region_used;
    if (batch->count > 0 && wire_operation_size(&placed) > write_cursor_left(&batch->cursor))
        return BATCH_FULL;
    if (!region_holds(batch, operation->value.size))
        return lacks_region(batch, operation->value.size);
    if (!room_put(batch->room, batch->region_used, operation->value))
        return add_inline(batch, operation);
    placed.value.data = NULL;
    enum batch_verdict verdict = add_inline(batch, &placed);
    if (verdict == BATCH_ADDED) {
        batch->value_at =
            wire_segment_at(batch->room->segment, placed.value_offset, operation->value.size);
        batch->region_used += room_align(operation->value.size);
    }
    return verdict;
}

/* Sets aside room for the value that the operation will give, in the reply or in the segment. */
static enum batch_verdict promise_room(struct batch *batch, enum wire_opcode opcode,
                                       uint64_t value_bytes)
{
    bool known = value_bytes > 0;
    uint64_t bytes = value_bytes;
    if (!known && operation_reads_entry(opcode))
        bytes = batch->room->expected_value_bytes;
    if (bytes <= ROOM_INLINE_MAX_BYTES && bytes + RESULT_BYTES <= batch->reply_left_bytes) {
        batch->reply_left_bytes -= bytes;
        return BATCH_ADDED;
    }
    if (wants_region(batch))
        return lacks_region(batch, bytes);
    if (region_holds(batch, bytes)) {
        batch->region_promised += room_align(bytes);
        return BATCH_ADDED;
    }
    if ((known || bytes > ROOM_INLINE_MAX_BYTES) && !batch->room->unavailable)
        return lacks_region(batch, bytes);
    return batch->count > 0 ? BATCH_FULL : BATCH_ADDED;
}

enum batch_verdict batch_add(struct batch *batch, const struct wire_operation *operation,
                             uint64_t value_bytes)
{
    if (batch->in_pieces || batch->closed || batch->count == WIRE_MAX_OPERATIONS ||
        (batch->count > 0 && batch->reply_left_bytes < RESULT_BYTES))
        return BATCH_FULL;
    bool gives_value = operation_gives_value(operation->opcode);
    if (gives_value) {
        enum batch_verdict verdict = promise_room(batch, operation->opcode, value_bytes);
        if (verdict != BATCH_ADDED)
            return verdict;
    }
    enum batch_verdict verdict = belongs_in_room(batch, operation)
                                     ? add_through_room(batch, operation)
                                     : add_inline(batch, operation);
    if (verdict == BATCH_ADDED) {
        batch->reply_left_bytes -= batch->may_stop ? USUAL_RESULT_BYTES : RESULT_BYTES;
        batch->closed = gives_value && (!batch->may_stop || value_bytes > 0);
    }
    return verdict;
}

size_t batch_finish(struct batch *batch, struct connection *connection, uint64_t deadline_ms,
                    uint64_t *request_id)
{
    *request_id = connection->next_request_id++;
    struct write_cursor cursor = write_cursor(batch->message, WIRE_HEADER_BYTES);
    /* Where no value is expected to need it, the server is spared the look at the segment. */
    uint64_t window_bytes = batch->region_promised > 0 ? batch->region_end - batch->region_used : 0;
    struct wire_header header = {.kind = WIRE_REQUEST,
                                 .flags = batch->may_stop ? WIRE_REQUEST_MAY_STOP : 0,
                                 .session = connection->session,
                                 .count = (uint16_t)batch->count,
                                 .request_id = *request_id,
                                 .secret = connection->welcome.cookie,
                                 .deadline_ms = deadline_ms,
                                 .window_offset = (uint32_t)batch->region_used,
                                 .window_bytes = (uint32_t)window_bytes};
    wire_put_header(&cursor, &header);
    return write_cursor_used(&batch->cursor);
}

bool batch_lacked_room(const struct batch *batch, uint64_t value_bytes)
{
    return batch->count > 1 ||
           (!batch->room->unavailable && batch->region_promised < room_align(value_bytes));
}

void batch_free(struct batch *batch)
{
    free(batch->message);
    *batch = (struct batch){.message = NULL};
}
