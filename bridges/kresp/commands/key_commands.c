/* The commands about keys, whatever they hold. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_comparison.h"
#include "bridges/kresp/session/redis_value.h"
#include "bridges/kresp/protocol/decimal.h"

/* DEL, UNLINK, EXISTS, TOUCH: a chunk of their keys in each batch. steps: next, total. */

static void plan_each(struct redis_job *job, enum clientk_opcode opcode)
{
    size_t start = job->steps ? job->steps->next : 1, end = job->count;
    if (end - start > REDIS_CHUNK_KEYS) {
        end = start + REDIS_CHUNK_KEYS;
        redis_job_steps(job);
    }
    if (job->steps)
        redis_job_plan_last(job);
    for (size_t i = start; i < end; i++)
        redis_job_add(job, opcode, job->arguments[i]);
    job->number = end;
}

static bool answer_each(struct redis_job *job)
{
    int64_t total = job->steps ? job->steps->total : 0;
    for (size_t i = 0; i < job->operations; i++) {
        enum redis_found found = redis_job_found(job, i);
        if (found == FAILED)
            return true;
        total += found == FOUND;
    }
    if (job->number < job->count && job->steps) {
        job->steps->next = (size_t)job->number;
        job->steps->total = total;
        return false;
    }
    reply_integer(redis_job_reply(job), total);
    return true;
}

void plan_del(struct redis_job *job)
{
    plan_each(job, CLIENTK_DELETE);
}

bool answer_del(struct redis_job *job)
{
    return answer_each(job);
}

void plan_exists(struct redis_job *job)
{
    plan_each(job, CLIENTK_EXISTS);
}

bool answer_exists(struct redis_job *job)
{
    return answer_each(job);
}

/* DELEX key [comparison]: reads, compares, deletes what was read. steps: version. */

void plan_delex(struct redis_job *job)
{
    bool compares = job->count == 4 && redis_comparison_is_at(job, 2);
    if (!compares && job->count != 2)
        redis_job_fail(job, "ERR syntax error");
    if (job->error)
        return;
    redis_job_plan_last(job);
    if (job->count == 2)
        redis_job_add(job, CLIENTK_DELETE, job->arguments[1]);
    else if (job->phase == 0)
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
    else
        redis_job_add(job, CLIENTK_DELETE, job->arguments[1])->write.if_version =
            job->steps->version;
}

bool answer_delex(struct redis_job *job)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    enum redis_found found = job->phase == 0 ? redis_job_found(job, 0) : redis_job_written(job, 0);
    if (found == FAILED)
        return true;
    if (job->phase == 1 && found == ABSENT)
        return redis_job_try_again(job);
    if (job->phase == 0 && found == FOUND && job->count == 4) {
        bool holds = redis_comparison_holds(job, 2, redis_found_bytes(result, found));
        struct redis_steps *steps = redis_job_steps(job);
        job->phase = steps != NULL;
        if (steps && holds) {
            steps->version = result->value.version;
            return false;
        }
        found = ABSENT;
    }
    reply_integer(redis_job_reply(job), found == FOUND);
    return true;
}

void plan_type(struct redis_job *job)
{
    redis_job_add(job, CLIENTK_EXISTS, job->arguments[1]);
}

bool answer_type(struct redis_job *job)
{
    enum redis_found found = redis_job_found(job, 0);
    if (found != FAILED)
        reply_simple(redis_job_reply(job), found == FOUND ? "string" : "none");
    return true;
}

/* RENAME, RENAMENX, COPY: reads the source, puts it at the destination, and (but for COPY) deletes
 * the source if it is still what was read; else begins again. steps: bytes, version and expiry_ms
 * of the source; cursor: the version that was put at the destination, 0: nothing yet. */

enum { RENAME_READ, RENAME_PUT, RENAME_DELETE };
enum rename_mode { RENAME_IS_COPY = 1 << 0, RENAME_REPLACES = 1 << 1 };

static bool parse_rename(struct redis_job *job)
{
    if (job->command->name[0] == 'c') {
        job->mode = RENAME_IS_COPY;
        for (size_t i = 3; i < job->count; i++) {
            int64_t database;
            if (redis_argument_is(job, i, "REPLACE")) {
                job->mode |= RENAME_REPLACES;
            } else if (redis_argument_is(job, i, "DB") && i + 1 < job->count) {
                if (!redis_argument_integer(job, ++i, &database))
                    return false;
                if (database != 0) {
                    redis_job_fail(job, "ERR DB index is out of range");
                    return false;
                }
            } else {
                redis_job_fail(job, "ERR syntax error");
                return false;
            }
        }
        if (kv_slice_equal(job->arguments[1], job->arguments[2]))
            redis_job_fail(job, "ERR source and destination objects are the same");
        return !job->error;
    }
    job->mode = strcmp(job->command->name, "rename") == 0 ? RENAME_REPLACES : 0;
    return true;
}

void plan_rename(struct redis_job *job)
{
    struct clientk_operation *operation;
    redis_job_plan_last(job);
    switch (job->phase) {
    case RENAME_READ:
        if (parse_rename(job))
            redis_job_add(job, CLIENTK_GET, job->arguments[1]);
        break;
    case RENAME_PUT:
        operation = redis_job_add(job, CLIENTK_PUT, job->arguments[2]);
        operation->value = byte_buffer_slice(&job->steps->bytes);
        operation->write.expiry_ms = job->steps->expiry_ms;
        if (!(job->mode & RENAME_REPLACES))
            redis_put_if_unchanged(operation, job->steps->cursor);
        break;
    default:
        operation = redis_job_add(job, CLIENTK_DELETE, job->arguments[1]);
        operation->write.if_version = job->steps->version;
        break;
    }
}

static bool reply_renamed(struct redis_job *job, bool renamed)
{
    if (job->mode == RENAME_REPLACES)
        reply_ok(redis_job_reply(job));
    else
        reply_integer(redis_job_reply(job), renamed);
    return true;
}

static bool answer_rename_read(struct redis_job *job)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    enum redis_found found = redis_job_found(job, 0);
    if (found == FAILED)
        return true;
    if (found == ABSENT && (job->mode & RENAME_IS_COPY))
        return reply_renamed(job, false);
    /* Others have deleted the source after it was copied: the result is as if it had been renamed
     * before. */
    if (found == ABSENT && job->steps && job->steps->cursor != 0)
        return reply_renamed(job, true);
    if (found == ABSENT) {
        redis_job_fail(job, "ERR no such key");
        return true;
    }
    if (kv_slice_equal(job->arguments[1], job->arguments[2]))
        return reply_renamed(job, false);
    if (!redis_job_keep_bytes(job, result->value.data, result->value.size))
        return true;
    job->steps->version = result->value.version;
    job->steps->expiry_ms = result->value.expiry_ms;
    job->phase = RENAME_PUT;
    return false;
}

static bool answer_rename_put(struct redis_job *job, bool put)
{
    struct redis_steps *steps = job->steps;
    if (!put && steps->cursor != 0) {
        /* The copy is not at the destination any more: others have replaced or deleted it. */
        steps->cursor = 0;
        return redis_job_try_again(job);
    }
    if (!put || (job->mode & RENAME_IS_COPY))
        return reply_renamed(job, put);
    steps->cursor = redis_job_result(job, 0)->value.version;
    job->phase = RENAME_DELETE;
    return false;
}

bool answer_rename(struct redis_job *job)
{
    if (job->phase == RENAME_READ)
        return answer_rename_read(job);
    enum redis_found written = redis_job_written(job, 0);
    if (written == FAILED)
        return true;
    if (job->phase == RENAME_PUT)
        return answer_rename_put(job, written == FOUND);
    if (written == ABSENT) /* the source was written or deleted meanwhile */
        return redis_job_try_again(job);
    return reply_renamed(job, true);
}

/* OBJECT ENCODING, FREQ, IDLETIME, REFCOUNT. */

void plan_object(struct redis_job *job)
{
    redis_job_add(job,
                  strcmp(job->command->name, "object|encoding") == 0 ? CLIENTK_GET : CLIENTK_EXISTS,
                  job->arguments[2]);
}

static const char *encoding(struct kv_slice value)
{
    int64_t number;
    if (decimal_parse(value, &number))
        return "int";
    return value.size <= 44 ? "embstr" : "raw";
}

bool answer_object(struct redis_job *job)
{
    const char *name = job->command->name;
    enum redis_found found = redis_job_found(job, 0);
    if (found == ABSENT)
        reply_null(redis_job_reply(job));
    if (found != FOUND)
        return true;
    if (strcmp(name, "object|encoding") == 0)
        reply_bulk_text(redis_job_reply(job),
                        encoding(redis_result_bytes(redis_job_result(job, 0))));
    else if (strcmp(name, "object|freq") == 0)
        redis_job_fail(job, "ERR An LFU maxmemory policy is not selected, access frequency not "
                            "tracked. Please note that when switching between policies at runtime "
                            "LRU and LFU data will take some time to adjust.");
    else
        reply_integer(redis_job_reply(job), strcmp(name, "object|refcount") == 0);
    return true;
}

/* The bytes that a key takes in the store besides its own: its record's header and its place in the
 * index. */
#define ENTRY_OVERHEAD_BYTES 48

void plan_memory_usage(struct redis_job *job)
{
    int64_t samples;
    if (job->count > 3 && !(job->count == 5 && redis_argument_is(job, 3, "SAMPLES"))) {
        redis_job_fail(job, "ERR syntax error");
        return;
    }
    if (job->count == 5 && !redis_argument_integer(job, 4, &samples))
        return;
    redis_job_add(job, CLIENTK_EXISTS, job->arguments[2]);
}

bool answer_memory_usage(struct redis_job *job)
{
    enum redis_found found = redis_job_found(job, 0);
    if (found == FOUND)
        reply_integer(redis_job_reply(job),
                      (int64_t)(redis_job_result(job, 0)->value.size + job->arguments[2].size +
                                ENTRY_OVERHEAD_BYTES));
    else if (found == ABSENT)
        reply_null(redis_job_reply(job));
    return true;
}
