/* The commands about strings as a whole: GET and similar ones. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_comparison.h"
#include "bridges/kresp/session/redis_error.h"
#include "bridges/kresp/session/redis_value.h"

static void count_lookup(struct redis_job *job, bool hit)
{
    job->memory->hits += hit;
    job->memory->misses += !hit;
}

void plan_get(struct redis_job *job)
{
    redis_job_add(job, CLIENTK_GET, job->arguments[1]);
}

bool answer_get(struct redis_job *job)
{
    enum redis_found found = redis_job_found(job, 0);
    count_lookup(job, found == FOUND);
    if (found == FOUND)
        reply_bulk(redis_job_reply(job), redis_result_bytes(redis_job_result(job, 0)));
    else if (found == ABSENT)
        reply_null(redis_job_reply(job));
    return true;
}

/* DIGEST; plans as GET does. */
bool answer_digest(struct redis_job *job)
{
    char digest[REDIS_DIGEST_BYTES];
    enum redis_found found = redis_job_found(job, 0);
    if (found == FOUND) {
        redis_digest(redis_result_bytes(redis_job_result(job, 0)), digest);
        reply_bulk_text(redis_job_reply(job), digest);
    } else if (found == ABSENT) {
        reply_null(redis_job_reply(job));
    }
    return true;
}

void plan_strlen(struct redis_job *job)
{
    redis_job_add(job, CLIENTK_EXISTS, job->arguments[1]);
}

bool answer_strlen(struct redis_job *job)
{
    enum redis_found found = redis_job_found(job, 0);
    if (found != FAILED)
        reply_integer(redis_job_reply(job),
                      found == FOUND ? (int64_t)redis_job_result(job, 0)->value.size : 0);
    return true;
}

void plan_append(struct redis_job *job)
{
    redis_job_add(job, CLIENTK_APPEND, job->arguments[1])->value = job->arguments[2];
}

bool answer_append(struct redis_job *job)
{
    if (redis_job_written(job, 0) == FOUND)
        reply_integer(redis_job_reply(job), redis_job_result(job, 0)->number);
    return true;
}

void plan_getset(struct redis_job *job)
{
    struct clientk_operation *exchange = redis_job_add(job, CLIENTK_EXCHANGE, job->arguments[1]);
    exchange->value = job->arguments[2];
}

bool answer_getset(struct redis_job *job)
{
    if (redis_job_written(job, 0) != FOUND)
        return true;
    if (redis_job_result(job, 0)->found)
        reply_bulk(redis_job_reply(job), redis_result_bytes(redis_job_result(job, 0)));
    else
        reply_null(redis_job_reply(job));
    return true;
}

/* GETDEL: reads, then deletes what was read. steps: bytes, version. ---------------------------- */

void plan_getdel(struct redis_job *job)
{
    redis_job_plan_last(job);
    if (job->phase == 0)
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
    else
        redis_job_add(job, CLIENTK_DELETE, job->arguments[1])->write.if_version =
            job->steps->version;
}

bool answer_getdel(struct redis_job *job)
{
    enum redis_found found = job->phase == 0 ? redis_job_found(job, 0) : redis_job_written(job, 0);
    if (found == FAILED)
        return true;
    if (job->phase == 0 && found == FOUND) {
        const struct clientk_result *result = redis_job_result(job, 0);
        if (!redis_job_keep_bytes(job, result->value.data, result->value.size))
            return true;
        job->steps->version = result->value.version;
        job->phase = 1;
        return false;
    }
    if (job->phase == 0)
        reply_null(redis_job_reply(job));
    else if (found == ABSENT)
        return redis_job_try_again(job);
    else
        reply_bulk(redis_job_reply(job), byte_buffer_slice(&job->steps->bytes));
    return true;
}

/* MGET, MSET: a chunk of their keys in each batch. steps: next. -------------------------------- */

static size_t chunk_start(const struct redis_job *job)
{
    return job->steps ? job->steps->next : 1;
}

/* Decides in plan where this batch's chunk ends, in job->number: by the time of the answer the
 * memory's limit is that of another session. For a command that needs one batch only no steps are
 * made. */
static void plan_chunk(struct redis_job *job, size_t step)
{
    size_t start = chunk_start(job);
    size_t keys = (job->count - start) / step, most = redis_job_chunk(job);
    job->number = start + (keys > most ? most : keys) * step;
    if (job->steps || job->number < job->count)
        redis_job_plan_last(job);
}

/* Returns true if the chunk was the last; false: the job continues behind it in the next batch. */
static bool chunks_done(struct redis_job *job)
{
    if (job->number == job->count)
        return true;
    struct redis_steps *steps = redis_job_steps(job);
    if (!steps)
        return true;
    steps->next = job->number;
    return false;
}

void plan_mget(struct redis_job *job)
{
    plan_chunk(job, 1);
    for (size_t i = chunk_start(job); i < job->number; i++)
        redis_job_add(job, CLIENTK_GET, job->arguments[i]);
}

/* An error cannot stand in the place of a value: RESP allows errors inside of arrays, but clients
 * would take it for one of the values. */
bool answer_mget(struct redis_job *job)
{
    size_t start = chunk_start(job);
    if (start == 1)
        reply_array(redis_job_reply(job), job->count - 1);
    for (size_t i = start; i < job->number; i++) {
        enum redis_found found = redis_job_found(job, i - start);
        count_lookup(job, found == FOUND);
        if (found == FOUND)
            reply_bulk(redis_job_reply(job), redis_result_bytes(redis_job_result(job, i - start)));
        else if (found == ABSENT)
            reply_null(redis_job_reply(job));
    }
    return chunks_done(job);
}

static bool has_pairs(struct redis_job *job)
{
    if (job->count % 2 == 1)
        return true;
    redis_job_fail(job, "ERR wrong number of arguments for '%s' command", job->command->name);
    return false;
}

void plan_mset(struct redis_job *job)
{
    if (!has_pairs(job))
        return;
    plan_chunk(job, 2);
    for (size_t i = chunk_start(job); i < job->number; i += 2)
        redis_job_add(job, CLIENTK_PUT, job->arguments[i])->value = job->arguments[i + 1];
}

bool answer_mset(struct redis_job *job)
{
    for (size_t i = 0; i < job->operations; i++)
        if (redis_job_written(job, i) != FOUND)
            return true;
    if (!chunks_done(job))
        return false;
    reply_ok(redis_job_reply(job));
    return true;
}

/* MSETNX: looks at all keys, then puts those that must be absent; if somebody has written one of
 * them meanwhile, it deletes again what it has put. phase 0: looks; 1: puts; 2: takes back. steps:
 * bytes (versions that were put). */

enum { MSETNX_LOOK, MSETNX_PUT, MSETNX_TAKE_BACK };

/* Returns true if an earlier pair names the key of argument i, too: the last value is the one that
 * stays. */
static bool is_named_before(const struct redis_job *job, size_t i)
{
    for (size_t j = 1; j < i; j += 2)
        if (kv_slice_equal(job->arguments[j], job->arguments[i]))
            return true;
    return false;
}

void plan_msetnx(struct redis_job *job)
{
    if (!has_pairs(job))
        return;
    if (job->count > (size_t)REDIS_CHUNK_KEYS * 2 + 1) {
        redis_job_fail(job, "ERR kresp: MSETNX takes at most %u keys", REDIS_CHUNK_KEYS);
        return;
    }
    redis_job_plan_last(job);
    for (size_t i = 1; i < job->count; i += 2) {
        uint64_t version = 0;
        if (job->phase == MSETNX_LOOK) {
            redis_job_add(job, CLIENTK_EXISTS, job->arguments[i]);
        } else if (job->phase == MSETNX_PUT) {
            struct clientk_operation *put = redis_job_add(job, CLIENTK_PUT, job->arguments[i]);
            put->value = job->arguments[i + 1];
            put->write.if_absent = !is_named_before(job, i);
        } else {
            memcpy(&version, job->steps->bytes.data + (i / 2) * sizeof version, sizeof version);
            /* No entry has this version, so a key that was not put is not deleted. */
            redis_job_add(job, CLIENTK_DELETE, job->arguments[i])->write.if_version =
                version > 0 ? version : UINT64_MAX;
        }
    }
}

/* Makes room for the versions that are needed to take back the puts. False: no memory. */
static bool prepare_versions(struct redis_job *job)
{
    struct redis_steps *steps = redis_job_steps(job);
    if (!steps)
        return false;
    if (!byte_buffer_grow(&steps->bytes, (job->count / 2) * sizeof(uint64_t)))
        job->error = "ERR kresp: out of memory";
    return !job->error;
}

static void keep_versions(struct redis_job *job)
{
    for (size_t i = 1; i < job->count; i += 2) {
        const struct clientk_result *result = redis_job_result(job, i / 2);
        uint64_t version = result->status == KV_OK ? result->value.version : 0;
        byte_buffer_append(&job->steps->bytes, &version, sizeof version);
    }
}

static bool answer_msetnx_put(struct redis_job *job)
{
    for (size_t i = 1; i < job->count; i += 2) {
        if (redis_job_result(job, i / 2)->status != KV_EXISTS)
            continue;
        keep_versions(job);
        job->phase = MSETNX_TAKE_BACK;
        return false;
    }
    for (size_t i = 1; i < job->count; i += 2)
        if (redis_job_written(job, i / 2) == FAILED)
            return true;
    reply_integer(redis_job_reply(job), 1);
    return true;
}

bool answer_msetnx(struct redis_job *job)
{
    if (job->phase == MSETNX_PUT)
        return answer_msetnx_put(job);
    bool exists = job->phase == MSETNX_TAKE_BACK;
    for (size_t i = 1; i < job->count && !exists; i += 2) {
        enum redis_found found = redis_job_found(job, i / 2);
        if (found == FAILED)
            return true;
        exists = found == FOUND;
    }
    if (!exists) {
        job->phase = MSETNX_PUT;
        return !prepare_versions(job);
    }
    reply_integer(redis_job_reply(job), 0);
    return true;
}
