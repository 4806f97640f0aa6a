/*
 * queue: POSIX message queues as both ends use them: creating and opening with errors that say what
 * to do, and sending. With it come their names (queue_name.h), their size (limits.h), and the
 * kernel's proof of who is at the other end (identity.h).
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

/* Creates the queue O_EXCL, sets its mode by fchmod (the umask has no say), close-on-exec, opened
 * for receiving (and for sending, which the write lock needs), O_NONBLOCK as asked. Errors:
 * KV_EXISTS; KV_LIMIT with the sentence that names the exhausted limit (bytes a user, number of
 * queues, depth, message size), need, have, and the line that raises it; KV_DENIED; KV_IO. Returns
 * the descriptor through *queue. */
enum kv_status wire_queue_create(const char *name, struct wire_geometry geometry, mode_t mode,
                                 bool nonblock, mqd_t *queue, struct kv_error *error);

/* Creates with the first geometry of the ladder (depth 0 ends it) that the kernel grants; *granted
 * (may be NULL) tells which. KV_LIMIT only if none is; the sentence then is about the last one. */
enum kv_status wire_queue_create_ladder(const char *name, const struct wire_geometry *ladder,
                                        mode_t mode, bool nonblock, mqd_t *queue,
                                        struct wire_geometry *granted, struct kv_error *error);

/* The ladders of a client's reply queue: of a session with one message in flight, and of one that
 * keeps several in flight (a pipeline). */
extern const struct wire_geometry wire_reply_ladder[];
extern const struct wire_geometry wire_window_ladder[];

/* Opens an existing queue for sending, O_NONBLOCK as asked; geometry as the kernel has it (may be
 * NULL). KV_NO_SERVER: there is none (or it is in another IPC namespace: the sentence says so);
 * KV_DENIED (with the queue's owner and mode, where they can be read). */
enum kv_status wire_queue_open(const char *name, bool nonblock, mqd_t *queue,
                               struct wire_geometry *geometry, struct kv_error *error);

/* Memory to send messages from, or to receive them into, of at most so many bytes; for free. It
 * begins with a page, so that the kernel's copies do not meet the slow case of
 * common/memory/copy.h: the kernel's own copies begin 48 and 8 bytes after the start of a page, and
 * memory from malloc may begin anywhere. NULL: none. */
void *wire_queue_buffer(size_t bytes);

/* Sends to a queue that was opened O_NONBLOCK, by a descriptor that this thread alone uses
 * meanwhile; while it is full, sleeps for its turn among all who wait for room, timeout_ms in all
 * (by CLOCK_REALTIME: one that is set back prolongs the wait by as much). A queue with room costs
 * one system call and no clock read. 0, or -1 with errno ETIMEDOUT, EMSGSIZE, EBADF; EINTR is gone
 * through. */
int wire_send(mqd_t queue, const void *message, size_t size, unsigned priority,
              uint64_t timeout_ms);

#endif
