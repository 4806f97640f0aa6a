/* The commands about a part of a string. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_value.h"

/* GETRANGE, SUBSTR: start and end are checked by plan, and read again by answer. */

void plan_getrange(struct redis_job *job)
{
    int64_t start, end;
    if (redis_argument_integer(job, 2, &start) && redis_argument_integer(job, 3, &end))
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
}

/* Makes an index that counts from the end, because it is negative, one from the start. */
static int64_t from_start(int64_t index, int64_t size)
{
    if (index < 0)
        index += size;
    return index < 0 ? 0 : index;
}

static struct kv_slice cut(struct kv_slice value, int64_t start, int64_t end)
{
    int64_t size = (int64_t)value.size;
    if (start < 0 && end < 0 && start > end)
        return kv_slice("", 0);
    start = from_start(start, size);
    end = from_start(end, size);
    if (end >= size)
        end = size - 1;
    if (start > end || size == 0)
        return kv_slice("", 0);
    return kv_slice((const char *)value.data + start, (size_t)(end - start + 1));
}

bool answer_getrange(struct redis_job *job)
{
    int64_t start = 0, end = 0;
    redis_argument_integer(job, 2, &start);
    redis_argument_integer(job, 3, &end);
    enum redis_found found = redis_job_found(job, 0);
    if (found == FOUND)
        reply_bulk(redis_job_reply(job),
                   cut(redis_result_bytes(redis_job_result(job, 0)), start, end));
    else if (found == ABSENT)
        reply_bulk_text(redis_job_reply(job), "");
    return true;
}

/* SETRANGE: reads, overlays, puts if nothing has changed. steps: bytes (the new value), version. */

void plan_setrange(struct redis_job *job)
{
    int64_t offset;
    redis_job_plan_last(job);
    if (!redis_argument_integer(job, 2, &offset))
        return;
    if (offset < 0) {
        redis_job_fail(job, "ERR offset is out of range");
        return;
    }
    job->number = (uint64_t)offset;
    if (job->phase == 0) {
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
        return;
    }
    struct clientk_operation *put = redis_job_add(job, CLIENTK_PUT, job->arguments[1]);
    put->value = byte_buffer_slice(&job->steps->bytes);
    put->write.keep_expiry = true;
    redis_put_if_unchanged(put, job->steps->version);
}

/* Writes the argument over the old value, with zeros between them. False: no memory. */
static bool overlay(struct redis_job *job, struct kv_slice old, size_t offset)
{
    struct kv_slice part = job->arguments[3];
    struct byte_buffer *bytes = &job->steps->bytes;
    size_t size = old.size > offset + part.size ? old.size : offset + part.size;
    bytes->start = bytes->end = 0;
    char *room = byte_buffer_room(bytes, size);
    if (!room)
        return false;
    memset(room, 0, size);
    if (old.size > 0)
        memcpy(room, old.data, old.size);
    memcpy(room + offset, part.data, part.size);
    bytes->end += size;
    return true;
}

static bool answer_setrange_read(struct redis_job *job)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    enum redis_found found = redis_job_found(job, 0);
    struct kv_slice old = found == FOUND ? redis_result_bytes(result) : kv_slice(NULL, 0);
    size_t limit = redis_store_max_value_bytes(job->session->service->store);
    if (found == FAILED)
        return true;
    if (job->arguments[3].size == 0) {
        reply_integer(redis_job_reply(job), (int64_t)old.size);
        return true;
    }
    if (job->number > limit || job->number + job->arguments[3].size > limit) {
        redis_job_fail(job, "%s", REDIS_TOO_LARGE);
        return true;
    }
    struct redis_steps *steps = redis_job_steps(job);
    if (!steps || !overlay(job, old, (size_t)job->number)) {
        redis_job_fail(job, "ERR kresp: out of memory");
        return true;
    }
    steps->version = found == FOUND ? result->value.version : 0;
    job->phase = 1;
    return false;
}

bool answer_setrange(struct redis_job *job)
{
    if (job->phase == 0)
        return answer_setrange_read(job);
    switch (redis_job_written(job, 0)) {
    case ABSENT:
        return redis_job_try_again(job);
    case FOUND:
        reply_integer(redis_job_reply(job), (int64_t)byte_buffer_size(&job->steps->bytes));
        break;
    case FAILED:
        break;
    }
    return true;
}
