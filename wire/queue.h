/*
 * queue: POSIX message queues as both ends use them: create and open them, with errors that say
 * what to do, and send. Their names are in queue_name.h, their sizes in limits.h, and the kernel's
 * proof of who is at the other end in identity.h.
 */
#ifndef MQKV_WIRE_QUEUE_H
#define MQKV_WIRE_QUEUE_H

#include <mqueue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "wire/identity.h"
#include "wire/limits.h"
#include "wire/queue_name.h"

/* Creates the queue `name` (O_EXCL, close-on-exec) of that geometry, and gives it `mode`, whatever
 * the umask. *queue: its descriptor, open for receiving and for sending (which the write lock
 * needs), with O_NONBLOCK if `nonblock`. KV_EXISTS; KV_LIMIT: the sentence names the exhausted
 * limit (bytes per user, number of queues, depth, message size), what is needed, what there is, and
 * what raises it; KV_DENIED; KV_IO. */
enum kv_status wire_queue_create(const char *name, struct wire_geometry geometry, mode_t mode,
                                 bool nonblock, mqd_t *queue, struct kv_error *error);

/* Like wire_queue_create, with the first geometry of `ladder` (which ends with depth 0) that the
 * kernel grants: *granted (may be NULL). KV_LIMIT: the kernel grants none; the sentence is about
 * the last. */
enum kv_status wire_queue_create_ladder(const char *name, const struct wire_geometry *ladder,
                                        mode_t mode, bool nonblock, mqd_t *queue,
                                        struct wire_geometry *granted, struct kv_error *error);

/* The ladders of a client's reply queue: for a session with one message in flight, and for one with
 * several (a pipeline). */
extern const struct wire_geometry wire_reply_ladder[];
extern const struct wire_geometry wire_window_ladder[];

/* Opens the existing queue `name` for sending: *queue, with O_NONBLOCK if `nonblock`. *geometry
 * (may be NULL): the one that it has. KV_NO_SERVER: there is no such queue (or it is in another IPC
 * namespace: the sentence says so); KV_DENIED: the sentence names the owner and mode of the queue,
 * where they can be read. */
enum kv_status wire_queue_open(const char *name, bool nonblock, mqd_t *queue,
                               struct wire_geometry *geometry, struct kv_error *error);

/* Returns memory for messages of at most `bytes` bytes, to send from or to receive into, which the
 * caller frees with free(). NULL: no memory. It begins at the start of a page: the kernel's own
 * buffers begin 48 and 8 bytes after the start of a page, memory of malloc may begin anywhere, and
 * copies between the two may meet the slow case of common/memory/copy.h. */
void *wire_queue_buffer(size_t bytes);

/* Sends `message` to a queue that was opened with O_NONBLOCK; no other thread may use the
 * descriptor meanwhile. While the queue is full, sleeps, for at most timeout_ms in all (by
 * CLOCK_REALTIME: who sets that clock back prolongs the wait by as much); the kernel serves the
 * sleeping senders in the order in which they came. A queue with room costs one system call and no
 * clock read. Signals do not end the call. 0; -1 with errno: ETIMEDOUT, EMSGSIZE, EBADF. */
int wire_send(mqd_t queue, const void *message, size_t size, unsigned priority,
              uint64_t timeout_ms);

#endif
