/*
 * job_record: the bytes of a job's entry (docs/QUEUES.md).
 */
#ifndef MQKV_CLIENTK_QUEUE_JOB_RECORD_H
#define MQKV_CLIENTK_QUEUE_JOB_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

#define JOB_RECORD_HEAD_BYTES 64u

enum job_record_state {
    JOB_FREE = 0,     /* it waits: in a lane for a worker, at a time for that time */
    JOB_LEASED = 1,   /* a worker has it until until_ms */
    JOB_REFERENCE = 2 /* at a time: stands for the entry away:LANE:TOKEN */
};

struct job_record {
    enum job_record_state state;
    uint32_t lane; /* the job's priority */
    uint32_t attempts, max_attempts, backoff_ms;
    uint64_t until_ms;
    uint64_t token; /* of the claim that is or was; 0: none */
    uint64_t id;
    uint64_t put_ms;
    uint64_t body_bytes;     /* the payload's size, if it stands in an entry body:ID; else 0 */
    struct kv_slice reason;  /* of the last failure */
    struct kv_slice payload; /* empty if it stands in body:ID */
};

/* Reads the record from `value`, in which its slices then lie. False: it is malformed. */
bool job_record_read(struct kv_slice value, struct job_record *record);

/* Writes the record to memory for the caller to free, *size bytes. NULL: no memory. */
void *job_record_write(const struct job_record *record, size_t *size);

/* Returns true if a worker may claim the record of a lane. */
static inline bool job_record_is_free(const struct job_record *record, uint64_t now_ms)
{
    return record->state == JOB_FREE || (record->state == JOB_LEASED && record->until_ms <= now_ms);
}

#endif
