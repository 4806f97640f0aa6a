/* EVAL, EVALSHA, FCALL, their forms that only read, and SCRIPT. */
#include <ctype.h>

#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/protocol/decimal.h"
#include "bridges/kresp/script/script_function.h"
#include "bridges/kresp/script/script_run.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_value.h"

#define NO_SCRIPT "NOSCRIPT No matching script. Please use EVAL."

enum { ARGUMENT_SCRIPT = 1, ARGUMENT_KEY_COUNT, ARGUMENT_KEY };

/* Reads the keys and what follows them; false: the job has failed. */
static bool parse_script_arguments(struct redis_job *job, struct script_arguments *arguments)
{
    int64_t keys;
    if (!redis_argument_integer(job, ARGUMENT_KEY_COUNT, &keys))
        return false;
    if (keys > (int64_t)job->count - ARGUMENT_KEY)
        redis_job_fail(job, "ERR Number of keys can't be greater than number of args");
    else if (keys < 0)
        redis_job_fail(job, "ERR Number of keys can't be negative");
    if (job->error)
        return false;
    size_t name_length = strlen(job->command->name);
    *arguments = (struct script_arguments){
        .keys = job->arguments + ARGUMENT_KEY,
        .key_count = (size_t)keys,
        .rest = job->arguments + ARGUMENT_KEY + keys,
        .rest_count = job->count - ARGUMENT_KEY - (size_t)keys,
        .read_only = strcmp(job->command->name + name_length - 3, "_ro") == 0,
    };
    return true;
}

/* Copies the name of a script in lower case; false: it cannot be one. */
static bool read_script_name(struct kv_slice name, char hex[SHA1_HEX_BYTES])
{
    const char *bytes = name.data;
    if (name.size != SHA1_HEX_BYTES - 1)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        if (!isxdigit((unsigned char)bytes[i]))
            return false;
        hex[i] = (char)tolower((unsigned char)bytes[i]);
    }
    hex[SHA1_HEX_BYTES - 1] = '\0';
    return true;
}

static struct kv_slice script_of(const struct redis_job *job, size_t i)
{
    struct kv_slice text = job->arguments[i];
    return text.data ? text : kv_slice("", 0);
}

bool answer_eval(struct redis_job *job)
{
    char hex[SHA1_HEX_BYTES];
    struct script_arguments arguments;
    if (!parse_script_arguments(job, &arguments))
        return true;
    sha1_hex(script_of(job, ARGUMENT_SCRIPT), hex);
    script_run(job, hex, script_of(job, ARGUMENT_SCRIPT), &arguments);
    return true;
}

bool answer_evalsha(struct redis_job *job)
{
    char hex[SHA1_HEX_BYTES];
    struct script_arguments arguments;
    bool can_be = job->arguments[ARGUMENT_SCRIPT].size == SHA1_HEX_BYTES - 1;
    if (can_be && !parse_script_arguments(job, &arguments))
        return true;
    if (!can_be || !read_script_name(job->arguments[ARGUMENT_SCRIPT], hex) ||
        !script_run(job, hex, kv_slice(NULL, 0), &arguments))
        redis_job_fail(job, NO_SCRIPT);
    return true;
}

bool answer_fcall(struct redis_job *job)
{
    struct script_arguments arguments;
    int64_t keys;
    if (!decimal_parse(job->arguments[ARGUMENT_KEY_COUNT], &keys))
        redis_job_fail(job, "ERR Bad number of keys provided");
    else if (parse_script_arguments(job, &arguments))
        script_function_call(job, job->arguments[ARGUMENT_SCRIPT], &arguments);
    return true;
}

bool answer_script_load(struct redis_job *job)
{
    char hex[SHA1_HEX_BYTES];
    sha1_hex(script_of(job, 2), hex);
    if (script_load_text(job, hex, script_of(job, 2)))
        reply_bulk_text(redis_job_reply(job), hex);
    return true;
}

bool answer_script_exists(struct redis_job *job)
{
    char hex[SHA1_HEX_BYTES];
    reply_array(redis_job_reply(job), job->count - 2);
    for (size_t i = 2; i < job->count; i++)
        reply_integer(redis_job_reply(job),
                      read_script_name(job->arguments[i], hex) && script_is_loaded(hex));
    return true;
}

bool answer_script_flush(struct redis_job *job)
{
    if (job->count > 3 || (job->count == 3 && !redis_argument_is(job, 2, "ASYNC") &&
                           !redis_argument_is(job, 2, "SYNC"))) {
        redis_job_fail(job, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return true;
    }
    script_flush_texts();
    reply_ok(redis_job_reply(job));
    return true;
}

/* Ends the scripts of the client's user that other threads run. */
bool answer_script_kill(struct redis_job *job)
{
    struct redis_user *user = job->session->user;
    if (atomic_load(&user->scripts_running) == 0) {
        redis_job_fail(job, "NOTBUSY No scripts in execution right now.");
        return true;
    }
    atomic_fetch_add(&user->script_kills, 1);
    reply_ok(redis_job_reply(job));
    return true;
}
