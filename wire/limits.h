/*
 * limits: what the kernel allows in message queues, what a queue takes of that, and the sentence
 * that tells a person which limit was reached and what raises it.
 */
#ifndef MQKV_WIRE_LIMITS_H
#define MQKV_WIRE_LIMITS_H

#include <stdint.h>

#include "mqkv/error.h"

struct wire_geometry {
    uint16_t depth;         /* messages */
    uint32_t message_bytes; /* the largest message */
};

/* Returns the number of bytes that the kernel charges the uid of the creator of such a queue
 * (ipc/mqueue.c: depth times (message_bytes + 96)) until it is unlinked and closed everywhere. */
uint64_t wire_geometry_charge(struct wire_geometry geometry);

/* What the kernel allows now. */
struct wire_limits {
    /* /proc/sys/fs/mqueue; the kernel's defaults where that cannot be read */
    uint64_t msg_max, msgsize_max, queues_max;
    uint64_t msgqueue_bytes; /* RLIMIT_MSGQUEUE of this process, the soft limit */
};
void wire_limits_read(struct wire_limits *limits);

/* Returns a value for RLIMIT_MSGQUEUE that lets this user have need_bytes more in queues than now,
 * and some to spare: above the present value, in whole MiB. */
uint64_t wire_limits_enough(uint64_t need_bytes);

/* Writes to `how` what to type so that RLIMIT_MSGQUEUE becomes `enough`, and who may do that.
 * Returns `how`. */
#define WIRE_LIMITS_HOW_BYTES 320u
const char *wire_limits_how_to_raise(uint64_t enough, char how[WIRE_LIMITS_HOW_BYTES]);

/* Returns the status of an mq_open that failed with error_number for the new queue `name` of that
 * geometry, and writes the sentence to *error: KV_EXISTS, KV_DENIED, KV_NO_MEMORY, KV_IO, or
 * KV_LIMIT, whose sentence names the limit, what is needed, what there is, and what raises it. */
enum kv_status wire_limits_explain(const char *name, struct wire_geometry geometry,
                                   int error_number, struct kv_error *error);

#endif
