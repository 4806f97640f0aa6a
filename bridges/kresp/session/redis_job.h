/*
 * redis_job: one command under way: its arguments, the operations that it asked the store for, and,
 * if it needs several batches, what it keeps between them.
 *
 * A command is two functions. `plan` adds operations; `answer` reads their results and writes the
 * reply. If a command needs the result of one operation for the next, its plan calls
 * redis_job_plan_last: nothing of that connection is then planned behind it in this batch. Its
 * answer may then return false, after raising job->phase; plan and answer are called again in the
 * next batch.
 *
 * If plan finds a mistake (redis_job_fail), that is the reply, and answer is not called.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_JOB_H
#define MQKV_KRESP_SESSION_REDIS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "bridges/kresp/session/batch_memory.h"
#include "mqkv/clientk.h"

struct redis_command;
struct redis_session;
struct transaction_run;

/* The keys of one command that one batch deals with; for a command that reads values,
 * redis_job_chunk says how many. */
#define REDIS_CHUNK_KEYS 128u

/* What a command keeps between its batches. Its functions say what the fields mean for it. */
struct redis_steps {
    struct kv_slice *arguments; /* a copy of the slices; their bytes stay where they are */
    struct byte_buffer bytes;
    uint64_t version, expiry_ms, cursor;
    int64_t total;
    size_t next; /* the argument to continue with */
    unsigned attempts;
};

struct redis_job {
    struct redis_session *session;
    struct batch_memory *memory; /* the batch's memory */
    struct buffer_owner *owner;  /* to whom the memory of its steps is counted */
    const struct redis_command *command;
    struct transaction_run *run;      /* the transaction that executes it; NULL: none does */
    const struct kv_slice *arguments; /* the first is the command's name */
    size_t count;
    size_t first_operation, operations; /* its operations in this batch */
    const char *error;                  /* set in plan; lives as long as the batch */
    unsigned phase;                     /* 0 in the first batch */
    unsigned mode;                      /* what plan tells answer */
    uint64_t number;                    /* another such number */
    bool is_planned_last;
    struct redis_steps *steps; /* owned by the job; NULL before redis_job_steps */
};

/* Adds an operation of this opcode on this key, and returns it to be filled in. Valid until the
 * next one is added. If there is no memory, the job has failed, and the operation that it returns
 * is not executed. */
struct clientk_operation *redis_job_add(struct redis_job *job, enum clientk_opcode opcode,
                                        struct kv_slice key);

/* Returns the result of the job's operation i, in answer. */
static inline struct clientk_result *redis_job_result(const struct redis_job *job, size_t i)
{
    return &job->memory->results[job->first_operation + i];
}

/* Returns how many values a command with many keys may read in one batch. */
static inline size_t redis_job_chunk(const struct redis_job *job)
{
    size_t limit = job->memory->session_limit;
    return limit < REDIS_CHUNK_KEYS ? limit : REDIS_CHUNK_KEYS;
}

/* Makes this error ("ERR ...") the job's reply. */
void redis_job_fail(struct redis_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Called in plan: nothing of the connection is planned behind this job in this batch. */
static inline void redis_job_plan_last(struct redis_job *job)
{
    job->is_planned_last = true;
}

/* Returns the job's steps, which the first call makes; NULL: no memory (the job has failed). */
struct redis_steps *redis_job_steps(struct redis_job *job);

/* Keeps a copy of the bytes in the steps, in place of those that were kept before. False: no memory
 * (the job has failed). */
bool redis_job_keep_bytes(struct redis_job *job, const void *data, size_t size);

/* Frees a job that redis_job_keep made, and what it owns; NULL is harmless. */
void redis_job_free(struct redis_job *job);

/* Frees what the job of a batch owns. */
void redis_job_end(struct redis_job *job);

/* Returns a copy of the job for the next batch, which takes over what the job owned. NULL: no
 * memory, and the job is as it was. */
struct redis_job *redis_job_keep(struct redis_job *job);

/* The `size` bytes that lay at address `old` lie at `bytes` now: moves those arguments of a kept
 * job that were among them. */
void redis_job_follow(struct redis_job *kept, uintptr_t old, size_t size, const char *bytes);

/* Returns true if argument i is this word, in any case of letters. */
bool redis_argument_is(const struct redis_job *job, size_t i, const char *word);

/* Reads argument i as an integer; false: the job has failed with Redis' text. */
bool redis_argument_integer(struct redis_job *job, size_t i, int64_t *value);

#endif
