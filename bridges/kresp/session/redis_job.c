#include "bridges/kresp/session/redis_job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "bridges/kresp/protocol/decimal.h"

struct clientk_operation *redis_job_add(struct redis_job *job, enum clientk_opcode opcode,
                                        struct kv_slice key)
{
    static _Thread_local struct clientk_operation lost;
    struct batch_memory *memory = job->memory;
    if (memory->operation_count == memory->operation_capacity && !batch_memory_grow(memory)) {
        job->error = "ERR kresp: out of memory";
        return &lost;
    }
    struct clientk_operation *operation = &memory->operations[memory->operation_count++];
    *operation = (struct clientk_operation){.opcode = opcode, .key = key};
    job->operations++;
    return operation;
}

void redis_job_fail(struct redis_job *job, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t bytes = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    char *copy = batch_memory_allocate(job->memory, bytes + 1);
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    job->error = copy ? copy : "ERR kresp: out of memory";
}

struct redis_steps *redis_job_steps(struct redis_job *job)
{
    if (!job->steps)
        job->steps = calloc(1, sizeof *job->steps);
    if (job->steps)
        job->steps->bytes.owner = job->owner;
    else
        job->error = "ERR kresp: out of memory";
    return job->steps;
}

bool redis_job_keep_bytes(struct redis_job *job, const void *data, size_t size)
{
    struct redis_steps *steps = redis_job_steps(job);
    if (!steps)
        return false;
    steps->bytes.start = steps->bytes.end = 0;
    byte_buffer_append(&steps->bytes, data, size);
    if (steps->bytes.failed)
        job->error = "ERR kresp: out of memory";
    return !steps->bytes.failed;
}

void redis_job_end(struct redis_job *job)
{
    if (!job->steps)
        return;
    byte_buffer_free(&job->steps->bytes);
    free(job->steps->arguments);
    free(job->steps);
    job->steps = NULL;
}

void redis_job_free(struct redis_job *job)
{
    if (!job)
        return;
    redis_job_end(job);
    free(job);
}

struct redis_job *redis_job_keep(struct redis_job *job)
{
    struct redis_steps *steps = redis_job_steps(job);
    struct redis_job *kept = steps ? malloc(sizeof *kept) : NULL;
    if (kept && !steps->arguments) {
        steps->arguments = calloc(job->count, sizeof *steps->arguments);
        if (steps->arguments)
            memcpy(steps->arguments, job->arguments, job->count * sizeof *steps->arguments);
    }
    if (!kept || !steps->arguments) {
        free(kept);
        return NULL;
    }
    *kept = *job;
    kept->arguments = steps->arguments;
    return kept;
}

void redis_job_follow(struct redis_job *kept, uintptr_t old, size_t size, const char *bytes)
{
    struct kv_slice *arguments = kept->steps->arguments;
    for (size_t i = 0; i < kept->count; i++) {
        uintptr_t at = (uintptr_t)arguments[i].data;
        if (at >= old && at - old < size)
            arguments[i].data = bytes + (at - old);
    }
}

bool redis_argument_is(const struct redis_job *job, size_t i, const char *word)
{
    struct kv_slice argument = job->arguments[i];
    return argument.size == strlen(word) && strncasecmp(argument.data, word, argument.size) == 0;
}

bool redis_argument_integer(struct redis_job *job, size_t i, int64_t *value)
{
    if (decimal_parse(job->arguments[i], value))
        return true;
    redis_job_fail(job, "ERR value is not an integer or out of range");
    return false;
}
