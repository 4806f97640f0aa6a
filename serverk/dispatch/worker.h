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

/* Used by one thread. */
struct worker {
    const struct service *service;
    struct worker_statistics *statistics;
    struct receiver receiver;
    unsigned receivers; /* workers that serve the same queues, this one included */

    uint8_t *reply;      /* replies are built here; of buffer_bytes */
    uint8_t *incoming;   /* values read out of segments that are not mapped; likewise */
    uint8_t *outgoing;   /* values on their way into such segments; likewise */
    size_t buffer_bytes; /* address space: memory is taken as far as it is used */

    struct nice nice; /* of its thread */

    bool reply_reserved; /* a transfer is reserved for the reply (reply_start) */
    uint32_t message_ms; /* that one message may take: ALLOWANCE_MS */

    uint64_t received_ns;      /* when the message being executed was */
    size_t incoming_used;      /* by it */
    struct commit_waits waits; /* of the message being executed */
    bool away;                 /* parking_begin_long was unparked for it */

    uint64_t done_ns;         /* end of the last message */
    uint64_t mean_service_ns; /* of a message, moving average */
};

/* False: out of memory. The receiver is set up by the caller. */
bool worker_init(struct worker *worker, const struct service *service,
                 struct worker_statistics *statistics);
void worker_free(struct worker *worker);

/* For a worker that gets its messages from another: sets up its receiver to hold one. False: out of
 * memory; the buffer is freed by whoever calls worker_free. */
bool worker_init_buffer(struct worker *worker);

/* Takes over the message that `from` has received, by exchanging the buffers. */
void worker_take_message(struct worker *worker, struct worker *from);

/* True if the time has passed until which the client wanted its request executed. */
bool deadline_passed(const struct wire_header *request);

/* Deals with the message of `size` bytes in the receiver's buffer. Returns the time (monotonic ns) it
 * was done. */
uint64_t worker_handle(struct worker *worker, size_t size);

/* Whether the session may send through the lane that the worker's message came from; then nobody else needs to
 * get in there for its sake. */
bool worker_lane_admits(const struct worker *worker, struct session *session);

/* Called before an operation that takes long: another worker takes over the lanes meanwhile. */
void worker_expect_long(struct worker *worker);

#endif
