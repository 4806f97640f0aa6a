/* FUNCTION, as far as programs ask for it. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"

/* Returns true if [ASYNC | SYNC] stands behind the second word, or nothing. */
static bool has_flush_mode(const struct redis_job *job)
{
    return job->count == 2 || (job->count == 3 && (redis_argument_is(job, 2, "ASYNC") ||
                                                   redis_argument_is(job, 2, "SYNC")));
}

/* There are no functions, so deleting all of them succeeds. */
bool answer_function_flush(struct redis_job *job)
{
    if (job->count > 3)
        redis_job_fail(job,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                       "FUNCTION HELP.",
                       (int)job->arguments[1].size, (const char *)job->arguments[1].data);
    else if (!has_flush_mode(job))
        redis_job_fail(job, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
    else
        reply_ok(redis_job_reply(job));
    return true;
}

/* FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]. */
bool answer_function_list(struct redis_job *job)
{
    bool named = false, coded = false;
    for (size_t i = 2; i < job->count && !job->error; i++) {
        if (!coded && redis_argument_is(job, i, "WITHCODE")) {
            coded = true;
        } else if (!named && redis_argument_is(job, i, "LIBRARYNAME")) {
            named = true;
            if (++i == job->count)
                redis_job_fail(job, "ERR library name argument was not given");
        } else {
            redis_job_fail(job, "ERR Unknown argument %.*s", (int)job->arguments[i].size,
                           (const char *)job->arguments[i].data);
        }
    }
    if (!job->error)
        reply_array(redis_job_reply(job), 0);
    return true;
}
