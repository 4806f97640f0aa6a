/*
 * worker: what one worker does with one message: find the session, execute or manage, reply. How
 * messages come to it is pool.h's business.
 */
#ifndef MQKV_SERVERK_DISPATCH_WORKER_H
#define MQKV_SERVERK_DISPATCH_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serverk/dispatch/nice.h"
#include "serverk/dispatch/service.h"
#include "serverk/receive/receiver.h"
#include "wire/message.h"

struct worker;

/* Deals with the message of `size` bytes in the receiver's buffer, or hands it on. Returns the time
 * (monotonic ns) it was done. */
typedef uint64_t (*message_handler)(void *context, struct worker *worker, size_t size);

/* Used by one thread. It stays where it is: its execution context points at it. */
struct worker {
    const struct service *service;
    struct worker_statistics *statistics;
    struct receiver receiver;
    unsigned receivers; /* workers that serve the same queues, this one included */

    struct execution_context execution;
    message_handler handle; /* NULL: worker_handle */
    void *handle_context;
    bool is_unnoted; /* request_notes.h hears nothing of its requests */

    struct nice nice; /* of its thread */

    uint64_t done_ns;         /* end of the last message */
    uint64_t mean_service_ns; /* of a message, moving average */
};

/* The receiver is set up by the caller. False: out of memory. */
bool worker_init(struct worker *worker, const struct service *service,
                 struct worker_statistics *statistics);
void worker_free(struct worker *worker);

/* Sets up the receiver of a worker that gets its messages from another, to hold one. False: out of
 * memory; the buffer is freed by the caller of worker_free. */
bool worker_init_buffer(struct worker *worker);

/* Takes over the message that `from` has received, by exchanging the buffers. */
void worker_take_message(struct worker *worker, struct worker *from);

/* Deals with the message of `size` bytes in the receiver's buffer. Returns the time (monotonic ns)
 * it was done. */
uint64_t worker_handle(struct worker *worker, size_t size);

/* Returns whether the session may send through the lane that the worker's message came from; then
 * nobody else needs to get in there for its sake. */
bool worker_lane_admits(const struct worker *worker, struct session *session);

/* Receives and handles messages until the pool stops. False: a queue failed (errno). */
bool worker_run(struct worker *worker);

#endif
