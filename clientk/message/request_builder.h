/*
 * request_builder: builds one request of several operations, within what the message, the reply and
 * the segment can hold.
 *
 * Threads: as the window.
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
    BUILDER_FULL,          /* the request takes no more: send it first */
    BUILDER_NEEDS_SEGMENT, /* the request is empty, and its region smaller than needed_bytes */
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
    bool may_transact; /* the server knows TRANSACT, and WIRE_TELL_TRANSACTIONS */
    bool closed; /* the server may not stop, but may refuse the last operation for lack of room, or
                    may not know it: no other operation may follow it */
    size_t message_limit_bytes;
    size_t
        reply_left_bytes; /* the part of the reply that no result will need, surely or probably */
    struct large_values *values;
    /* The region is the part of the segment that this request may use, up to region_end. Up to
     * region_used it has values that are written; region_promised bytes of the rest are for values
     * that are read. */
    uint64_t region_start, region_used, region_end, region_promised;
    uint64_t needed_bytes;
    /* Key and value of the operation added last, in the message or in the segment. */
    const uint8_t *key_at, *value_at;
};

/* Begins a request to `connection`, which may use its segment from region_start to region_end.
 * False: no memory. */
bool builder_begin(struct request_builder *builder, struct connection *connection,
                   uint64_t region_start, uint64_t region_end);

/* Adds *operation, and copies its key and value. value_bytes: the size of the value that the
 * operation reads, if that is known, else 0; if it is known, BUILDER_ADDED promises room for that
 * value. */
enum builder_verdict builder_add(struct request_builder *builder,
                                 const struct wire_operation *operation, uint64_t value_bytes);

/* Writes the header of the request, with deadline_ms and a new *request_id. Returns the size of the
 * message. */
size_t builder_finish(struct request_builder *builder, struct connection *connection,
                      uint64_t deadline_ms, uint64_t *request_id);

/* Returns true if an operation that the server refused for lack of room may succeed when it is sent
 * again. It may not if it had the request to itself, with room for its value of value_bytes. */
bool builder_lacked_room(const struct request_builder *builder, uint64_t value_bytes);

/* Frees the memory of the builder, which can begin again. */
void builder_free(struct request_builder *builder);

#endif
