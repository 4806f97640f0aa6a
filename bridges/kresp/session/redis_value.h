/*
 * redis_value: what commands share about results: is there an entry, what is it, may it be changed
 * as it was read.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_VALUE_H
#define MQKV_KRESP_SESSION_REDIS_VALUE_H

#include <stdbool.h>

#include "bridges/kresp/session/redis_job.h"
#include "mqkv/clientk.h"

/* What an operation about one entry came to. */
enum redis_found {
    FOUND,
    ABSENT, /* no such key; also a key that the store cannot have, such as the empty one */
    FAILED  /* the error has been replied */
};

/* Of the job's operation i, which reads. */
enum redis_found redis_job_found(struct redis_job *job, size_t i);

/* Of the job's operation i, which writes: FOUND: done; ABSENT: its condition did not hold. A key
 * that the store cannot have is FAILED. */
enum redis_found redis_job_written(struct redis_job *job, size_t i);

static inline struct kv_slice redis_result_bytes(const struct clientk_result *result)
{
    return kv_slice(result->value.data, result->value.size);
}

/* Makes a put take place only if the entry is as it was read: of this version, or absent if it is
 * 0. */
static inline void redis_put_if_unchanged(struct clientk_operation *put, uint64_t version)
{
    put->write.if_version = version;
    put->write.if_absent = version == 0;
}

/* For a command that reads, computes and writes: the write did not take place, begin again. Returns
 * what answer is to return: true, with an error, after many attempts in vain. */
bool redis_job_try_again(struct redis_job *job);

#endif
