/*
 * room: the shared-memory segment of a session, through which values go that are too big for a
 * message. It is made when the first value needs it, and made anew when a bigger one comes. Where
 * none can be had, `unavailable` stays true and values go in pieces.
 */
#ifndef MQKV_CLIENTK_ROOM_H
#define MQKV_CLIENTK_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "wire/value_segment.h"

/* Values above this go through the segment if there is one: copying a value twice through a
 * message then costs more than the segment does. */
#define ROOM_INLINE_MAX_BYTES 4096u

struct room {
    struct wire_segment *segment; /* NULL: none yet */
    uint64_t bytes;
    bool unavailable;
    uint32_t expected_value_bytes; /* about the size of the values read lately */
    uint64_t
        wanted_bytes; /* what a message would have liked as its share; 0: it had what it needed */
};

struct connection;

/* Makes the segment at least so big; no message that uses it may be in flight. KV_OK also if there can be
 * none (then room->unavailable is set); KV_TIMEOUT, KV_NO_SERVER: the server did not answer the
 * offer, and the connection is suspect. */
enum kv_status room_grow(struct connection *connection, uint64_t bytes, uint64_t deadline_ms);

/* Puts the value at offset; false: no memory left in /dev/shm, and the room is unavailable now. */
bool room_put(struct room *room, uint64_t offset, struct kv_slice value);

/* Takes note of the size of a value that was read. */
void room_expect(struct room *room, uint64_t value_bytes);

void room_close(struct room *room);

/* Values in the segment begin at multiples of 8 bytes. */
static inline uint64_t room_align(uint64_t offset)
{
    return (offset + 7) & ~(uint64_t)7;
}

#endif
