/*
 * reply_ring: replies through shared memory instead of a reply queue. The client creates the object
 * (shm_open), which it alone and a server of its own uid can open; the server writes messages into
 * its slots, the client takes them out. Nobody waits in it but the client, on a futex.
 *
 * Layout (docs/PROTOCOL.md, 3.6), u32 in the byte order of the machine:
 *   offset 0    bell: 1 while the client sleeps or is about to; the server that finds 1 stores 0
 *               and wakes it
 *          4    state of slot 0, 1, ...: 0 empty, else the size of the message in it
 *         64    not used: earlier servers kept claims of slots here
 *         68    ended: 1 once the server has ended the session; no message comes after that
 *        128    slot 0; the next ones follow at a stride of message_bytes rounded up to 64
 *
 * A writer finds an empty slot, writes, and stores the size into the state. The reader stores 0
 * once it has copied the message out. Messages are in no order.
 *
 * Threads, and forked children, of a server write one after the other, under a lock in memory that
 * they share with nobody else. So who writes finds every slot either empty or with a message that
 * the reader has not taken: while no more messages are on their way than there are slots, one is
 * empty. A child that is killed with the lock leaves it to the next one, and an empty slot.
 *
 * Trust: either side may find anything in the memory. The server reads nothing from it but states
 * and bell, once each; an object that loses its bytes raises SIGBUS, which mapguard.h turns into a
 * ring that is broken. The client copies a message out before it looks at it.
 */
#ifndef MQKV_WIRE_REPLY_RING_H
#define MQKV_WIRE_REPLY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "wire/limits.h"

#define WIRE_RING_MAX_DEPTH         15u
#define WIRE_RING_MAX_MESSAGE_BYTES 131072u

struct wire_ring; /* one side's mapping; opaque */

/* What an object for such messages takes. 0: that depth or size is impossible. */
uint64_t wire_ring_bytes(struct wire_geometry geometry);

/* Client: creates the object (O_EXCL, mode 0600) with all of its memory, and maps it. *descriptor
 * is the caller's, who locks it (identity.h) and closes it. KV_EXISTS; KV_USAGE: geometry;
 * KV_LIMIT: no memory in /dev/shm; KV_IO, ... */
enum kv_status wire_ring_create(const char *name, struct wire_geometry geometry, int *descriptor,
                                struct wire_ring **ring, struct kv_error *error);

/* Server: opens the object, without waiting for anybody. KV_NO_SERVER: there is none. */
enum kv_status wire_ring_open(const char *name, int *descriptor, struct kv_error *error);

/* Server: maps the opened object, which must have memory for all of the geometry. KV_BAD_REQUEST:
 * it is too small, or the geometry impossible. */
enum kv_status wire_ring_map(int descriptor, struct wire_geometry geometry, struct wire_ring **ring,
                             struct kv_error *error);

/* Unmaps; NULL is harmless. */
void wire_ring_close(struct wire_ring *ring);

/* Server, any thread or forked child: puts a message into a slot and wakes a client that sleeps.
 * Waits for nobody but others that write to the same ring at this moment. False: there is no room,
 * the message is larger than a slot, or somebody who writes has been stopped (SIGSTOP) for a
 * second. */
bool wire_ring_put(struct wire_ring *ring, const void *message, size_t size);

/* Server: tells the client, which may sleep, that its session has ended. Nothing is put later. */
void wire_ring_end(struct wire_ring *ring);

/* Server: the client has shortened the object. For good. */
bool wire_ring_is_broken(const struct wire_ring *ring);

/* Client, one thread at a time: takes a message out, into message_bytes. Its size; 0: there is
 * none; -1 and EBADMSG: the ring is damaged. */
ssize_t wire_ring_take(struct wire_ring *ring, void *message);

/* Client: whether the server has ended the session. All messages that it has put can be taken when
 * this was seen. */
bool wire_ring_has_ended(const struct wire_ring *ring);

/* Client: sleeps until there may be a message, the session has ended, a signal comes, or timeout_ms
 * are over. */
void wire_ring_sleep(struct wire_ring *ring, uint32_t timeout_ms);

/* The number of the file system that /dev/shm is here, plus 1: by that two processes know whether
 * they see the same objects. 0: there is none. A server that takes rings shows it by its lock on
 * NAME.lock (identity.h). */
uint64_t wire_shm_number(void);

/* Whether the server of NAME `base` takes rings from this process, if it is one of that uid. */
enum wire_ring_offer {
    WIRE_RING_NOT_OFFERED,
    WIRE_RING_OTHER_MEMORY, /* the server sees another /dev/shm */
    WIRE_RING_OFFERED
};
enum wire_ring_offer wire_ring_look_for_offer(const char *base, uid_t server_uid);

/* What an option says, on either side. */
enum wire_replies {
    WIRE_REPLIES_AUTO,   /* through a ring where that is possible, else through a reply queue */
    WIRE_REPLIES_QUEUE,  /* never through a ring */
    WIRE_REPLIES_SHARED, /* through nothing but a ring */
    WIRE_REPLIES_CHOICES
};

/* "auto", "queue", "shared"; NULL: there is no such choice. */
const char *wire_replies_name(int replies);

#endif
