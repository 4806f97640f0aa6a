/*
 * limits: what the kernel allows in message queues, what a queue takes of it, and the sentence that
 * tells a person which limit stood in the way and the line that raises it.
 */
#ifndef MQKV_WIRE_LIMITS_H
#define MQKV_WIRE_LIMITS_H

#include <stdint.h>

#include "mqkv/error.h"

struct wire_geometry {
    uint16_t depth;         /* messages */
    uint32_t message_bytes; /* of each */
};

/* Bytes that the kernel charges the creator's uid for such a queue (ipc/mqueue.c: depth times
 * (message_bytes + 96)) until it is unlinked and closed everywhere. */
uint64_t wire_geometry_charge(struct wire_geometry geometry);

/* What the kernel allows now. */
struct wire_limits {
    uint64_t msg_max, msgsize_max,
        queues_max;          /* /proc/sys/fs/mqueue; kernel defaults if unreadable */
    uint64_t msgqueue_bytes; /* RLIMIT_MSGQUEUE of this process, soft */
};
void wire_limits_read(struct wire_limits *limits);

/* A value for RLIMIT_MSGQUEUE with which this user may have need_bytes more in queues, beside those
 * that run now, and has some room left: above the present one, in whole MiB. */
uint64_t wire_limits_enough(uint64_t need_bytes);

/* How RLIMIT_MSGQUEUE becomes `enough`: what to type, and who may. Returns `how`. */
#define WIRE_LIMITS_HOW_BYTES 320u
const char *wire_limits_how_to_raise(uint64_t enough, char how[WIRE_LIMITS_HOW_BYTES]);

/* The status and the sentence for an mq_open of a new queue that failed with error_number:
 * KV_EXISTS, KV_DENIED, KV_LIMIT (which one; need; have; what raises it), KV_NO_MEMORY, KV_IO. */
enum kv_status wire_limits_explain(const char *name, struct wire_geometry geometry,
                                   int error_number, struct kv_error *error);

#endif
