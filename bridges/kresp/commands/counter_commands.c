/* The commands about numbers. */
#include <math.h>

#include "common/text/parse.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_error.h"
#include "bridges/kresp/session/redis_value.h"
#include "bridges/kresp/protocol/decimal.h"

/* INCR, DECR, INCRBY, DECRBY. */

static bool parse_delta(struct redis_job *job, int64_t *delta)
{
    bool down = job->command->name[0] == 'd';
    *delta = 1;
    if (job->count > 2 && !redis_argument_integer(job, 2, delta))
        return false;
    if (down && *delta == INT64_MIN) {
        redis_job_fail(job, "ERR decrement would overflow");
        return false;
    }
    *delta = down ? -*delta : *delta;
    return true;
}

void plan_incr(struct redis_job *job)
{
    int64_t delta;
    if (!parse_delta(job, &delta))
        return;
    struct clientk_operation *add = redis_job_add(job, CLIENTK_ADD, job->arguments[1]);
    add->delta = delta;
    add->add.canonical = true; /* to Redis "007" and "-0" are no numbers */
}

bool answer_incr(struct redis_job *job)
{
    if (redis_job_written(job, 0) == FOUND)
        reply_integer(redis_job_reply(job), redis_job_result(job, 0)->number);
    return true;
}

/* INCRBYFLOAT: reads, adds, puts if nothing has changed. steps: bytes (the sum), version. */

void plan_incrbyfloat(struct redis_job *job)
{
    long double delta;
    redis_job_plan_last(job);
    if (!decimal_parse_real(job->arguments[2], &delta)) {
        redis_job_fail(job, "ERR value is not a valid float");
        return;
    }
    if (job->phase == 0) {
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
        return;
    }
    struct clientk_operation *put = redis_job_add(job, CLIENTK_PUT, job->arguments[1]);
    put->value = byte_buffer_slice(&job->steps->bytes);
    put->write.keep_expiry = true;
    redis_put_if_unchanged(put, job->steps->version);
}

bool answer_incrbyfloat(struct redis_job *job)
{
    if (job->phase == 0) {
        const struct clientk_result *result = redis_job_result(job, 0);
        enum redis_found found = redis_job_found(job, 0);
        long double old = 0, delta = 0;
        char sum[DECIMAL_REAL_BYTES];
        if (found == FAILED)
            return true;
        if (found == FOUND && !decimal_parse_real(redis_result_bytes(result), &old)) {
            redis_job_fail(job, "ERR value is not a valid float");
            return true;
        }
        decimal_parse_real(job->arguments[2], &delta);
        size_t size = isfinite(old + delta) ? decimal_write_real(sum, old + delta) : 0;
        if (size == 0) {
            redis_job_fail(job, "ERR increment would produce NaN or Infinity");
            return true;
        }
        if (!redis_job_keep_bytes(job, sum, size))
            return true;
        job->steps->version = found == FOUND ? result->value.version : 0;
        job->phase = 1;
        return false;
    }
    switch (redis_job_written(job, 0)) {
    case ABSENT:
        return redis_job_try_again(job);
    case FOUND:
        reply_bulk(redis_job_reply(job), byte_buffer_slice(&job->steps->bytes));
        break;
    case FAILED:
        break;
    }
    return true;
}
