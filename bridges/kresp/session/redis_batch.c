#include "bridges/kresp/session/redis_batch.h"

#include <stdlib.h>

#include "common/report/log.h"
#include "common/time/clock.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/transaction_run.h"

/* A session whose large values become small is expected to read large ones for some hundred
 * batches. */
#define FORGET 64u

/* New sessions are expected to read what others have read, and at least FIRST_VALUE_BYTES. */
#define FORGET_OTHERS     1024u
#define FIRST_VALUE_BYTES ((size_t)2 * 1024)

struct redis_batch *redis_batch_new(struct redis_service *service, struct thread_scripts *scripts)
{
    struct redis_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    batch->service = service;
    batch->memory.scripts = scripts;
    return batch;
}

void redis_batch_free(struct redis_batch *batch)
{
    if (!batch)
        return;
    for (size_t i = batch->answered; i < batch->job_count; i++)
        redis_job_end(&batch->jobs[i]);
    free(batch->jobs);
    batch_memory_free(&batch->memory);
    free(batch);
}

void redis_batch_begin(struct redis_batch *batch, uint64_t until_ns)
{
    batch->until_ns = until_ns;
    batch->is_spent = false;
}

static void look_at_clock(struct redis_batch *batch)
{
    batch->is_spent = batch->is_spent || clock_monotonic_ns() >= batch->until_ns;
}

static struct redis_job *add_job(struct redis_batch *batch)
{
    if (batch->job_count == batch->job_capacity) {
        size_t capacity = batch->job_capacity > 0 ? batch->job_capacity * 2 : 64;
        void *jobs = realloc(batch->jobs, capacity * sizeof *batch->jobs);
        if (!jobs)
            return NULL;
        batch->jobs = jobs;
        batch->job_capacity = capacity;
    }
    return &batch->jobs[batch->job_count++];
}

static void plan_job(struct redis_job *job)
{
    job->first_operation = job->memory->operation_count;
    job->operations = 0;
    job->is_planned_last = false;
    if (!job->error && job->command->plan)
        job->command->plan(job);
    if (!job->error) {
        redis_command_remember_reads(job->session, job->command,
                                     job->memory->operations + job->first_operation,
                                     job->operations);
        return;
    }
    job->memory->operation_count = job->first_operation;
    job->operations = 0;
}

/* What became of a command. */
enum taken {
    TAKEN_GO_ON, /* the next command may be taken */
    TAKEN_LAST,  /* it was taken, and nothing behind it may be in this batch */
    TAKEN_NOT    /* it has to wait for the answers to those before it */
};

/* Adds the job to the batch and plans it. */
static enum taken take_planned(struct redis_batch *batch, const struct redis_job *looked_at)
{
    struct redis_job *job = add_job(batch);
    if (!job) {
        looked_at->session->closing = true;
        return TAKEN_LAST;
    }
    *job = *looked_at;
    job->memory = &batch->memory; /* one that goes on was in another batch */
    plan_job(job);
    return job->is_planned_last ? TAKEN_LAST : TAKEN_GO_ON;
}

/* Executes the command at once, or plans it if it finds that it needs the store. */
static enum taken take_at_once(struct redis_batch *batch, struct redis_job *job)
{
    if (job->command->answer(job)) {
        if (job->error)
            reply_error(&job->session->reply, "%s", job->error);
        redis_job_end(job);
        return TAKEN_GO_ON;
    }
    take_planned(batch, job);
    return TAKEN_LAST;
}

/* Queues the command of a transaction, and answers it at once; so it has to wait for the answer to
 * what is planned already (such as an error of WATCH). */
static enum taken take_queued(struct redis_job *job, bool first)
{
    struct redis_session *session = job->session;
    if (!first)
        return TAKEN_NOT;
    struct redis_transaction *transaction = &session->transaction;
    if (!job->error && (job->command->flags & COMMAND_WHOLE_STORE))
        redis_job_fail(job,
                       "ERR kresp: '%s' cannot be part of a transaction, which is about keys that "
                       "it names",
                       job->command->name);
    if (!job->error && !transaction->broken &&
        !redis_transaction_queue(transaction, job->command, job->arguments, job->count,
                                 session->service->max_request_bytes))
        redis_job_fail(job, "ERR kresp: the transaction is too large");
    if (job->error) {
        redis_transaction_break(transaction);
        reply_error(&session->reply, "%s", job->error);
    } else {
        reply_simple(&session->reply, "QUEUED");
    }
    return TAKEN_GO_ON;
}

/* Executes a command of several keys at once, as one transaction; plans it if it is not for one. */
static enum taken take_together(struct redis_batch *batch, struct redis_job *job)
{
    if (!redis_transaction_run_alone(job))
        return take_planned(batch, job);
    if (job->error)
        reply_error(&job->session->reply, "%s", job->error);
    return TAKEN_GO_ON;
}

/* Takes a command that was looked up; job->error: it cannot be executed. */
static enum taken take_found(struct redis_batch *batch, struct redis_job *job, bool first)
{
    if (job->session->transaction.state == TRANSACTION_QUEUEING &&
        (job->error || !(job->command->flags & COMMAND_NOT_QUEUED)))
        return take_queued(job, first);
    bool together = !job->error && redis_command_is_together(job);
    if (job->error || !(together || (job->command->flags & COMMAND_AT_ONCE)))
        return take_planned(batch, job);
    if (!first)
        return TAKEN_NOT;
    enum taken taken = together ? take_together(batch, job) : take_at_once(batch, job);
    look_at_clock(batch);
    return taken;
}

/* CLIENT CACHING counts for the next command, or transaction, that is not CLIENT itself. */
static void forget_caching(struct redis_session *session, const struct redis_command *command)
{
    bool is_client = command && strncmp(command->name, "client|", 7) == 0;
    if (session->transaction.state != TRANSACTION_QUEUEING && !is_client)
        session->tracker.is_told_caching = false;
}

static enum taken take_command(struct redis_batch *batch, struct redis_session *session,
                               const struct kv_slice *arguments, size_t count, bool first)
{
    struct redis_job job = {.session = session,
                            .memory = &batch->memory,
                            .owner = session->reply.bytes.owner,
                            .arguments = arguments,
                            .count = count};
    redis_command_find(&job);
    if (session->closing)
        return TAKEN_LAST;
    session->commands++;
    enum taken taken = take_found(batch, &job, first);
    if (taken != TAKEN_NOT && session->tracker.is_told_caching)
        forget_caching(session, job.command);
    return taken;
}

/* Answers a request that was too large to be kept. */
static enum taken take_oversized(struct redis_batch *batch, struct redis_session *session,
                                 bool first)
{
    struct redis_job failed = {.session = session, .memory = &batch->memory};
    redis_job_fail(&failed, "%s", REDIS_TOO_LARGE);
    enum taken taken = session->transaction.state == TRANSACTION_QUEUEING
                           ? take_queued(&failed, first)
                           : take_planned(batch, &failed);
    if (taken == TAKEN_NOT)
        resp_request_repeat(&session->request);
    return taken;
}

/* Takes the request that was read last. False: there is no memory for it. */
static bool take_request(struct redis_batch *batch, struct redis_session *session, bool first,
                         enum taken *taken)
{
    struct resp_request *request = &session->request;
    struct kv_slice *arguments =
        batch_memory_allocate(&batch->memory, request->count * sizeof *arguments);
    if (!arguments) {
        session->closing = true;
        return false;
    }
    for (size_t i = 0; i < request->count; i++)
        arguments[i] = resp_request_argument(request, &session->input, i);
    *taken = take_command(batch, session, arguments, request->count, first);
    if (*taken == TAKEN_NOT)
        resp_request_repeat(request);
    return true;
}

/* Takes the next command that the client sent. False: no whole one has come. */
static bool take_sent(struct redis_batch *batch, struct redis_session *session, bool first,
                      enum taken *taken)
{
    struct redis_service *service = session->service;
    struct resp_limits limits = {
        .max_argument_bytes = redis_command_max_argument_bytes(service),
        .max_request_bytes = service->max_request_bytes,
        .max_arguments = 1024 * 1024,
        .unauthenticated = !session->authenticated,
    };
    char problem[RESP_PROBLEM_BYTES];
    struct redis_job failed = {.session = session, .memory = &batch->memory};
    switch (resp_request_next(&session->request, &session->input, &limits, problem)) {
    case RESP_INCOMPLETE:
        return false;
    case RESP_BAD:
        redis_job_fail(&failed, "ERR Protocol error: %s", problem);
        *taken = take_planned(batch, &failed);
        session->closing = true;
        return true;
    case RESP_OVERSIZED:
        *taken = take_oversized(batch, session, first);
        return true;
    case RESP_REQUEST:
        break;
    }
    return take_request(batch, session, first, taken);
}

/* Takes as many of the session's commands as one batch may have. */
static bool take_commands(struct redis_batch *batch, struct redis_session *session)
{
    size_t jobs_before = batch->job_count, operations_before = batch->memory.operation_count;
    size_t read_before = session->request.at;
    size_t replied_before = byte_buffer_size(&session->reply.bytes);
    if (session->unfinished) {
        struct redis_job *job = session->unfinished;
        session->unfinished = NULL;
        session->is_waiting = false;
        take_planned(batch, job);
        free(job); /* what the job owned belongs to its copy, or is lost with the connection */
        return true;
    }
    for (uint64_t taken_count = 0; !session->closing; taken_count++) {
        bool first = batch->job_count == jobs_before;
        enum taken taken;
        if (taken_count == session->service->max_pipeline || redis_batch_is_full(batch) ||
            batch->memory.operation_count - operations_before >= batch->memory.session_limit ||
            session->request.at - read_before >= BATCH_SESSION_BYTES ||
            byte_buffer_size(&session->reply.bytes) - replied_before >= BATCH_SESSION_BYTES)
            return true;
        if (!take_sent(batch, session, first, &taken))
            return false;
        if (taken != TAKEN_GO_ON)
            return true;
    }
    return false;
}

bool redis_batch_take(struct redis_batch *batch, struct redis_session *session)
{
    struct batch_memory *memory = &batch->memory;
    size_t operations_before = memory->operation_count, read_before = session->request.at;
    if (session->value_bytes == 0)
        session->value_bytes =
            batch->value_bytes > FIRST_VALUE_BYTES ? batch->value_bytes : FIRST_VALUE_BYTES;
    session->value_bytes -= session->value_bytes / FORGET;
    batch_memory_limit_session(memory, session->value_bytes);
    bool has_more = take_commands(batch, session);
    memory->expected_bytes += session->request.at - read_before;
    memory->expected_bytes += (memory->operation_count - operations_before) * session->value_bytes;
    look_at_clock(batch);
    return has_more;
}

/* Learns from the values of the job what size the session will read next. */
static void learn(struct redis_batch *batch, const struct redis_job *job)
{
    struct redis_session *session = job->session;
    for (size_t i = 0; i < job->operations; i++)
        if (redis_job_result(job, i)->value.size > session->value_bytes)
            session->value_bytes = redis_job_result(job, i)->value.size;
    if (session->value_bytes > batch->value_bytes)
        batch->value_bytes = session->value_bytes;
}

/* Writes the job's reply, or keeps it for its next batch. */
static void answer_job(struct redis_job *job)
{
    struct redis_session *session = job->session;
    if (!job->error && !job->command->answer(job)) {
        session->unfinished = redis_job_keep(job);
        if (session->unfinished)
            return;
        job->error = "ERR kresp: out of memory";
    }
    if (job->error)
        reply_error(&session->reply, "%s", job->error);
    redis_job_end(job);
}

static void add_more(_Atomic uint64_t *counter, uint64_t more)
{
    if (more > 0)
        atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* Adds the counts of this batch to the service's at once, since threads share those. */
static void add_batch_counts(struct redis_batch *batch)
{
    struct redis_service *service = batch->service;
    struct batch_memory *memory = &batch->memory;
    add_more(&service->commands, batch->job_count);
    add_more(&service->hits, memory->hits);
    add_more(&service->misses, memory->misses);
    memory->hits = memory->misses = 0;
}

/* Has the store execute the operations. */
static void execute_operations(struct redis_batch *batch)
{
    struct batch_memory *memory = &batch->memory;
    batch->is_executed = true;
    if (memory->operation_count > 0 && batch_memory_make_results(memory)) {
        redis_store_execute(batch->service->store, memory->operations, memory->operation_count,
                            memory->results);
    } else if (memory->operation_count > 0) {
        for (size_t i = 0; i < batch->job_count; i++) {
            batch->jobs[i].error = "ERR kresp: out of memory";
            batch->jobs[i].operations = 0; /* there are no results to look at */
        }
        memory->operation_count = 0;
    }
    batch->value_bytes -= batch->value_bytes / FORGET_OTHERS;
}

/* Most answers copy what the store has said, and take less than a look at the clock. */
#define ANSWERS_A_LOOK 8u

bool redis_batch_run(struct redis_batch *batch)
{
    if (!batch->is_executed)
        execute_operations(batch);
    for (bool first = true; batch->answered < batch->job_count; first = false) {
        struct redis_job *job = &batch->jobs[batch->answered];
        bool is_looked_at = job->operations == 0 || batch->answered % ANSWERS_A_LOOK == 0;
        if (is_looked_at)
            look_at_clock(batch);
        if (is_looked_at && batch->is_spent && !first)
            return false;
        learn(batch, job);
        redis_session_note_writes(job->session, job->memory->operations + job->first_operation,
                                  job->memory->results + job->first_operation, job->operations);
        answer_job(job);
        batch->answered++;
    }
    add_batch_counts(batch);
    batch->job_count = batch->answered = 0;
    batch->is_executed = false;
    batch_memory_end(&batch->memory);
    return true;
}
