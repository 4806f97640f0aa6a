/* MULTI, EXEC, DISCARD, WATCH, UNWATCH. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_value.h"
#include "bridges/kresp/session/transaction_run.h"

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
    /* In EXEC the watched keys still count, and are forgotten with it. */
    if (transaction_of(job)->state != TRANSACTION_EXECUTING)
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

static bool has_subscription(const struct redis_transaction *transaction)
{
    for (size_t i = 0; i < redis_transaction_count(transaction); i++)
        if (redis_transaction_command(transaction, i).command->answer == answer_subscribe)
            return true;
    return false;
}

bool answer_exec(struct redis_job *job)
{
    struct redis_transaction *transaction = transaction_of(job);
    if (transaction->state == TRANSACTION_QUEUEING && has_subscription(transaction) &&
        redis_job_awaits_link(job))
        return false;
    if (transaction->state != TRANSACTION_QUEUEING) {
        redis_job_fail(job, "ERR EXEC without MULTI");
        return true;
    }
    if (!redis_transaction_has_conditions(job)) {
        redis_job_fail(job, "EXECABORT Transaction discarded because of: invalid check condition "
                            "syntax");
    } else if (transaction->broken) {
        redis_job_fail(job, "EXECABORT Transaction discarded because of previous errors.");
    } else {
        transaction->state = TRANSACTION_EXECUTING;
        redis_subscriber_take(&job->session->subscriber, redis_job_reply(job));
        redis_transaction_run_queue(job);
    }
    end_transaction(job);
    return true;
}
