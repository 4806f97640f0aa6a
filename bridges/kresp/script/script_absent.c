/* In place of the others where kresp is built without Lua: there are no scripts. */
#include "bridges/kresp/script/script_run.h"

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
