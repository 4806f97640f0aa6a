/*
 * value_segment: the POSIX shared-memory segment through which one session's big values go. The
 * client creates and pays for it, offers its name (WIRE_SEGMENT), and unlinks the name when the
 * server has answered, so that kill -9 leaves nothing behind.
 *
 * Trust: the peer can change the bytes at any time, and truncate the object (then a mapping raises
 * SIGBUS, which wire_segment_is_broken tells of). The server maps it only if the client has its own
 * uid, else it reads and writes with pread and pwrite, and in both cases copies before it believes.
 */
#ifndef MQKV_WIRE_VALUE_SEGMENT_H
#define MQKV_WIRE_VALUE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "mqkv/slice.h"

struct wire_segment; /* opaque */

/* Client: creates (O_EXCL, mode) and maps. Its pages take memory when they are touched. */
enum kv_status wire_segment_create(const char *name, uint64_t bytes, mode_t mode,
                                   struct wire_segment **segment, struct kv_error *error);

/* Server: opens and checks that creator_uid owns it and that it has at least `bytes`; maps it if
 * `map`. Never waits: an object with a lease on it is KV_DENIED. */
enum kv_status wire_segment_open(const char *name, uint64_t bytes, uid_t creator_uid, bool map,
                                 struct wire_segment **segment, struct kv_error *error);

void wire_segment_close(struct wire_segment *segment); /* NULL is harmless; does not unlink */

uint64_t wire_segment_bytes(const struct wire_segment *segment);
bool wire_segment_is_mapped(const struct wire_segment *segment);

/* Server, mapped: the peer has truncated the object, and what was read since, or before in the same
 * operation, may be zeros (mapguard.h, whose handler must be installed). For good. */
bool wire_segment_is_broken(const struct wire_segment *segment);

/* The mapped memory at offset, if size bytes from there lie within it; NULL if they do not, if it
 * is not mapped, or if the system has no memory for them (/dev/shm is full: merely touching them
 * would raise SIGBUS). Memory is taken from the start of the segment up to the end of what is asked
 * for. */
void *wire_segment_at(const struct wire_segment *segment, uint64_t offset, uint64_t size);

/* Copies out of / into the segment, mapped or not. False: out of range, no memory left for its
 * pages, or (not mapped, read) the peer shortened it. */
bool wire_segment_read(const struct wire_segment *segment, uint64_t offset, void *data,
                       uint64_t size);
bool wire_segment_write(const struct wire_segment *segment, uint64_t offset, const void *data,
                        uint64_t size);

#endif
