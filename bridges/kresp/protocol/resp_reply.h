/*
 * resp_reply: writes replies of the Redis protocol, version 2 or 3, into a buffer. Where the two
 * versions have different types (null, maps, verbatim strings), the version of the reply decides.
 */
#ifndef MQKV_KRESP_PROTOCOL_RESP_REPLY_H
#define MQKV_KRESP_PROTOCOL_RESP_REPLY_H

#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "mqkv/slice.h"

/* Start from {.protocol = 2}. The caller frees `bytes`. A reply that could not be written leaves
 * bytes.failed. */
struct resp_reply {
    struct byte_buffer bytes;
    int protocol; /* 2 or 3 */
};

/* Replies "+PONG"; the text has no line ends. */
void reply_simple(struct resp_reply *reply, const char *text);

/* Replies "+OK", the answer to most writes. */
static inline void reply_ok(struct resp_reply *reply)
{
    byte_buffer_append(&reply->bytes, "+OK\r\n", 5);
}

/* Replies "-ERR ..."; the text begins with the code. Line ends in it become blanks. */
void reply_error(struct resp_reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void reply_integer(struct resp_reply *reply, int64_t value);
void reply_bulk(struct resp_reply *reply, struct kv_slice bytes);
void reply_bulk_text(struct resp_reply *reply, const char *text);
void reply_null(struct resp_reply *reply);
void reply_null_array(struct resp_reply *reply);

/* Replies text for people, such as that of INFO. */
void reply_verbatim(struct resp_reply *reply, struct kv_slice text);

/* The header of an array of `count` elements, of what the client has not asked for, of a map of
 * `count` pairs, or of a set. */
void reply_array(struct resp_reply *reply, size_t count);
void reply_push(struct resp_reply *reply, size_t count);
void reply_map(struct resp_reply *reply, size_t pairs);
void reply_set(struct resp_reply *reply, size_t count);

/* Returns the room for the value of a bulk string of `size` bytes, which the caller fills at once;
 * NULL: failed. */
char *reply_bulk_room(struct resp_reply *reply, size_t size);

#endif
