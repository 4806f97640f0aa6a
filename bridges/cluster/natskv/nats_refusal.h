/*
 * nats_refusal: what JetStream says when it does not take a message: the member "error" of its
 * answer.
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_REFUSAL_H
#define MQKV_NATSKV_NATS_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"

enum refusal_kind {
    REFUSAL_FOR_NOW,    /* it may be taken a moment later */
    REFUSAL_IN_PROCESS, /* so may this; another copy of it is being taken */
    REFUSAL_CHANGED,    /* a subject's last sequence is not the one that was expected */
    REFUSAL_TAKEN,      /* of a batch: the stream has one of its messages, and so all of them */
    REFUSAL_INCOMPLETE, /* of a batch: a message of it did not come, or too many batches are open */
    REFUSAL_FOR_GOOD
};

enum refusal_kind nats_refusal_kind(struct kv_slice failure);

/* Reports one that is for good in the log, each reason at its own pace. Returns the status that it
 * comes to; *sentence is static. */
enum kv_status nats_refusal_report(struct kv_slice failure, const char **sentence);

#endif
