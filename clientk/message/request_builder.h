/*
 * request_builder: builds one request of several operations, within what the message, the reply and
 * the segment can hold.
 */
#ifndef MQKV_CLIENTK_MESSAGE_REQUEST_BUILDER_H
#define MQKV_CLIENTK_MESSAGE_REQUEST_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/session/connection.h"
#include "common/memory/cursor.h"
#include "wire/message.h"

enum builder_verdict {
    BUILDER_ADDED,
    BUILDER_FULL,          /* send this request first */
    BUILDER_NEEDS_SEGMENT, /* the request is empty; its region is smaller than needed_bytes */
    BUILDER_NO_MEMORY
};

/* Start from {0}; the memory is kept from message to message. */
struct request_builder {
    uint8_t *message; /* header and operations */
    size_t capacity;
    struct write_cursor cursor;
    uint32_t count;
    bool in_fragments; /* holds one operation that is too big for a message */
    bool may_stop;     /* the server may answer with fewer results (window.h) */
    bool closed; /* it may not, and the last operation may be refused, so that none may follow it */
    size_t message_limit_bytes;
    size_t reply_left_bytes; /* not yet needed, surely or probably, in the reply */
    struct large_values *values;
    uint64_t region_start, region_used,
        region_end;           /* the part of the segment that this request may use */
    uint64_t region_promised; /* of it, for the values of reads */
    uint64_t needed_bytes;
    const uint8_t *key_at,
        *value_at; /* of the operation added last, in the message or the segment */
};

/* Begins a request, which may use the segment from region_start to region_end. False: no memory. */
bool builder_begin(struct request_builder *builder, struct connection *connection,
                   uint64_t region_start, uint64_t region_end);

/* Adds the operation. value_bytes: the size of the value that it reads, if that is known, else 0;
 * BUILDER_ADDED then promises room for it. A value that is written is copied. */
enum builder_verdict builder_add(struct request_builder *builder,
                                 const struct wire_operation *operation, uint64_t value_bytes);

/* Writes the header. Returns the size of the message, and its id in *request_id. */
size_t builder_finish(struct request_builder *builder, struct connection *connection,
                      uint64_t deadline_ms, uint64_t *request_id);

/* Whether an operation that was refused for lack of room may succeed when it is sent again: not if
 * it had the request to itself, and room for so many bytes. */
bool builder_lacked_room(const struct request_builder *builder, uint64_t value_bytes);

void builder_free(struct request_builder *builder);

#endif
