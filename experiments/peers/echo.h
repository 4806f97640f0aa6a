/*
 * echo: the least that a request and its answer over message queues can cost: the ceiling for mqkv.
 * The client sends messages as large as mqkv's requests for the same operations and asks for
 * answers as large as mqkv's replies; the server looks at a few numbers and sends bytes back. Where
 * mqkv passes values through shared memory, so do these: each side copies the bytes once. Answers
 * come through a reply queue, or through a ring in shared memory (wire/reply_ring.h).
 *
 * Message: u32 slot (which reply queue and segment), u32 reply_bytes, u32 client (a queue of the
 * same slot and another client is a new one), u32 segment_bytes (of the client's segment; 0: it has
 * none), u32 taken_bytes and u32 given_bytes (that the server copies out of it, and then into it,
 * from its start), u32 shares_replies (1: the answer goes into the ring of the slot), padding up to
 * the request's size.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_ECHO_H
#define MQKV_EXPERIMENTS_PEERS_ECHO_H

#include <stddef.h>
#include <stdint.h>

#include "wire/limits.h"

#define ECHO_HEADER_BYTES 28u
#define ECHO_LANE_DEPTH   10u
#define ECHO_MAX_LANES    16u
#define ECHO_MAX_CLIENTS  128u
#define ECHO_NAME_BYTES   80u

/* Of a client's ring: one message at a time. */
static inline struct wire_geometry echo_ring_geometry(size_t message_bytes)
{
    return (struct wire_geometry){.depth = 1, .message_bytes = (uint32_t)message_bytes};
}

/* The server's lane / a client's reply queue (or ring) and segment, as names. */
void echo_lane_name(char name[ECHO_NAME_BYTES], const char *base, unsigned lane);
void echo_reply_name(char name[ECHO_NAME_BYTES], const char *base, uint32_t slot);
void echo_segment_name(char name[ECHO_NAME_BYTES], const char *base, uint32_t slot);

#endif
