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

/* Creates the queue O_EXCL, close-on-exec, open for receiving (and for sending, which the write
 * lock needs), O_NONBLOCK as asked; sets its mode by fchmod, whatever the umask. *queue: the
 * descriptor. KV_EXISTS; KV_LIMIT: the sentence names the exhausted limit (bytes per user, number
 * of queues, depth, message size), what is needed, what there is, and the line that raises it;
 * KV_DENIED; KV_IO. */
enum kv_status wire_queue_create(const char *name, struct wire_geometry geometry, mode_t mode,
                                 bool nonblock, mqd_t *queue, struct kv_error *error);

/* Creates the queue with the first geometry of the ladder (depth 0 ends it) that the kernel grants;
 * *granted (may be NULL): which. KV_LIMIT: it grants none; the sentence is about the last one. */
enum kv_status wire_queue_create_ladder(const char *name, const struct wire_geometry *ladder,
                                        mode_t mode, bool nonblock, mqd_t *queue,
                                        struct wire_geometry *granted, struct kv_error *error);

/* The ladders of a client's reply queue: for a session with one message in flight, and for one with
 * several (a pipeline). */
extern const struct wire_geometry wire_reply_ladder[];
extern const struct wire_geometry wire_window_ladder[];

/* Opens an existing queue for sending, O_NONBLOCK as asked. *geometry (may be NULL): the kernel's.
 * KV_NO_SERVER: there is no such queue (or it is in another IPC namespace: the sentence says so);
 * KV_DENIED: the sentence names the queue's owner and mode, where they can be read. */
enum kv_status wire_queue_open(const char *name, bool nonblock, mqd_t *queue,
                               struct wire_geometry *geometry, struct kv_error *error);

/* Memory for messages of at most so many bytes, to send from or to receive into; free() it. It
 * begins with a page: the kernel's own buffers begin 48 and 8 bytes after the start of a page,
 * memory from malloc may begin anywhere, and copies between the two may meet the slow case of
 * common/memory/copy.h. NULL: no memory. */
void *wire_queue_buffer(size_t bytes);

/* Sends to a queue that was opened O_NONBLOCK; meanwhile no other thread may use the descriptor.
 * While the queue is full, sleeps for its turn among all senders, for timeout_ms in all (by
 * CLOCK_REALTIME: setting that clock back prolongs the wait by as much). A queue with room costs
 * one system call and no clock read. 0, or -1 with errno ETIMEDOUT, EMSGSIZE, EBADF; continues
 * after EINTR. */
int wire_send(mqd_t queue, const void *message, size_t size, unsigned priority,
              uint64_t timeout_ms);

#endif
