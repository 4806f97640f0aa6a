#include "bridges/kresp/session/redis_value.h"

#include "bridges/kresp/session/redis_error.h"
#include "bridges/kresp/session/redis_session.h"

#define MAX_ATTEMPTS 10000u

static void fail_key(struct redis_job *job)
{
    if (job->arguments[1].size == 0)
        redis_job_fail(job, "ERR kresp: empty keys are not supported");
    else
        redis_job_fail(job, "ERR kresp: keys of 0 or of more than 65535 bytes are not supported");
}

enum redis_found redis_job_found(struct redis_job *job, size_t i)
{
    enum kv_status status = redis_job_result(job, i)->status;
    if (status == KV_OK)
        return FOUND;
    if (status == KV_NOT_FOUND || status == KV_BAD_KEY)
        return ABSENT;
    reply_status(redis_job_reply(job), status);
    return FAILED;
}

enum redis_found redis_job_written(struct redis_job *job, size_t i)
{
    enum kv_status status = redis_job_result(job, i)->status;
    switch (status) {
    case KV_OK:
        return FOUND;
    case KV_NOT_FOUND:
    case KV_EXISTS:
    case KV_VERSION_MISMATCH:
        return ABSENT;
    case KV_BAD_KEY:
        fail_key(job);
        return FAILED;
    default:
        reply_status(redis_job_reply(job), status);
        return FAILED;
    }
}

bool redis_job_try_again(struct redis_job *job)
{
    struct redis_steps *steps = redis_job_steps(job);
    if (steps && ++steps->attempts <= MAX_ATTEMPTS) {
        job->phase = 0;
        return false;
    }
    redis_job_fail(job, "BUSY kresp: the key is written too often by others");
    return true;
}
