/*
 * redis_job: one command on its way: its arguments, the operations that it asked the store for,
 * and, where it needs several turns, what it keeps between them.
 *
 * A command is two functions. `plan` adds operations; `answer` reads their results and writes the
 * reply. If a command needs the result of one operation for the next, its plan says so with
 * redis_job_hold_others: nothing of that connection is then planned behind it in this turn. Its
 * answer may then return false, after raising job->phase; plan and answer are called again in the
 * next turn.
 *
 * A mistake that plan finds (redis_job_fail) is answered in its place; answer is not called.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_JOB_H
#define MQKV_KRESP_SESSION_REDIS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "bridges/kresp/session/turn_memory.h"
#include "mqkv/clientk.h"

struct redis_command;
struct redis_session;

/* Of a command with many keys, so many are dealt with in one turn; of one that reads values
 * redis_job_chunk. */
#define REDIS_CHUNK_KEYS 128u

/* What a command keeps between its turns. Its functions say what the fields mean for it. */
struct redis_steps {
    struct kv_slice *arguments; /* a copy of the slices; their bytes stay where they are */
    struct byte_buffer bytes;
    uint64_t version, expiry_ms, cursor;
    int64_t total;
    size_t next; /* argument to go on with */
    unsigned attempts;
};

struct redis_job {
    struct redis_session *session;
    struct turn_memory *memory; /* of the turn */
    struct buffer_owner *owner; /* of what it keeps */
    const struct redis_command *command;
    const struct kv_slice *arguments; /* the name is the first */
    size_t count;
    size_t first_operation, operations; /* of the turn */
    const char *error;                  /* of plan; lives as long as the turn */
    unsigned phase;                     /* 0 at first */
    unsigned mode;                      /* what plan tells answer */
    uint64_t number;                    /* likewise */
    bool holds_others;
    bool conditional; /* the write of an EXEC that is done only if its key is as it was watched */
    struct redis_steps *steps; /* owned; NULL before redis_job_steps */
};

/* Adds an operation, which the caller fills, of this opcode on this key. Valid until the next one
 * is added. A job whose memory is short has failed already when it returns; it then gets one that
 * is not executed. */
struct clientk_operation *redis_job_add(struct redis_job *job, enum clientk_opcode opcode,
                                        struct kv_slice key);

/* The job's operation i, in plan; valid until another is added. */
static inline struct clientk_operation *redis_job_operation(const struct redis_job *job, size_t i)
{
    return &job->memory->operations[job->first_operation + i];
}

/* The result of the job's operation i, in answer. */
static inline struct clientk_result *redis_job_result(const struct redis_job *job, size_t i)
{
    return &job->memory->results[job->first_operation + i];
}

/* The values that a command with many keys may read in one turn. */
static inline size_t redis_job_chunk(const struct redis_job *job)
{
    size_t limit = job->memory->session_limit;
    return limit < REDIS_CHUNK_KEYS ? limit : REDIS_CHUNK_KEYS;
}

/* The job's answer will be this error ("ERR ..."). */
void redis_job_fail(struct redis_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* In plan: nothing of the connection is planned behind this job in this turn. */
static inline void redis_job_hold_others(struct redis_job *job)
{
    job->holds_others = true;
}

/* The steps, made at the first call; NULL: no memory (the job has failed). */
struct redis_steps *redis_job_steps(struct redis_job *job);

/* Keeps a copy of the bytes in the steps, in place of those that were kept before. False: no memory
 * (the job has failed). */
bool redis_job_keep_bytes(struct redis_job *job, const void *data, size_t size);

/* Frees a job that redis_job_keep made, and what it owns; NULL is harmless. */
void redis_job_free(struct redis_job *job);

/* Frees what a job of a turn owns. */
void redis_job_end(struct redis_job *job);

/* A copy of the job, for the next turn; it owns what the job owned. NULL: no memory, then the job
 * is as it was. */
struct redis_job *redis_job_keep(struct redis_job *job);

/* The `size` bytes that lay at address `old` lie at `bytes` now: the arguments of a kept job that
 * were among them follow. */
void redis_job_follow(struct redis_job *kept, uintptr_t old, size_t size, const char *bytes);

/* True if argument i is this word, in any case of letters. */
bool redis_argument_is(const struct redis_job *job, size_t i, const char *word);

/* Argument i as an integer; false: the job has failed with Redis' text. */
bool redis_argument_integer(struct redis_job *job, size_t i, int64_t *value);

#endif
