/* EVAL and EVALSHA of known scripts (known_scripts.h), SCRIPT, and FUNCTION, as far as programs ask
 * for it. */
#include <ctype.h>

#include "common/report/log.h"
#include "common/time/clock.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/commands/known_scripts.h"
#include "bridges/kresp/session/log_once.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_expiry.h"
#include "bridges/kresp/session/redis_value.h"

#define NO_SCRIPT "NOSCRIPT No matching script. Please use EVAL."

/* Arguments of EVAL script 1 key token [time [replace]], or EVAL script 1 key delta. */
enum {
    ARGUMENT_SCRIPT = 1,
    ARGUMENT_KEYS,
    ARGUMENT_KEY,
    ARGUMENT_TOKEN,
    ARGUMENT_DELTA = ARGUMENT_TOKEN,
    ARGUMENT_TIME,
    ARGUMENT_REPLACE
};

static bool is_counter(enum known_script script)
{
    return script == SCRIPT_ADD || script == SCRIPT_ADD_PRESENT;
}

/* Replies that the script is not known here, and logs that once for each script. */
static void fail_unknown_script(struct redis_job *job, struct kv_slice text, const char *hex)
{
    static struct log_once seen = LOG_ONCE_EMPTY;
    char start[64] = "";
    for (size_t i = 0; i < text.size && i < sizeof start - 1; i++) {
        char c = ((const char *)text.data)[i];
        start[i] = isprint((unsigned char)c) ? c : ' ';
    }
    if (log_once_is_new(&seen, hex))
        log_info("a client uses a Lua script that is not known here: SHA-1 %s, \"%s\"", hex, start);
    redis_job_fail(job,
                   "ERR kresp: Lua scripts are not available; this one, SHA-1 %s, is none of "
                   "those that are known",
                   hex);
}

/* Returns the script of the job, or SCRIPT_UNKNOWN: the job has failed. */
static enum known_script find_script(struct redis_job *job)
{
    char hex[SHA1_HEX_BYTES];
    int64_t keys;
    bool by_hash = strcmp(job->command->name, "evalsha") == 0;
    if (by_hash && job->arguments[ARGUMENT_SCRIPT].size != SHA1_HEX_BYTES - 1) {
        redis_job_fail(job, NO_SCRIPT);
        return SCRIPT_UNKNOWN;
    }
    if (!redis_argument_integer(job, ARGUMENT_KEYS, &keys))
        return SCRIPT_UNKNOWN;
    if (keys > (int64_t)job->count - 3) {
        redis_job_fail(job, "ERR Number of keys can't be greater than number of args");
        return SCRIPT_UNKNOWN;
    }
    if (keys < 0) {
        redis_job_fail(job, "ERR Number of keys can't be negative");
        return SCRIPT_UNKNOWN;
    }
    enum known_script script = by_hash ? known_script_find(job->arguments[ARGUMENT_SCRIPT])
                                       : known_script_load(job->arguments[ARGUMENT_SCRIPT], hex);
    if (script == SCRIPT_UNKNOWN && by_hash)
        redis_job_fail(job, NO_SCRIPT);
    else if (script == SCRIPT_UNKNOWN)
        fail_unknown_script(job, job->arguments[ARGUMENT_SCRIPT], hex);
    else if (keys != 1 || job->count <= ARGUMENT_TOKEN ||
             (script != SCRIPT_RELEASE && !is_counter(script) && job->count <= ARGUMENT_TIME))
        redis_job_fail(job, "ERR kresp: this script takes one key, and a delta, or a token and, "
                            "but for a release, a time");
    return job->error ? SCRIPT_UNKNOWN : script;
}

/* The script reads the key, compares, then deletes or puts it as it was read. mode: the script.
 * steps: bytes (the value), version, expiry_ms. */

static void plan_lock_write(struct redis_job *job)
{
    int64_t expiry_ms = 0;
    struct redis_time_unit unit = {.seconds = job->mode == SCRIPT_EXPIRE_SECONDS};
    if (job->mode != SCRIPT_RELEASE &&
        !redis_expiry_parse(job, ARGUMENT_TIME, unit, false, &expiry_ms))
        return;
    bool adds = job->mode == SCRIPT_EXTEND && job->count > ARGUMENT_REPLACE &&
                kv_slice_equal(job->arguments[ARGUMENT_REPLACE], kv_slice_from_string("0"));
    if (adds)
        expiry_ms += (int64_t)(job->steps->expiry_ms - clock_realtime_ms());
    bool deletes = expiry_ms <= (int64_t)clock_realtime_ms();
    struct clientk_operation *write =
        redis_job_add(job, deletes ? CLIENTK_DELETE : CLIENTK_PUT, job->arguments[ARGUMENT_KEY]);
    write->write.if_version = job->steps->version;
    if (!deletes) {
        write->value = byte_buffer_slice(&job->steps->bytes);
        write->write.expiry_ms = (uint64_t)expiry_ms;
    }
}

static void plan_counter(struct redis_job *job)
{
    int64_t delta;
    if (!redis_argument_integer(job, ARGUMENT_DELTA, &delta))
        return;
    struct clientk_operation *add = redis_job_add(job, CLIENTK_ADD, job->arguments[ARGUMENT_KEY]);
    add->delta = delta;
    add->add.canonical = true;
    add->add.if_present = job->mode == SCRIPT_ADD_PRESENT;
}

void plan_eval(struct redis_job *job)
{
    redis_job_plan_last(job);
    if (job->phase == 1) {
        plan_lock_write(job);
        return;
    }
    job->mode = find_script(job);
    if (is_counter(job->mode))
        plan_counter(job);
    else if (job->mode != SCRIPT_UNKNOWN)
        redis_job_add(job, CLIENTK_GET, job->arguments[ARGUMENT_KEY]);
}

static bool answer_counter(struct redis_job *job)
{
    enum redis_found written = redis_job_written(job, 0);
    if (written == FOUND)
        reply_integer(redis_job_reply(job), redis_job_result(job, 0)->number);
    else if (written == ABSENT)
        reply_null(redis_job_reply(job));
    return true;
}

bool answer_eval(struct redis_job *job)
{
    if (is_counter(job->mode))
        return answer_counter(job);
    if (job->phase == 0) {
        const struct clientk_result *result = redis_job_result(job, 0);
        enum redis_found found = redis_job_found(job, 0);
        if (found == FAILED)
            return true;
        if (found == ABSENT ||
            !kv_slice_equal(redis_result_bytes(result), job->arguments[ARGUMENT_TOKEN]) ||
            (job->mode == SCRIPT_EXTEND && result->value.expiry_ms == 0)) {
            reply_integer(redis_job_reply(job), 0);
            return true;
        }
        struct redis_steps *steps = redis_job_steps(job);
        bool puts = job->mode != SCRIPT_RELEASE;
        if (!steps || (puts && !redis_job_keep_bytes(job, result->value.data, result->value.size)))
            return true;
        steps->version = result->value.version;
        steps->expiry_ms = result->value.expiry_ms;
        job->phase = 1;
        return false;
    }
    enum redis_found written = redis_job_written(job, 0);
    if (written == ABSENT)
        return redis_job_try_again(job);
    if (written == FOUND)
        reply_integer(redis_job_reply(job), 1);
    return true;
}

bool answer_script_load(struct redis_job *job)
{
    char hex[SHA1_HEX_BYTES];
    if (known_script_load(job->arguments[2], hex) == SCRIPT_UNKNOWN)
        fail_unknown_script(job, job->arguments[2], hex);
    else
        reply_bulk_text(redis_job_reply(job), hex);
    return true;
}

bool answer_script_exists(struct redis_job *job)
{
    reply_array(redis_job_reply(job), job->count - 2);
    for (size_t i = 2; i < job->count; i++)
        reply_integer(redis_job_reply(job), known_script_find(job->arguments[i]) != SCRIPT_UNKNOWN);
    return true;
}

/* Returns true if [ASYNC | SYNC] stands behind the second word, or nothing. */
static bool has_flush_mode(const struct redis_job *job)
{
    return job->count == 2 || (job->count == 3 && (redis_argument_is(job, 2, "ASYNC") ||
                                                   redis_argument_is(job, 2, "SYNC")));
}

bool answer_script_flush(struct redis_job *job)
{
    if (!has_flush_mode(job)) {
        redis_job_fail(job, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return true;
    }
    known_script_flush();
    reply_ok(redis_job_reply(job));
    return true;
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
