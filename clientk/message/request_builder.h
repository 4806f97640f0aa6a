/*
 * batch: builds one message out of operations, within what the message, the reply and the segment
 * can hold.
 */
#ifndef MQKV_CLIENTK_MESSAGE_REQUEST_BUILDER_H
#define MQKV_CLIENTK_MESSAGE_REQUEST_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/session/connection.h"
#include "common/cursor.h"
#include "wire/message.h"

enum builder_verdict {
    BUILDER_ADDED,
    BUILDER_FULL,          /* send this message first */
    BUILDER_NEEDS_SEGMENT, /* the batch is empty and its region smaller than needed_bytes: grow the room */
    BUILDER_NO_MEMORY
};

/* Start from {0}; the memory is kept from message to message. */
struct request_builder {
    uint8_t *message; /* header and operations */
    size_t capacity;
    struct write_cursor cursor;
    uint32_t count;
    bool in_pieces; /* holds one operation that is too big for a message */
    bool may_stop;  /* the server may answer with fewer results (window.h) */
    bool closed;    /* it may not, and the last operation may be refused: none may follow it */
    size_t message_limit_bytes;
    size_t reply_left_bytes; /* of what is surely or probably needed in the reply */
    struct large_values *values;
    uint64_t region_start, region_used,
        region_end;           /* of the segment: this message may use it up to the end */
    uint64_t region_promised; /* of it, for the values of reads */
    uint64_t needed_bytes;
    const uint8_t *key_at,
        *value_at; /* of the operation added last, in the message or the segment */
};

/* An empty message for this connection, which may use the segment from region_start to region_end. */
bool builder_begin(struct request_builder *builder, struct connection *connection,
                   uint64_t region_start, uint64_t region_end);

/* Adds the operation. value_bytes: size of the value that it reads, where that is known (then there
 * will be room for it, or the verdict is another), else 0. A value that is written is copied. */
enum builder_verdict builder_add(struct request_builder *builder,
                                 const struct wire_operation *operation, uint64_t value_bytes);

/* Writes the header; returns the size of the message. *request_id tells the id. */
size_t builder_finish(struct request_builder *builder, struct connection *connection,
                      uint64_t deadline_ms, uint64_t *request_id);

/* Whether an operation of the message that was refused for want of room could fare otherwise when
 * sent again: not if it had the message to itself, and all the room for so many bytes. */
bool builder_lacked_room(const struct request_builder *builder, uint64_t value_bytes);

void builder_free(struct request_builder *builder);

#endif
