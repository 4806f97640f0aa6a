/* MULTI, EXEC, DISCARD, WATCH, UNWATCH. */
#include "bridges/kresp/commands/transaction_commands.h"

#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_value.h"

#define MAX_WATCHED_KEYS 1024u

static struct redis_transaction *transaction_of(const struct redis_job *job)
{
    return &job->session->transaction;
}

/* Ends the transaction and forgets its commands and watched keys. */
static void end_transaction(struct redis_job *job)
{
    redis_transaction_free(transaction_of(job));
}

bool answer_multi(struct redis_job *job)
{
    if (transaction_of(job)->state == TRANSACTION_QUEUEING) {
        redis_job_fail(job, "ERR MULTI calls can not be nested");
        return true;
    }
    redis_transaction_clear(transaction_of(job));
    transaction_of(job)->state = TRANSACTION_QUEUEING;
    reply_ok(redis_job_reply(job));
    return true;
}

bool answer_discard(struct redis_job *job)
{
    if (transaction_of(job)->state != TRANSACTION_QUEUEING) {
        redis_job_fail(job, "ERR DISCARD without MULTI");
        return true;
    }
    end_transaction(job);
    reply_ok(redis_job_reply(job));
    return true;
}

bool answer_unwatch(struct redis_job *job)
{
    redis_transaction_unwatch(transaction_of(job));
    reply_ok(redis_job_reply(job));
    return true;
}

void plan_watch(struct redis_job *job)
{
    if (transaction_of(job)->state == TRANSACTION_QUEUEING) {
        redis_job_fail(job, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    if (job->count - 1 + transaction_of(job)->watched_count > MAX_WATCHED_KEYS) {
        redis_job_fail(job, "ERR kresp: WATCH takes at most %u keys", MAX_WATCHED_KEYS);
        return;
    }
    for (size_t i = 1; i < job->count; i++)
        redis_job_add(job, CLIENTK_EXISTS, job->arguments[i]);
}

bool answer_watch(struct redis_job *job)
{
    for (size_t i = 1; i < job->count; i++) {
        enum redis_found found = redis_job_found(job, i - 1);
        if (found == FAILED)
            return true;
        bool is_new;
        struct watched_key *watched =
            redis_transaction_watch(transaction_of(job), job->arguments[i], &is_new);
        if (!watched) {
            redis_job_fail(job, "ERR kresp: out of memory");
            return true;
        }
        if (is_new && found == FOUND)
            watched->version = redis_job_result(job, i - 1)->value.version;
    }
    reply_ok(redis_job_reply(job));
    return true;
}

/* EXEC: without watched keys it starts at once, else phase 1 looks at their versions first.
 * ----- */

/* From now on the session's commands come from the queue. */
static void start_queue(struct redis_job *job)
{
    struct redis_transaction *transaction = transaction_of(job);
    redis_transaction_unwatch(transaction);
    transaction->state = TRANSACTION_EXECUTING;
    transaction->next = 0;
    reply_array(redis_job_reply(job), redis_transaction_count(transaction));
}

void plan_exec(struct redis_job *job)
{
    for (struct watched_key *watched = transaction_of(job)->watched; watched;
         watched = watched->next)
        redis_job_add(job, CLIENTK_EXISTS, kv_slice(watched->key, watched->size));
}

enum first_write { WRITES_NOTHING, WRITES_WATCHED_KEY, WRITES_OTHERWISE };

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* Returns true for a command that writes one key, in one operation that may depend on the key's
 * version, or after reading it: SET without conditions of its own, DEL of one key, and others. */
static bool may_depend(const struct redis_transaction *transaction,
                       const struct queued_command *queued)
{
    static const char *const deletes[] = {"del", "unlink", NULL};
    static const char *const others[] = {"setex",   "psetex",   "getset",    "getdel", "append",
                                         "incr",    "decr",     "incrby",    "decrby", "expire",
                                         "pexpire", "expireat", "pexpireat", NULL};
    if (is_one_of(queued->command->name, deletes))
        return queued->arguments == 2;
    if (is_one_of(queued->command->name, others))
        return true;
    if (strcmp(queued->command->name, "set") != 0)
        return false;
    for (size_t i = 3; i < queued->arguments; i++) {
        struct redis_job look = {0};
        struct kv_slice word = redis_transaction_argument(transaction, queued, i);
        look.arguments = &word;
        static const char *const conditions[] = {"NX", "XX", "IFEQ", "IFNE"};
        for (size_t c = 0; c < sizeof conditions / sizeof conditions[0]; c++)
            if (redis_argument_is(&look, 0, conditions[c]))
                return false;
    }
    return true;
}

static enum first_write find_first_write(const struct redis_transaction *transaction)
{
    const struct watched_key *watched = transaction->watched;
    for (size_t i = 0; i < redis_transaction_count(transaction); i++) {
        struct queued_command queued = redis_transaction_command(transaction, i);
        if (!(queued.command->flags & COMMAND_WRITE))
            continue;
        if (watched && transaction->watched_count == 1 && may_depend(transaction, &queued) &&
            kv_slice_equal(redis_transaction_argument(transaction, &queued, 1),
                           kv_slice(watched->key, watched->size)))
            return WRITES_WATCHED_KEY;
        return WRITES_OTHERWISE;
    }
    return WRITES_NOTHING;
}

static bool answer_exec_watched(struct redis_job *job)
{
    size_t i = 0;
    for (struct watched_key *watched = transaction_of(job)->watched; watched;
         watched = watched->next, i++) {
        enum redis_found found = redis_job_found(job, i);
        uint64_t version = found == FOUND ? redis_job_result(job, i)->value.version : 0;
        if (found == FAILED || version != watched->version) {
            if (found != FAILED)
                reply_null_array(redis_job_reply(job));
            end_transaction(job);
            return true;
        }
    }
    /* The watched keys are as they were. */
    struct redis_transaction *transaction = transaction_of(job);
    enum first_write first = find_first_write(transaction);
    if (first == WRITES_OTHERWISE && !job->session->service->loose_watch) {
        end_transaction(job);
        redis_job_fail(job,
                       "ERR kresp: EXEC with WATCH may write only the watched key, first by one of "
                       "the commands that kresp(1) names");
        return true;
    }
    if (first == WRITES_WATCHED_KEY && transaction->watched) {
        transaction->conditional = true;
        transaction->condition_version = transaction->watched->version;
        transaction->reply_mark = byte_buffer_size(&redis_job_reply(job)->bytes);
        job->session->reply_is_tentative = true;
    }
    start_queue(job);
    return true;
}

bool answer_exec(struct redis_job *job)
{
    struct redis_transaction *transaction = transaction_of(job);
    if (job->phase == 1)
        return answer_exec_watched(job);
    if (transaction->state != TRANSACTION_QUEUEING) {
        redis_job_fail(job, "ERR EXEC without MULTI");
        return true;
    }
    if (transaction->broken) {
        end_transaction(job);
        redis_job_fail(job, "EXECABORT Transaction discarded because of previous errors.");
        return true;
    }
    if (transaction->watched) {
        job->phase = 1;
        return false;
    }
    start_queue(job);
    return true;
}

/* The write that depends on the watched version ------------------------------------------------ */

/* No entry has this version: a delete that asks for it tells an absent key from one that exists. */
#define NO_VERSION UINT64_MAX

void redis_transaction_condition(struct redis_job *job, struct clientk_operation *operation)
{
    uint64_t version = transaction_of(job)->condition_version;
    redis_job_plan_last(job);
    if (operation->opcode == CLIENTK_DELETE)
        operation->write.if_version = version > 0 ? version : NO_VERSION;
    else
        redis_put_if_unchanged(operation, version);
}

/* Ends the condition: it holds for one write. */
static void end_condition(struct redis_job *job)
{
    transaction_of(job)->conditional = false;
    job->session->reply_is_tentative = false;
}

/* Takes back what EXEC has replied so far, because the watched key was changed. */
static void take_back_replies(struct redis_job *job)
{
    struct redis_transaction *transaction = transaction_of(job);
    struct byte_buffer *bytes = &redis_job_reply(job)->bytes;
    bytes->end = bytes->start + transaction->reply_mark;
    transaction->next = redis_transaction_count(transaction);
    reply_null_array(redis_job_reply(job));
}

void redis_transaction_writes_nothing(struct redis_job *job)
{
    if (job->conditional)
        end_condition(job);
}

bool redis_transaction_read_unchanged(struct redis_job *job)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    uint64_t version = result->status == KV_OK ? result->value.version : 0;
    if ((result->status != KV_OK && result->status != KV_NOT_FOUND) ||
        version == transaction_of(job)->condition_version)
        return true;
    end_condition(job);
    take_back_replies(job);
    return false;
}

bool redis_transaction_unchanged(struct redis_job *job)
{
    struct redis_transaction *transaction = transaction_of(job);
    enum kv_status status = redis_job_result(job, 0)->status;
    bool expected_absent = status == KV_NOT_FOUND && transaction->condition_version == 0;
    end_condition(job);
    if (expected_absent ||
        (status != KV_NOT_FOUND && status != KV_EXISTS && status != KV_VERSION_MISMATCH))
        return true;
    take_back_replies(job);
    return false;
}

void redis_transaction_plan_change(struct redis_job *job)
{
    if (job->phase == 0) {
        redis_job_plan_last(job);
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
        return;
    }
    struct clientk_operation *put = redis_job_add(job, CLIENTK_PUT, job->arguments[1]);
    put->value = byte_buffer_slice(&job->steps->bytes);
    put->write.keep_expiry = true;
    redis_transaction_condition(job, put);
}

enum redis_change redis_transaction_answer_change(struct redis_job *job,
                                                  void (*compute)(struct redis_job *job))
{
    if (job->phase == 1) {
        bool held = redis_transaction_unchanged(job);
        return held && redis_job_written(job, 0) == FOUND ? CHANGE_DONE : CHANGE_ENDED;
    }
    if (!redis_transaction_read_unchanged(job))
        return CHANGE_ENDED;
    if (redis_job_found(job, 0) != FAILED) {
        compute(job);
        job->phase = 1;
        if (!job->error)
            return CHANGE_GOES_ON;
    }
    redis_transaction_writes_nothing(job);
    return CHANGE_ENDED;
}
