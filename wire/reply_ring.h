/*
 * reply_ring: replies through shared memory instead of a reply queue. The client creates the object
 * (shm_open), which only processes of its own uid can open; the server puts messages into its
 * slots, and the client takes them out. Only the client sleeps, on a futex in the object.
 *
 * Layout (docs/PROTOCOL.md, 3.6), u32 in the byte order of the machine:
 *   offset 0    bell: 1 while the client sleeps or is about to; the server that finds 1 stores 0
 *               and wakes it
 *          4    state of slot 0, 1, ...: 0 empty, else the size of the message in it
 *         64    not used (earlier servers reserved slots here)
 *         68    ended: 1 once the server has ended the session; no message comes after that
 *         72    u64: reads of keys that were there, which the client has made without a message
 *         80    u64: likewise of keys that were not there
 *        128    slot 0; the next ones follow at a stride of message_bytes rounded up to 64
 *
 * A writer finds an empty slot, copies the message there, and stores its size as the state. The
 * reader stores 0 once it has copied the message out. The messages have no order.
 *
 * The threads and forked children of a server write one after the other, under a lock in memory
 * that they share with nobody else. So a writer finds each slot either empty or with a message that
 * the reader has not taken: while there are no more messages under way than slots, one slot is
 * empty. A child that is killed while it holds the lock leaves the slot empty, and the lock to the
 * next one.
 *
 * Trust: either side may find anything in the memory. The server reads only the states, the bell
 * and the counts of reads, each once; if the client shortens the object, SIGBUS follows, by which
 * mapguard.h marks the ring as broken. The client copies a message out before it looks at it.
 */
#ifndef MQKV_WIRE_REPLY_RING_H
#define MQKV_WIRE_REPLY_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "wire/limits.h"

#define WIRE_RING_MAX_DEPTH         15u
#define WIRE_RING_MAX_MESSAGE_BYTES 131072u

struct wire_ring; /* one side's mapping; opaque */

/* Returns the size of an object for messages of that geometry, in bytes; 0: no ring can have it. */
uint64_t wire_ring_bytes(struct wire_geometry geometry);

/* Client: creates the object `name` (O_EXCL, mode 0600) with all of its memory, and maps it as
 * *ring. The caller locks *descriptor (identity.h) and closes it. KV_EXISTS; KV_USAGE: the geometry
 * is impossible; KV_LIMIT: no memory in /dev/shm; KV_IO, ... */
enum kv_status wire_ring_create(const char *name, struct wire_geometry geometry, int *descriptor,
                                struct wire_ring **ring, struct kv_error *error);

/* Server: opens the object `name` as *descriptor, without waiting for anybody. KV_NO_SERVER: there
 * is no such object; KV_LIMIT: no descriptor is left; KV_BAD_REQUEST: it is no such object; KV_IO,
 * ... */
enum kv_status wire_ring_open(const char *name, int *descriptor, struct kv_error *error);

/* Server: maps the object of `descriptor`, which must have memory for all of the geometry, as
 * *ring. KV_BAD_REQUEST: the object is too small, or the geometry is impossible; KV_NO_MEMORY;
 * KV_IO. */
enum kv_status wire_ring_map(int descriptor, struct wire_geometry geometry, struct wire_ring **ring,
                             struct kv_error *error);

/* Unmaps; NULL is harmless. */
void wire_ring_close(struct wire_ring *ring);

/* Server, any thread or forked child: puts `message`, of `size` bytes, into a slot and wakes a
 * client that sleeps. Waits only for others that write to the same ring at this moment. False: no
 * slot is empty, the message is larger than a slot, or another writer has been stopped (SIGSTOP)
 * for a second. */
bool wire_ring_put(struct wire_ring *ring, const void *message, size_t size);

/* Server: tells the client, which may sleep, that its session has ended. The server puts nothing
 * into the ring later. */
void wire_ring_end(struct wire_ring *ring);

/* Server: returns true if the client has shortened the object; then it stays so. */
bool wire_ring_is_broken(const struct wire_ring *ring);

/* Client, one thread at a time: takes a message out and copies it to `message`, which has room for
 * the message_bytes of the geometry. Returns its size; 0: there is none; -1 with errno EBADMSG: the
 * ring is damaged. */
ssize_t wire_ring_take(struct wire_ring *ring, void *message);

/* Client: returns true if the server has ended the session. Then every message that the server has
 * put can be taken. */
bool wire_ring_has_ended(const struct wire_ring *ring);

/* Client: sleeps until there may be a message, the session has ended, a signal comes, or timeout_ms
 * milliseconds are over. */
void wire_ring_sleep(struct wire_ring *ring, uint32_t timeout_ms);

/* Reads of single keys that the client has made in place. The client adds; the server looks. */
struct wire_ring_reads {
    _Atomic uint64_t found, absent;
};

/* Client: maps the counts of the ring whose object `descriptor` is, so that they stay, whatever
 * becomes of the ring and of the descriptor. NULL: they cannot be mapped. */
struct wire_ring_reads *wire_ring_map_reads(int descriptor);

/* Unmaps; NULL is harmless. */
void wire_ring_unmap_reads(struct wire_ring_reads *reads);

/* Server: adds what the client has counted so far to *found and *absent. */
void wire_ring_add_reads(const struct wire_ring *ring, uint64_t *found, uint64_t *absent);

/* Returns the number of the file system of /dev/shm, plus 1, by which two processes know whether
 * they see the same objects; 0: there is none. A server that takes rings shows the number by its
 * lock on NAME.lock (identity.h). */
uint64_t wire_shm_number(void);

/* Returns whether the server of NAME `base`, if its uid is server_uid, takes rings from this
 * process. */
enum wire_ring_offer {
    WIRE_RING_NOT_OFFERED,
    WIRE_RING_OTHER_MEMORY, /* the server sees another /dev/shm */
    WIRE_RING_OFFERED
};
enum wire_ring_offer wire_ring_look_for_offer(const char *base, uid_t server_uid);

/* How replies come, as an option of client or server says. */
enum wire_replies {
    WIRE_REPLIES_AUTO,   /* through a ring where that is possible, else through a reply queue */
    WIRE_REPLIES_QUEUE,  /* never through a ring */
    WIRE_REPLIES_SHARED, /* through nothing but a ring */
    WIRE_REPLIES_CHOICES
};

/* Returns "auto", "queue" or "shared"; NULL: `replies` is no choice. */
const char *wire_replies_name(int replies);

#endif
