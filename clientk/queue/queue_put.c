/* clientk_queue_put: jobs enter their lane together with its tail, or a moment together with its
 * count. */
#include <stdlib.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "clientk/queue/queue_state.h"
#include "clientk/queue/time_tree.h"
#include "common/report/error.h"
#include "common/time/clock.h"

#define DEFAULT_MAX_ATTEMPTS 5u
#define DEFAULT_BACKOFF_MS   1000u

/* A payload above this size stands in an entry of its own: a claim writes its record anew. */
#define INLINE_BYTES 2048u

/* What goes in one transaction at most. */
#define PUT_JOBS  32u
#define PUT_BYTES (128u << 10)

/* One transaction's jobs. */
struct put_batch {
    const struct kv_slice *payloads;
    size_t count;
    struct job_record records[PUT_JOBS];
    uint64_t due_ms; /* 0: now */
    bool doubtful;   /* it may have been put already, as number `doubted` of its lane */
    uint64_t doubted;
};

static enum kv_status check_put(const struct clientk_put_job_options *options)
{
    uint64_t reserved = options->reserved_number;
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        reserved |= options->reserved[i];
    if (reserved)
        return queue_refuse(KV_UNSUPPORTED,
                            "the options of the job have more than this library knows");
    if (options->priority > CLIENTK_MAX_JOB_PRIORITY)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "the priority of a job is 0 to %u",
                            CLIENTK_MAX_JOB_PRIORITY);
    if (options->delay_ms > CLIENTK_MAX_JOB_DELAY_MS)
        return queue_refuse(KV_USAGE, "the delay of the job is more than a hundred years");
    return KV_OK;
}

/* Makes the records of the first payloads, as many as go in a transaction. */
static void batch_fill(struct clientk_queue *queue, struct put_batch *batch, size_t count,
                       const struct clientk_put_job_options *options)
{
    uint64_t now_ms = clock_realtime_ms();
    size_t bytes = 0;
    batch->count = 0;
    batch->doubtful = false;
    batch->due_ms = options->delay_ms > 0 ? now_ms + options->delay_ms : 0;
    while (batch->count < count && batch->count < PUT_JOBS) {
        struct kv_slice payload = batch->payloads[batch->count];
        bytes += payload.size;
        if (batch->count > 0 && bytes > PUT_BYTES)
            break;
        bool apart = payload.size > INLINE_BYTES;
        batch->records[batch->count++] = (struct job_record){
            .lane = options->priority,
            .max_attempts = options->max_attempts ? options->max_attempts : DEFAULT_MAX_ATTEMPTS,
            .backoff_ms = options->backoff_ms ? options->backoff_ms : DEFAULT_BACKOFF_MS,
            .until_ms = batch->due_ms,
            .id = random_next(&queue->random),
            .put_ms = now_ms,
            .body_bytes = apart ? payload.size : 0,
            .payload = apart ? kv_slice(NULL, 0) : payload,
        };
    }
}

static void plan_bodies(struct clientk_queue *queue, const struct put_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->records[i].body_bytes > 0)
            plan_put(&queue->plan, queue_body_key(&queue->plan, batch->records[i].id),
                     batch->payloads[i]);
}

static enum kv_status put_now(struct clientk_queue *queue, const struct put_batch *batch,
                              bool *done)
{
    unsigned lane = batch->records[0].lane;
    uint64_t next[QUEUE_LANES];
    memcpy(next, queue->tails, sizeof next);
    plan_begin(&queue->plan);
    queue_guard_tails(queue);
    for (size_t i = 0; i < batch->count; i++)
        queue_put_record(queue, queue_job_key(&queue->plan, lane, next[lane]++),
                         &batch->records[i]);
    plan_bodies(queue, batch);
    queue_put_tails(queue, next);
    enum kv_status status = plan_run(&queue->plan, queue->client, queue->options.durability, done);
    if (*done)
        queue_adopt_tails(queue, next);
    return status;
}

static enum kv_status put_later(struct clientk_queue *queue, const struct put_batch *batch,
                                bool *done)
{
    struct time_moment moment;
    enum kv_status status =
        time_read_room(queue, time_moment_of(batch->due_ms), batch->count, &moment);
    if (status != KV_OK)
        return status;
    plan_begin(&queue->plan);
    time_change_begin(queue);
    status = time_append(queue, &moment, batch->records, batch->count);
    if (status != KV_OK)
        return status;
    time_change_end(queue);
    plan_bodies(queue, batch);
    plan_add(&queue->plan, plan_key(&queue->plan, "later"), (int64_t)batch->count);
    queue_ring(queue);
    return plan_run(&queue->plan, queue->client, queue->options.durability, done);
}

/* Looks whether a batch whose outcome was unknown stands where it would. It was put with the guard
 * that the tails were others than they are now, so that it cannot be put any more. KV_OK: *done
 * says so; KV_OUTCOME_UNKNOWN: that number is gone. */
static enum kv_status settle_doubt(struct clientk_queue *queue, struct put_batch *batch, bool *done)
{
    struct job_record record;
    unsigned lane = batch->records[0].lane;
    *done = false;
    if (queue->tails[lane] <= batch->doubted) {
        batch->doubtful = false;
        return KV_OK;
    }
    plan_begin(&queue->look);
    enum kv_status status = clientk_get(
        queue->client, queue_job_key(&queue->look, lane, batch->doubted), &queue->value);
    if (status == KV_NOT_FOUND)
        return queue_refuse(KV_OUTCOME_UNKNOWN, "the job may have been put: the server ended "
                                                "meanwhile, and a worker may have done it since");
    if (status == KV_OK) {
        *done = job_record_read(kv_slice(queue->value.data, queue->value.size), &record) &&
                record.id == batch->records[0].id;
        batch->doubtful = false;
    }
    return status;
}

static enum kv_status try_put(struct clientk_queue *queue, struct put_batch *batch)
{
    bool done = false;
    unsigned unknown = 0;
    for (unsigned tries = 0; tries < QUEUE_TRIES; tries++) {
        enum kv_status status =
            batch->due_ms > 0 ? put_later(queue, batch, &done) : put_now(queue, batch, &done);
        if (done)
            return KV_OK;
        if (status != KV_OK) {
            /* Of jobs for later only the caller could tell. */
            if (batch->due_ms > 0 || !plan_is_unknown(&queue->plan, status) ||
                ++unknown == QUEUE_UNKNOWN_TRIES)
                return status;
            batch->doubtful = true; /* again, with the same guard: one of both can be done */
            batch->doubted = queue->tails[batch->records[0].lane];
            continue;
        }
        status = queue_read_tails(queue);
        if (status == KV_OK && batch->doubtful)
            status = settle_doubt(queue, batch, &done);
        if (status != KV_OK || done)
            return status;
    }
    return queue_refuse(KV_OVERLOADED, "others put into the queue all the time");
}

/* A failure behind an outcome that is unknown leaves it so: who puts again would put twice. */
static enum kv_status put_batch(struct clientk_queue *queue, struct put_batch *batch)
{
    enum kv_status status = try_put(queue, batch);
    if (status == KV_OK || !batch->doubtful)
        return status;
    return queue_refuse(KV_OUTCOME_UNKNOWN, "the job may have been put: the server ended "
                                            "meanwhile, and does not answer");
}

enum kv_status clientk_queue_put(struct clientk_queue *queue, const struct kv_slice *payloads,
                                 size_t count, const struct clientk_put_job_options *options,
                                 uint64_t *ids, size_t *put)
{
    static const struct clientk_put_job_options defaults;
    struct put_batch batch;
    size_t done = 0;
    if (put)
        *put = 0;
    if (!queue || (count > 0 && !payloads))
        return queue_refuse(KV_USAGE, queue ? "NULL was given as the payloads"
                                            : "NULL was given as the queue");
    if (!options)
        options = &defaults;
    enum kv_status status = check_put(options);
    if (status == KV_OK && !queue->has_tails)
        status = queue_read_tails(queue);
    while (status == KV_OK && done < count) {
        batch.payloads = payloads + done;
        batch_fill(queue, &batch, count - done, options);
        status = put_batch(queue, &batch);
        for (size_t i = 0; ids && status == KV_OK && i < batch.count; i++)
            ids[done + i] = batch.records[i].id;
        done += status == KV_OK ? batch.count : 0;
    }
    if (put)
        *put = done;
    return status;
}
