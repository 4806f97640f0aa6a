/*
 * echo_link: a client's way to the echo server: a reply queue or ring, a lane, and a segment of
 * shared memory if its values need one. One message at a time; used by one thread at a time.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_ECHO_LINK_H
#define MQKV_EXPERIMENTS_PEERS_ECHO_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "wire/value_segment.h"

struct echo_link;

/* Sizes of one message. */
struct echo_sizes {
    size_t request_bytes, reply_bytes;
    uint32_t taken_bytes, given_bytes; /* that the server copies out of and into the segment */
};

/* Opens a link to the server of that base name. segment_bytes 0: without a segment;
 * shares_replies: with a ring instead of a reply queue. NULL: the sentence is in *error. */
struct echo_link *echo_link_open(const char *base, uint32_t segment_bytes, bool shares_replies,
                                 struct kv_error *error);
void echo_link_close(struct echo_link *link);

/* The largest message, either way. */
size_t echo_link_message_bytes(const struct echo_link *link);

/* Borrowed; NULL: opened without. */
struct wire_segment *echo_link_segment(struct echo_link *link);

/* Sends a message and waits, by mqkv's rule, for its answer. KV_OK, KV_IO, KV_TIMEOUT. */
enum kv_status echo_link_exchange(struct echo_link *link, const struct echo_sizes *sizes);

#endif
