/*
 * redis_value: what commands share about results: whether there is an entry, what it is, and how it
 * is changed only if it is as it was read.
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

/* Returns what the job's operation i, a read, came to. */
enum redis_found redis_job_found(struct redis_job *job, size_t i);

/* Returns what the job's operation i, a write, came to. FOUND: it took place; ABSENT: its condition
 * did not hold. A key that the store cannot have is FAILED. */
enum redis_found redis_job_written(struct redis_job *job, size_t i);

static inline struct kv_slice redis_result_bytes(const struct clientk_result *result)
{
    return kv_slice(result->value.data, result->value.size);
}

/* Returns the value that was read; data NULL: there is none. */
static inline struct kv_slice redis_found_bytes(const struct clientk_result *result,
                                                enum redis_found found)
{
    if (found != FOUND)
        return kv_slice(NULL, 0);
    return result->value.size > 0 ? redis_result_bytes(result) : kv_slice("", 0);
}

/* Makes a put take place only if the entry is as it was read: of this version, or absent if
 * `version` is 0. */
static inline void redis_put_if_unchanged(struct clientk_operation *put, uint64_t version)
{
    put->write.if_version = version;
    put->write.if_absent = version == 0;
}

/* For a command that reads, computes and writes: its write did not take place, so it begins again.
 * Returns what answer must return: true, with an error, after many attempts in vain. */
bool redis_job_try_again(struct redis_job *job);

#endif
