/* FUNCTION. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/script/script_function.h"
#include "bridges/kresp/session/redis_command.h"

/* Returns true if [ASYNC | SYNC] stands behind the second word, or nothing. */
static bool has_flush_mode(const struct redis_job *job)
{
    return job->count == 2 || (job->count == 3 && (redis_argument_is(job, 2, "ASYNC") ||
                                                   redis_argument_is(job, 2, "SYNC")));
}

bool answer_function_flush(struct redis_job *job)
{
    if (job->count > 3)
        redis_job_fail(job,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                       "FUNCTION HELP.",
                       (int)job->arguments[1].size, (const char *)job->arguments[1].data);
    else if (!has_flush_mode(job))
        redis_job_fail(job, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
    if (!job->error) {
        script_function_flush(job);
        reply_ok(redis_job_reply(job));
    }
    return true;
}

/* FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]. */
bool answer_function_list(struct redis_job *job)
{
    struct kv_slice pattern = {0};
    bool named = false, coded = false;
    for (size_t i = 2; i < job->count && !job->error; i++) {
        if (!coded && redis_argument_is(job, i, "WITHCODE")) {
            coded = true;
        } else if (!named && redis_argument_is(job, i, "LIBRARYNAME")) {
            named = true;
            if (++i == job->count)
                redis_job_fail(job, "ERR library name argument was not given");
            else
                pattern = job->arguments[i];
        } else {
            redis_job_fail(job, "ERR Unknown argument %.*s", (int)job->arguments[i].size,
                           (const char *)job->arguments[i].data);
        }
    }
    if (!job->error)
        script_function_list(job, named ? &pattern : NULL, coded);
    return true;
}

/* FUNCTION LOAD [REPLACE] text. */
bool answer_function_load(struct redis_job *job)
{
    bool replaces = job->count == 4 && redis_argument_is(job, 2, "REPLACE");
    struct kv_slice text = job->arguments[job->count - 1];
    if (job->count > 4 || (job->count == 4 && !replaces))
        redis_job_fail(job, "ERR Unknown option given: %.*s", (int)job->arguments[2].size,
                       (const char *)job->arguments[2].data);
    else
        script_function_load(job, text.data ? text : kv_slice("", 0), replaces);
    return true;
}

bool answer_function_delete(struct redis_job *job)
{
    if (script_function_delete(job, job->arguments[2]))
        reply_ok(redis_job_reply(job));
    else
        redis_job_fail(job, "ERR Library not found");
    return true;
}

bool answer_function_stats(struct redis_job *job)
{
    script_function_stats(job);
    return true;
}
