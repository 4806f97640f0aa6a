/* The commands about when an entry ends. */
#include "common/time/clock.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_expiry.h"
#include "bridges/kresp/session/redis_value.h"

/* EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT. Without a condition one touch, or, for a time in the past,
 * one delete. With one: reads, then puts the same value with the new expiry if nothing has changed.
 * number: the expiry. steps: bytes (the value), version. */

enum expire_option {
    EXPIRE_NX = 1 << 0,
    EXPIRE_XX = 1 << 1,
    EXPIRE_GT = 1 << 2,
    EXPIRE_LT = 1 << 3
};

static bool parse_conditions(struct redis_job *job)
{
    static const char *const words[] = {"NX", "XX", "GT", "LT"};
    unsigned given = 0;
    for (size_t i = 3; i < job->count; i++) {
        unsigned option = 0;
        for (unsigned word = 0; word < 4; word++)
            if (redis_argument_is(job, i, words[word]))
                option = 1u << word;
        if (option == 0) {
            redis_job_fail(job, "ERR Unsupported option %.*s", (int)job->arguments[i].size,
                           (const char *)job->arguments[i].data);
            return false;
        }
        given |= option;
    }
    job->mode = given;
    if ((given & EXPIRE_NX) && given != EXPIRE_NX)
        redis_job_fail(job, "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if ((given & EXPIRE_GT) && (given & EXPIRE_LT))
        redis_job_fail(job, "ERR GT and LT options at the same time are not compatible");
    return !job->error;
}

static bool parse_expire(struct redis_job *job)
{
    const char *name = job->command->name;
    struct redis_time_unit unit = {.seconds = name[0] != 'p',
                                   .absolute = strstr(name, "at") != NULL};
    int64_t expiry_ms;
    if (!parse_conditions(job) || !redis_expiry_parse(job, 2, unit, false, &expiry_ms))
        return false;
    job->number = expiry_ms > 0 ? (uint64_t)expiry_ms : 0;
    return true;
}

static bool is_past(const struct redis_job *job)
{
    return job->number <= clock_realtime_ms();
}

static void plan_expire_write(struct redis_job *job)
{
    struct clientk_operation *write =
        redis_job_add(job, is_past(job) ? CLIENTK_DELETE : CLIENTK_PUT, job->arguments[1]);
    write->write.if_version = job->steps->version;
    if (write->opcode == CLIENTK_PUT) {
        write->value = byte_buffer_slice(&job->steps->bytes);
        write->write.expiry_ms = job->number;
    }
}

void plan_expire(struct redis_job *job)
{
    if (job->phase == 0 && !parse_expire(job))
        return;
    if (job->mode == 0) {
        struct clientk_operation *touch =
            redis_job_add(job, is_past(job) ? CLIENTK_DELETE : CLIENTK_TOUCH, job->arguments[1]);
        if (touch->opcode == CLIENTK_TOUCH)
            touch->write.expiry_ms = job->number;
        return;
    }
    redis_job_plan_last(job);
    if (job->phase == 0)
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
    else
        plan_expire_write(job);
}

/* The condition compares times; an entry without expiry counts as one that expires last. */
static bool condition_holds(const struct redis_job *job, uint64_t current_ms)
{
    bool expires = current_ms != 0;
    if ((job->mode & EXPIRE_NX) && expires)
        return false;
    if ((job->mode & EXPIRE_XX) && !expires)
        return false;
    if ((job->mode & EXPIRE_GT) && (!expires || job->number <= current_ms))
        return false;
    return !((job->mode & EXPIRE_LT) && expires && job->number >= current_ms);
}

bool answer_expire(struct redis_job *job)
{
    if (job->mode != 0 && job->phase == 0) {
        const struct clientk_result *result = redis_job_result(job, 0);
        enum redis_found found = redis_job_found(job, 0);
        bool writes = found == FOUND && condition_holds(job, result->value.expiry_ms) &&
                      redis_job_keep_bytes(job, result->value.data, result->value.size);
        if (!writes) {
            if (found != FAILED && !job->error)
                reply_integer(redis_job_reply(job), 0);
            return true;
        }
        job->steps->version = result->value.version;
        job->phase = 1;
        return false;
    }
    enum redis_found done = job->mode == 0 ? redis_job_found(job, 0) : redis_job_written(job, 0);
    if (done == ABSENT && job->mode != 0)
        return redis_job_try_again(job);
    if (done != FAILED)
        reply_integer(redis_job_reply(job), done == FOUND);
    return true;
}

/* PERSIST: looks, and touches only what has an expiry: nothing is written for 0. */

void plan_persist(struct redis_job *job)
{
    redis_job_plan_last(job);
    redis_job_add(job, job->phase == 0 ? CLIENTK_EXISTS : CLIENTK_TOUCH, job->arguments[1]);
}

bool answer_persist(struct redis_job *job)
{
    enum redis_found found = redis_job_found(job, 0);
    if (job->phase == 0 && found == FOUND && redis_job_result(job, 0)->value.expiry_ms != 0) {
        job->phase = 1;
        return false;
    }
    if (found != FAILED)
        reply_integer(redis_job_reply(job), job->phase == 1 && found == FOUND);
    return true;
}

void plan_ttl(struct redis_job *job)
{
    redis_job_add(job, CLIENTK_EXISTS, job->arguments[1]);
}

static int64_t time_left(const struct redis_job *job, int64_t expiry_ms)
{
    const char *name = job->command->name;
    int64_t now_ms = (int64_t)clock_realtime_ms(), time = expiry_ms;
    if (strstr(name, "ttl"))
        time = expiry_ms > now_ms ? expiry_ms - now_ms : 0;
    return name[0] == 'p' ? time : (time + 500) / 1000;
}

bool answer_ttl(struct redis_job *job)
{
    enum redis_found found = redis_job_found(job, 0);
    uint64_t expiry_ms = redis_job_result(job, 0)->value.expiry_ms;
    if (found == ABSENT)
        reply_integer(redis_job_reply(job), -2);
    else if (found == FOUND)
        reply_integer(redis_job_reply(job),
                      expiry_ms == 0 ? -1 : time_left(job, (int64_t)expiry_ms));
    return true;
}
