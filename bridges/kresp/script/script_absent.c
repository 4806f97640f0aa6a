/* In place of the others where kresp is built without Lua: there are no scripts. */
#include "bridges/kresp/script/script_function.h"
#include "bridges/kresp/script/script_run.h"
#include "bridges/kresp/session/redis_session.h"

static bool refuse_script(struct redis_job *job)
{
    redis_job_fail(job, "ERR kresp: this kresp was built without Lua, and runs no scripts");
    return true;
}

bool script_run(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text,
                const struct script_arguments *arguments)
{
    (void)hex, (void)text, (void)arguments;
    return refuse_script(job);
}

bool script_load_text(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text)
{
    (void)hex, (void)text;
    return !refuse_script(job);
}

bool script_is_loaded(const char hex[SHA1_HEX_BYTES])
{
    (void)hex;
    return false;
}

void script_flush_texts(void)
{
}

void script_function_load(struct redis_job *job, struct kv_slice text, bool replace)
{
    (void)text, (void)replace;
    refuse_script(job);
}

void script_function_call(struct redis_job *job, struct kv_slice name,
                          const struct script_arguments *arguments)
{
    (void)name, (void)arguments;
    refuse_script(job);
}

void script_function_list(struct redis_job *job, const struct kv_slice *pattern, bool with_code)
{
    (void)pattern, (void)with_code;
    reply_array(redis_job_reply(job), 0);
}

void script_function_stats(struct redis_job *job)
{
    refuse_script(job);
}

bool script_function_delete(struct redis_job *job, struct kv_slice name)
{
    (void)job, (void)name;
    return false;
}

void script_function_flush(struct redis_job *job)
{
    (void)job;
}
