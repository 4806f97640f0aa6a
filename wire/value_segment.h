/*
 * value_segment: the POSIX shared-memory segment through which the large values of one session go.
 * The client creates it and pays for it, offers its name to the server (WIRE_SEGMENT), and unlinks
 * the name when the server has answered, so that kill -9 leaves nothing behind.
 *
 * Trust: the peer can change the bytes at any time, and shorten the object (then an access to the
 * mapping raises SIGBUS: wire_segment_is_broken). The server maps a segment only if the client has
 * the server's uid, else it reads and writes with pread and pwrite; either way it copies a value
 * before it looks at it.
 */
#ifndef MQKV_WIRE_VALUE_SEGMENT_H
#define MQKV_WIRE_VALUE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "mqkv/slice.h"

struct wire_segment; /* opaque */

/* Client: creates the object `name` of `bytes` bytes (O_EXCL, `mode`) and maps it as *segment.
 * Pages take memory when they are touched. KV_USAGE: no segment can have that size; KV_NO_MEMORY;
 * KV_IO, ... */
enum kv_status wire_segment_create(const char *name, uint64_t bytes, mode_t mode,
                                   struct wire_segment **segment, struct kv_error *error);

/* Server: opens the object `name` as *segment, if creator_uid owns it and it has at least `bytes`
 * bytes, and maps it if `map`. Never waits: an object with a lease on it is KV_DENIED, as is one of
 * another owner. KV_BAD_REQUEST: it is too small, or no segment; KV_NO_MEMORY; KV_IO, ... */
enum kv_status wire_segment_open(const char *name, uint64_t bytes, uid_t creator_uid, bool map,
                                 struct wire_segment **segment, struct kv_error *error);

/* Unmaps and closes `segment`, but does not unlink its name. NULL is harmless. */
void wire_segment_close(struct wire_segment *segment);

uint64_t wire_segment_bytes(const struct wire_segment *segment);
bool wire_segment_is_mapped(const struct wire_segment *segment);

/* Server, of a mapped segment: returns true if the peer has shortened the object; then that stays
 * so, and what was read in the same operation or later may be zeros (mapguard.h, whose handler must
 * be installed). */
bool wire_segment_is_broken(const struct wire_segment *segment);

/* Returns the mapped memory at `offset`. NULL: `size` bytes from there do not lie within the
 * segment, it is not mapped, or the system has no memory for them (/dev/shm is full: merely
 * touching them would raise SIGBUS). The segment takes memory for all bytes before offset +
 * size. */
void *wire_segment_at(const struct wire_segment *segment, uint64_t offset, uint64_t size);

/* Copy `size` bytes at `offset` of the segment to `data`, and from `data`, whether the segment is
 * mapped or not. False: they do not lie within the segment, there is no memory left for its pages,
 * or, for a segment that is not mapped, the peer has shortened it. */
bool wire_segment_read(const struct wire_segment *segment, uint64_t offset, void *data,
                       uint64_t size);
bool wire_segment_write(const struct wire_segment *segment, uint64_t offset, const void *data,
                        uint64_t size);

#endif
