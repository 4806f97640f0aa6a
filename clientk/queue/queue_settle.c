#include "clientk/queue/queue_settle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "clientk/queue/time_tree.h"
#include "common/report/error.h"
#include "common/time/clock.h"

#define LONGEST_BACKOFF_MS 3600000u
#define ACKED_TOGETHER     24u

/* Where a record of a job stands, and what it is. */
struct located {
    struct kv_slice key; /* of queue->plan */
    bool away;           /* it was moved out of its lane */
    unsigned lane;
    uint64_t number;
    uint64_t version;
    struct job_record record; /* in queue->located */
};

/* Reads the record at `key` of the plan. KV_OK; KV_NOT_FOUND: it is absent, or malformed. */
static enum kv_status read_located(struct clientk_queue *queue, struct located *located)
{
    enum kv_status status = clientk_get(queue->client, located->key, &queue->located);
    if (status != KV_OK)
        return status;
    located->version = queue->located.version;
    if (!job_record_read(kv_slice(queue->located.data, queue->located.size), &located->record))
        return queue_refuse(KV_NOT_FOUND, "the record of the job is malformed");
    return KV_OK;
}

/* Begins queue->plan with the guard that the record of the job is as it was just read. */
static enum kv_status locate(struct clientk_queue *queue, const struct clientk_job *job,
                             struct located *located)
{
    plan_begin(&queue->plan);
    *located = (struct located){.lane = job->priority, .number = job->number};
    located->key = queue_job_key(&queue->plan, job->priority, job->number);
    enum kv_status status = read_located(queue, located);
    if (status == KV_NOT_FOUND) {
        located->away = true;
        located->key = queue_away_key(&queue->plan, job->priority, job->number);
        status = read_located(queue, located);
    }
    if (status == KV_NOT_FOUND)
        return queue_refuse(KV_NOT_FOUND,
                            "the job is not there: it was acknowledged, or its lease is over");
    if (status != KV_OK)
        return status;
    if (located->record.state != JOB_LEASED || located->record.token != job->token)
        return queue_refuse(KV_VERSION_MISMATCH,
                            "the lease of the job is over, and others may have it");
    plan_guard_version(&queue->plan, located->key, located->version);
    return KV_OK;
}

/* Steps: the record leaves its place for another one, or for good. */
static void plan_leave(struct clientk_queue *queue, const struct located *located)
{
    plan_delete(&queue->plan, located->key);
    if (located->away)
        plan_add(&queue->plan, plan_key(&queue->plan, "outside"), -1);
    else
        queue_count_done(queue, located->lane, 1);
}

/* Steps: the record becomes the last one of the dead letters, at next[QUEUE_DEAD_LANE]. */
static void plan_dead(struct clientk_queue *queue, const struct job_record *record,
                      struct kv_slice reason, uint64_t next[QUEUE_LANES])
{
    struct job_record dead = *record;
    dead.state = JOB_FREE;
    dead.token = dead.until_ms = 0;
    dead.reason = reason;
    if (dead.reason.size > CLIENTK_MAX_JOB_REASON)
        dead.reason.size = CLIENTK_MAX_JOB_REASON;
    queue_guard_tails(queue);
    memcpy(next, queue->tails, sizeof queue->tails);
    queue_put_record(queue, queue_job_key(&queue->plan, QUEUE_DEAD_LANE, next[QUEUE_DEAD_LANE]++),
                     &dead);
    queue_put_tails(queue, next);
}

/* Steps: the record waits until due_ms. */
static enum kv_status plan_later(struct clientk_queue *queue, const struct job_record *record,
                                 uint64_t due_ms)
{
    struct time_moment moment;
    enum kv_status status = time_read_room(queue, time_moment_of(due_ms), 1, &moment);
    if (status != KV_OK)
        return status;
    time_change_begin(queue);
    status = time_append(queue, &moment, record, 1);
    if (status != KV_OK)
        return status;
    time_change_end(queue);
    return KV_OK;
}

/* What clientk_queue_fail and its sisters do with a job. */
enum settlement { SETTLE_ACK, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_BURY, SETTLE_EXTEND };

struct settling {
    enum settlement kind;
    struct kv_slice reason;
    int64_t delay_ms;  /* below 0: as the job's attempts say */
    uint64_t until_ms; /* of an extended lease */
    uint64_t next[QUEUE_LANES];
    bool dead;               /* the plan makes it a dead letter */
    unsigned unknown;        /* outcomes of the change that never came */
    uint64_t lease_until_ms; /* as far as is known: until then nobody else settles the job */
};

static uint64_t backoff_of(const struct job_record *record)
{
    uint64_t backoff_ms = record->backoff_ms;
    for (uint32_t i = 1; i < record->attempts && backoff_ms < LONGEST_BACKOFF_MS; i++)
        backoff_ms *= 2;
    return backoff_ms < LONGEST_BACKOFF_MS ? backoff_ms : LONGEST_BACKOFF_MS;
}

/* Steps: the job is given back, as failed or not. */
static enum kv_status plan_back(struct clientk_queue *queue, const struct located *located,
                                const struct settling *settling)
{
    bool failed = settling->kind == SETTLE_FAIL;
    uint64_t delay_ms =
        settling->delay_ms >= 0 ? (uint64_t)settling->delay_ms : backoff_of(&located->record);
    struct job_record back = located->record;
    back.state = JOB_FREE;
    back.token = 0;
    back.attempts -= !failed && back.attempts > 0;
    if (failed) {
        back.reason = settling->reason;
        if (back.reason.size > CLIENTK_MAX_JOB_REASON)
            back.reason.size = CLIENTK_MAX_JOB_REASON;
    }
    if (!failed && delay_ms == 0 && !located->away) {
        back.until_ms = 0;
        queue_put_record(queue, located->key, &back);
    } else {
        back.until_ms = clock_realtime_ms() + delay_ms;
        plan_leave(queue, located);
        plan_add(&queue->plan, plan_key(&queue->plan, "later"), 1);
        enum kv_status status = plan_later(queue, &back, back.until_ms);
        if (status != KV_OK)
            return status;
    }
    queue_ring(queue);
    return KV_OK;
}

/* A step: a reference to the record that is, or comes, away from its place stands at due_ms. */
static enum kv_status plan_reference_at(struct clientk_queue *queue, const struct located *located,
                                        uint64_t due_ms)
{
    const struct job_record reference = {.state = JOB_REFERENCE,
                                         .lane = located->lane,
                                         .until_ms = due_ms,
                                         .token = located->number};
    return plan_later(queue, &reference, due_ms);
}

/* Steps: the lease ends at until_ms. Who sleeps until its end has to know if that is earlier. */
static enum kv_status plan_extension(struct clientk_queue *queue, const struct located *located,
                                     uint64_t until_ms)
{
    struct job_record record = located->record;
    bool shorter = until_ms < record.until_ms;
    record.until_ms = until_ms;
    queue_put_record(queue, located->key, &record);
    if (shorter)
        queue_ring(queue);
    return shorter && located->away ? plan_reference_at(queue, located, until_ms) : KV_OK;
}

/* Adds the steps to the plan, behind the guard of the record. */
static enum kv_status plan_settlement(struct clientk_queue *queue, const struct located *located,
                                      struct settling *settling)
{
    const struct job_record *record = &located->record;
    settling->dead = settling->kind == SETTLE_BURY ||
                     (settling->kind == SETTLE_FAIL && record->attempts >= record->max_attempts);
    if (settling->dead) {
        plan_leave(queue, located);
        plan_dead(queue, record, settling->reason, settling->next);
    } else if (settling->kind == SETTLE_ACK) {
        plan_leave(queue, located);
        if (record->body_bytes > 0)
            plan_delete(&queue->plan, queue_body_key(&queue->plan, record->id));
    } else if (settling->kind == SETTLE_EXTEND) {
        return plan_extension(queue, located, settling->until_ms);
    } else {
        return plan_back(queue, located, settling);
    }
    return KV_OK;
}

/* The job is not at its place, or not leased, after a change whose outcome never came. That was
 * the change only if nobody else could have done it: while the lease holds. */
static enum kv_status doubted_outcome(const struct settling *settling, enum kv_status status)
{
    bool may_be_ours = settling->kind == SETTLE_RELEASE
                           ? status == KV_NOT_FOUND || status == KV_VERSION_MISMATCH
                           : status == KV_NOT_FOUND && settling->kind != SETTLE_EXTEND;
    if (settling->unknown == 0 || !may_be_ours)
        return status;
    if (clock_realtime_ms() < settling->lease_until_ms)
        return KV_OK;
    return queue_refuse(KV_OUTCOME_UNKNOWN, "the job may have been settled: the server ended "
                                            "meanwhile, and the lease is over");
}

static enum kv_status settle(struct clientk_queue *queue, const struct clientk_job *job,
                             struct settling *settling)
{
    settling->lease_until_ms = job->until_ms;
    for (unsigned tries = 0; tries < QUEUE_TRIES; tries++) {
        struct located located;
        bool done;
        /* The plan's guards and the tails that it writes are of one moment: the tails are read
         * first, since that begins no plan of writes. */
        enum kv_status status = tries > 0 || !queue->has_tails ? queue_read_tails(queue) : KV_OK;
        if (status == KV_OK)
            status = locate(queue, job, &located);
        if (status == KV_NOT_FOUND || status == KV_VERSION_MISMATCH)
            return doubted_outcome(settling, status);
        if (status == KV_OK) {
            settling->lease_until_ms = located.record.until_ms;
            status = plan_settlement(queue, &located, settling);
        }
        if (status != KV_OK)
            return status;
        status = plan_run(&queue->plan, queue->client, queue->options.durability, &done);
        if (done) {
            if (settling->dead)
                queue_adopt_tails(queue, settling->next);
            return KV_OK;
        }
        if (status != KV_OK &&
            (!plan_is_unknown(&queue->plan, status) || ++settling->unknown == QUEUE_UNKNOWN_TRIES))
            return status;
    }
    return queue_refuse(KV_OVERLOADED, "others change the queue all the time");
}

static enum kv_status check_settle(const struct clientk_queue *queue, const struct clientk_job *job)
{
    if (!queue || !job)
        return queue_refuse(KV_USAGE,
                            queue ? "NULL was given as the job" : "NULL was given as the queue");
    if (job->priority > CLIENTK_MAX_JOB_PRIORITY || job->token == 0)
        return queue_refuse(KV_USAGE, "the job is none that was taken");
    return KV_OK;
}

/* Acknowledging -------------------------------------------------------------------------------- */

/* Acknowledges jobs whose versions are known, together. *done: whether it did. */
static enum kv_status ack_together(struct clientk_queue *queue, const struct clientk_job *jobs,
                                   size_t count, bool *done)
{
    uint64_t left[QUEUE_LANES] = {0};
    plan_begin(&queue->plan);
    for (size_t i = 0; i < count; i++) {
        struct kv_slice key = queue_job_key(&queue->plan, jobs[i].priority, jobs[i].number);
        plan_guard_version(&queue->plan, key, jobs[i].version);
        plan_delete(&queue->plan, key);
        if (jobs[i].body > 0)
            plan_delete(&queue->plan, queue_body_key(&queue->plan, jobs[i].id));
        left[jobs[i].priority]++;
    }
    for (unsigned lane = 0; lane <= CLIENTK_MAX_JOB_PRIORITY; lane++)
        if (left[lane] > 0)
            queue_count_done(queue, lane, left[lane]);
    return plan_run(&queue->plan, queue->client, queue->options.durability, done);
}

static bool are_as_taken(const struct clientk_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].version == 0)
            return false;
        for (size_t other = 0; other < i; other++)
            if (jobs[other].priority == jobs[i].priority && jobs[other].number == jobs[i].number)
                return false;
    }
    return true;
}

enum kv_status clientk_queue_ack(struct clientk_queue *queue, const struct clientk_job *jobs,
                                 size_t count)
{
    enum kv_status first = KV_OK;
    if (!jobs)
        return queue_refuse(KV_USAGE, "NULL was given as the jobs");
    for (size_t i = 0; i < count; i++) {
        enum kv_status status = check_settle(queue, &jobs[i]);
        if (status != KV_OK)
            return status;
    }
    for (size_t at = 0; at < count; at += ACKED_TOGETHER) {
        size_t page = count - at < ACKED_TOGETHER ? count - at : ACKED_TOGETHER;
        bool done = false;
        enum kv_status status = KV_OK;
        if (are_as_taken(jobs + at, page))
            status = ack_together(queue, jobs + at, page, &done);
        if (status != KV_OK && !plan_is_unknown(&queue->plan, status))
            return status;
        const unsigned unknown = status != KV_OK;
        for (size_t i = 0; i < page && !done; i++) {
            struct settling settling = {.kind = SETTLE_ACK, .unknown = unknown};
            status = settle(queue, &jobs[at + i], &settling);
            if (status != KV_OK && first == KV_OK)
                first = status;
        }
    }
    return first;
}

/* The other ways ------------------------------------------------------------------------------- */

enum kv_status clientk_queue_fail(struct clientk_queue *queue, const struct clientk_job *job,
                                  struct kv_slice reason, int64_t delay_ms, bool *dead)
{
    struct settling settling = {.kind = SETTLE_FAIL, .reason = reason, .delay_ms = delay_ms};
    enum kv_status status = check_settle(queue, job);
    if (status == KV_OK && delay_ms > (int64_t)CLIENTK_MAX_JOB_DELAY_MS)
        status = queue_refuse(KV_USAGE, "the delay of the job is more than a hundred years");
    if (status == KV_OK)
        status = settle(queue, job, &settling);
    if (dead)
        *dead = status == KV_OK && settling.dead;
    return status;
}

enum kv_status clientk_queue_release(struct clientk_queue *queue, const struct clientk_job *job,
                                     uint64_t delay_ms)
{
    struct settling settling = {.kind = SETTLE_RELEASE, .delay_ms = (int64_t)delay_ms};
    enum kv_status status = check_settle(queue, job);
    if (status == KV_OK && delay_ms > CLIENTK_MAX_JOB_DELAY_MS)
        status = queue_refuse(KV_USAGE, "the delay of the job is more than a hundred years");
    return status == KV_OK ? settle(queue, job, &settling) : status;
}

enum kv_status clientk_queue_bury(struct clientk_queue *queue, const struct clientk_job *job,
                                  struct kv_slice reason)
{
    struct settling settling = {.kind = SETTLE_BURY, .reason = reason};
    enum kv_status status = check_settle(queue, job);
    return status == KV_OK ? settle(queue, job, &settling) : status;
}

enum kv_status clientk_queue_extend(struct clientk_queue *queue, struct clientk_job *job,
                                    uint64_t lease_ms)
{
    enum kv_status status = check_settle(queue, job);
    if (status == KV_OK && lease_ms > CLIENTK_MAX_JOB_DELAY_MS)
        status = queue_refuse(KV_USAGE, "the lease of the job is more than a hundred years");
    if (status != KV_OK)
        return status;
    struct settling settling = {.kind = SETTLE_EXTEND,
                                .until_ms = clock_realtime_ms() +
                                            (lease_ms ? lease_ms : queue->options.lease_ms)};
    status = settle(queue, job, &settling);
    if (status == KV_OK) {
        job->until_ms = settling.until_ms;
        job->version = 0; /* where it stands now, and as what, is read when it is settled */
    }
    return status;
}

/* Records that were found on the way ----------------------------------------------------------- */

enum kv_status queue_bury_spent(struct clientk_queue *queue, unsigned lane, uint64_t number,
                                uint64_t now_ms)
{
    bool done;
    uint64_t next[QUEUE_LANES];
    struct located located = {.lane = lane, .number = number};
    plan_begin(&queue->plan);
    located.key = queue_job_key(&queue->plan, lane, number);
    enum kv_status status = read_located(queue, &located);
    if (status != KV_OK)
        return status == KV_NOT_FOUND ? KV_OK : status;
    if (!job_record_is_free(&located.record, now_ms) ||
        located.record.attempts < located.record.max_attempts)
        return KV_OK;
    plan_guard_version(&queue->plan, located.key, located.version);
    plan_leave(queue, &located);
    plan_dead(queue, &located.record,
              kv_slice_from_string("the leases of all its attempts ended without a worker"), next);
    status = plan_run(&queue->plan, queue->client, queue->options.durability, &done);
    if (done)
        queue_adopt_tails(queue, next);
    return plan_is_unknown(&queue->plan, status) ? KV_OK : status;
}

enum kv_status queue_move_away(struct clientk_queue *queue, unsigned lane, uint64_t number)
{
    bool done;
    struct located located = {.lane = lane, .number = number};
    plan_begin(&queue->plan);
    located.key = queue_job_key(&queue->plan, lane, number);
    enum kv_status status = read_located(queue, &located);
    if (status != KV_OK)
        return status == KV_NOT_FOUND ? KV_OK : status;
    if (located.record.state != JOB_LEASED)
        return KV_OK;
    plan_guard_version(&queue->plan, located.key, located.version);
    plan_leave(queue, &located);
    plan_add(&queue->plan, plan_key(&queue->plan, "outside"), 1);
    queue_put_record(queue, queue_away_key(&queue->plan, lane, number), &located.record);
    status = plan_reference_at(queue, &located, located.record.until_ms);
    if (status != KV_OK)
        return status;
    status = plan_run(&queue->plan, queue->client, queue->options.durability, &done);
    return plan_is_unknown(&queue->plan, status) ? KV_OK : status;
}

/* Receipts ------------------------------------------------------------------------------------- */

void clientk_queue_receipt(const struct clientk_job *job, char text[CLIENTK_RECEIPT_BYTES])
{
    snprintf(text, CLIENTK_RECEIPT_BYTES, "%" PRIu32 ".%" PRIu64 ".%016" PRIx64, job->priority,
             job->number, job->token);
}

enum kv_status clientk_queue_read_receipt(struct kv_slice text, struct clientk_job *job)
{
    char copy[CLIENTK_RECEIPT_BYTES], again[CLIENTK_RECEIPT_BYTES];
    struct clientk_job read = {.payload = job->payload, .reason = job->reason};
    if (text.size < sizeof copy) {
        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
        char *end = copy;
        read.priority = (uint32_t)strtoul(copy, &end, 10);
        if (*end == '.')
            read.number = strtoull(end + 1, &end, 10);
        if (*end == '.')
            read.token = strtoull(end + 1, &end, 16);
        clientk_queue_receipt(&read, again);
        if (read.token > 0 && read.priority <= CLIENTK_MAX_JOB_PRIORITY &&
            strcmp(copy, again) == 0) {
            read.payload.size = read.reason.size = 0;
            *job = read;
            return KV_OK;
        }
    }
    return queue_refuse(KV_USAGE, "that is not the receipt of a job");
}
