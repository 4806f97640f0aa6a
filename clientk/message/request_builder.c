#include "clientk/message/request_builder.h"

#include <stdlib.h>

#include "clientk/message/translate.h"
#include "common/assert/assert.h"

/* A buffer that had to grow beyond this for one large message is given back. */
#define KEEP_BYTES               ((size_t)256 << 10)
/* The size of an offset in the segment, which stands in place of a value. */
#define OFFSET_BYTES             4u
/* The most that a result takes in the reply, without its value. */
#define RESULT_BYTES             (WIRE_RESULT_MAX_FIELD_BYTES + OFFSET_BYTES)
/* What a result usually takes: its fixed fields and two more. If the server may stop, this is
 * counted for each result, and the difference to RESULT_BYTES is kept free once. */
#define USUAL_RESULT_BYTES       (WIRE_RESULT_FIXED_BYTES + 16u)
/* How far the segment grows because the values of a request did not all fit. */
#define REASONABLE_SEGMENT_BYTES ((uint64_t)8 << 20)

/* What holds between the calls; for assertions. */
static bool region_is_consistent(const struct request_builder *builder)
{
    return builder->region_start <= builder->region_used &&
           builder->region_used + builder->region_promised <= builder->region_end;
}

/* Replaces the buffer, whose message is lost, by one of `bytes` bytes. False: no memory. */
__attribute__((noinline)) static bool replace_buffer(struct request_builder *builder, size_t bytes)
{
    uint8_t *message = wire_queue_buffer(bytes);
    if (!message)
        return false;
    free(builder->message);
    builder->message = message;
    builder->capacity = bytes;
    return true;
}

bool builder_begin(struct request_builder *builder, struct connection *connection,
                   uint64_t region_start, uint64_t region_end)
{
    size_t limit = connection_message_bytes(connection);
    if ((limit > builder->capacity || builder->capacity > KEEP_BYTES) &&
        !replace_buffer(builder, limit))
        return false;
    builder->cursor = write_cursor(builder->message, limit);
    builder->cursor.at += WIRE_HEADER_BYTES;
    builder->message_limit_bytes = limit;
    builder->count = 0;
    builder->in_fragments = false;
    builder->may_stop = connection->welcome.flags & WIRE_WELCOME_SHORT_REPLIES;
    builder->may_transact = connection->welcome.flags & WIRE_WELCOME_TRANSACTIONS;
    builder->closed = false;
    builder->reply_left_bytes = connection->reply_geometry.message_bytes - WIRE_HEADER_BYTES;
    builder->values = &connection->values;
    builder->region_start = region_start;
    builder->region_used = region_start;
    builder->region_end = region_end;
    builder->region_promised = 0;
    KV_ASSERT(region_is_consistent(builder) && region_end <= connection->values.bytes);
    return true;
}

static bool region_holds(const struct request_builder *builder, uint64_t bytes)
{
    return builder->region_used + builder->region_promised + large_values_align(bytes) <=
           builder->region_end;
}

/* Decides on an operation whose value, of `bytes` bytes, the region cannot hold. */
static enum builder_verdict refuse_for_region(struct request_builder *builder, uint64_t bytes)
{
    if (builder->count > 0) {
        uint64_t more = 2 * (builder->region_end - builder->region_start);
        builder->values->wanted_bytes =
            more < REASONABLE_SEGMENT_BYTES ? more : REASONABLE_SEGMENT_BYTES;
        return BUILDER_FULL;
    }
    builder->needed_bytes = builder->region_promised + large_values_align(bytes);
    if (builder->values->wanted_bytes > builder->needed_bytes)
        builder->needed_bytes = builder->values->wanted_bytes;
    return BUILDER_NEEDS_SEGMENT;
}

/* Writes the operation into the message. False: it does not fit. */
static inline bool write_operation(struct request_builder *builder,
                                   const struct wire_operation *operation)
{
    if (!wire_put_operation(&builder->cursor, operation))
        return false;
    bool in_segment = operation->flags & WIRE_VALUE_IN_SEGMENT;
    builder->value_at = builder->cursor.at - (in_segment ? OFFSET_BYTES : operation->value.size);
    builder->key_at = builder->value_at - operation->key.size;
    builder->count++;
    return true;
}

static enum builder_verdict builder_add_elsewhere(struct request_builder *builder,
                                                  const struct wire_operation *operation);

static inline enum builder_verdict builder_add_inline(struct request_builder *builder,
                                                      const struct wire_operation *operation)
{
    return write_operation(builder, operation) ? BUILDER_ADDED
                                               : builder_add_elsewhere(builder, operation);
}

/* Adds the operation, with its value in the segment. */
__attribute__((noinline)) static enum builder_verdict
builder_add_through_segment(struct request_builder *builder, const struct wire_operation *operation)
{
    struct wire_operation placed = *operation;
    placed.flags |= WIRE_VALUE_IN_SEGMENT;
    placed.value_offset = (uint32_t)builder->region_used;
    if (builder->count > 0 && wire_operation_size(&placed) > write_cursor_left(&builder->cursor))
        return BUILDER_FULL;
    if (!region_holds(builder, operation->value.size))
        return refuse_for_region(builder, operation->value.size);
    if (!large_values_put(builder->values, builder->region_used, operation->value))
        return builder_add_inline(builder, operation);
    placed.value.data = NULL;
    enum builder_verdict verdict = builder_add_inline(builder, &placed);
    if (verdict == BUILDER_ADDED) {
        builder->value_at =
            wire_segment_at(builder->values->segment, placed.value_offset, operation->value.size);
        builder->region_used += large_values_align(operation->value.size);
    }
    return verdict;
}

/* Adds an operation that does not fit into the message: with its value in the segment if only the
 * rest fits a message; else in fragments, as the only operation of the request. */
__attribute__((noinline)) static enum builder_verdict
builder_add_elsewhere(struct request_builder *builder, const struct wire_operation *operation)
{
    size_t message_room = builder->message_limit_bytes - WIRE_HEADER_BYTES;
    size_t size = wire_operation_size(operation);
    bool is_placed = operation->flags & WIRE_VALUE_IN_SEGMENT;
    if (!is_placed && !builder->values->unavailable && operation->value.size > 0 &&
        size > message_room && size - operation->value.size + OFFSET_BYTES <= message_room)
        return builder_add_through_segment(builder, operation);
    if (builder->count > 0)
        return BUILDER_FULL;
    if (WIRE_HEADER_BYTES + size > builder->capacity &&
        !replace_buffer(builder, WIRE_HEADER_BYTES + size))
        return BUILDER_NO_MEMORY;
    builder->cursor = write_cursor(builder->message, WIRE_HEADER_BYTES + size);
    write_room(&builder->cursor, WIRE_HEADER_BYTES);
    builder->in_fragments = true;
    write_operation(builder, operation);
    return BUILDER_ADDED;
}

/* Sets aside room in the segment, if there is any, for a value of about `bytes` bytes (known: of
 * exactly that size) that the operation will give and for which the reply has no room. */
__attribute__((noinline)) static enum builder_verdict
reserve_region(struct request_builder *builder, uint64_t bytes, bool known)
{
    /* An earlier request would have used a larger region. */
    bool wants_larger = builder->count == 0 && !builder->values->unavailable &&
                        builder->values->wanted_bytes > builder->region_end - builder->region_start;
    if (wants_larger)
        return refuse_for_region(builder, bytes);
    if (region_holds(builder, bytes)) {
        builder->region_promised += large_values_align(bytes);
        return BUILDER_ADDED;
    }
    if ((known || bytes > VALUE_INLINE_MAX_BYTES) && !builder->values->unavailable)
        return refuse_for_region(builder, bytes);
    return builder->count > 0 ? BUILDER_FULL : BUILDER_ADDED;
}

/* After a TRANSACT whose value has `bytes` bytes, which is about what its answer has. A server that
 * does not know it executes nothing behind it, and refuses that, too. */
static void note_transaction_added(struct request_builder *builder, size_t bytes)
{
    builder->reply_left_bytes -=
        bytes < builder->reply_left_bytes ? bytes : builder->reply_left_bytes;
    builder->closed |= !builder->may_transact;
}

/* Adds a WATCH for a server that would refuse the flag. */
__attribute__((noinline)) static enum builder_verdict
builder_add_plain_watch(struct request_builder *builder, const struct wire_operation *operation,
                        uint64_t value_bytes)
{
    struct wire_operation plain = *operation;
    plain.flags &= (uint16_t)~WIRE_TELL_TRANSACTIONS;
    return builder_add(builder, &plain, value_bytes);
}

enum builder_verdict builder_add(struct request_builder *builder,
                                 const struct wire_operation *operation, uint64_t value_bytes)
{
    if ((operation->flags & WIRE_TELL_TRANSACTIONS) && !builder->may_transact)
        return builder_add_plain_watch(builder, operation, value_bytes);
    if (builder->in_fragments || builder->closed || builder->count == WIRE_MAX_OPERATIONS ||
        (builder->count > 0 && builder->reply_left_bytes < RESULT_BYTES))
        return BUILDER_FULL;
    bool gives_value = operation_gives_value(operation->opcode);
    if (gives_value) { /* room for it, in the reply or in the segment */
        uint64_t bytes = value_bytes;
        if (bytes == 0 && operation_reads_entry(operation->opcode))
            bytes = builder->values->expected_value_bytes;
        if (bytes <= VALUE_INLINE_MAX_BYTES && bytes + RESULT_BYTES <= builder->reply_left_bytes) {
            builder->reply_left_bytes -= bytes;
        } else {
            enum builder_verdict verdict = reserve_region(builder, bytes, value_bytes > 0);
            if (verdict != BUILDER_ADDED)
                return verdict;
        }
    }
    bool is_large = operation->value.size > VALUE_INLINE_MAX_BYTES && !builder->values->unavailable;
    enum builder_verdict verdict = is_large ? builder_add_through_segment(builder, operation)
                                            : builder_add_inline(builder, operation);
    if (verdict == BUILDER_ADDED) {
        KV_ASSERT(builder->reply_left_bytes >= RESULT_BYTES && region_is_consistent(builder));
        builder->reply_left_bytes -= builder->may_stop ? USUAL_RESULT_BYTES : RESULT_BYTES;
        builder->closed = gives_value && (!builder->may_stop || value_bytes > 0);
        if (operation->opcode == WIRE_OP_TRANSACT)
            note_transaction_added(builder, operation->value.size);
    }
    return verdict;
}

size_t builder_finish(struct request_builder *builder, struct connection *connection,
                      uint64_t deadline_ms, uint64_t *request_id)
{
    *request_id = connection->next_request_id++;
    struct write_cursor cursor = write_cursor(builder->message, WIRE_HEADER_BYTES);
    KV_ASSERT(builder->count > 0 && builder->count <= WIRE_MAX_OPERATIONS);
    /* If no value will need the segment, the server need not look at it. */
    uint64_t window_bytes =
        builder->region_promised > 0 ? builder->region_end - builder->region_used : 0;
    struct wire_header header = {.kind = WIRE_REQUEST,
                                 .flags = builder->may_stop ? WIRE_REQUEST_MAY_STOP : 0,
                                 .session = connection->session,
                                 .count = (uint16_t)builder->count,
                                 .request_id = *request_id,
                                 .secret = connection->welcome.cookie,
                                 .deadline_ms = deadline_ms,
                                 .window_offset = (uint32_t)builder->region_used,
                                 .window_bytes = (uint32_t)window_bytes};
    wire_put_header(&cursor, &header);
    return write_cursor_used(&builder->cursor);
}

bool builder_lacked_room(const struct request_builder *builder, uint64_t value_bytes)
{
    KV_ASSERT(builder->count > 0);
    return builder->count > 1 || (!builder->values->unavailable &&
                                  builder->region_promised < large_values_align(value_bytes));
}

void builder_free(struct request_builder *builder)
{
    free(builder->message);
    *builder = (struct request_builder){.message = NULL};
}
