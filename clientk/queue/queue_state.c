#include "clientk/queue/queue_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "clientk/base/value_memory.h"
#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "common/time/clock.h"

/* Keys ----------------------------------------------------------------------------------------- */

const char *queue_lane_name(unsigned lane)
{
    static const char names[QUEUE_LANES][5] = {"0", "1", "2", "3", "4",   "5",
                                               "6", "7", "8", "9", "dead"};
    KV_ASSERT(lane < QUEUE_LANES);
    return names[lane];
}

struct kv_slice queue_job_key(struct queue_plan *plan, unsigned lane, uint64_t number)
{
    return plan_key(plan, "job:%s:%" PRIu64, queue_lane_name(lane), number);
}

struct kv_slice queue_away_key(struct queue_plan *plan, unsigned lane, uint64_t number)
{
    return plan_key(plan, "away:%s:%" PRIu64, queue_lane_name(lane), number);
}

struct kv_slice queue_body_key(struct queue_plan *plan, uint64_t id)
{
    return plan_key(plan, "body:%016" PRIx64, id);
}

/* Tails ---------------------------------------------------------------------------------------- */

enum kv_status queue_read_tails(struct clientk_queue *queue)
{
    plan_begin(&queue->look);
    enum kv_status status =
        clientk_get(queue->client, plan_key(&queue->look, "tails"), &queue->value);
    queue->has_tails = status == KV_OK;
    if (status == KV_NOT_FOUND) {
        memset(queue->tails, 0, sizeof queue->tails);
        memset(queue->heads, 0, sizeof queue->heads);
        return KV_OK;
    }
    if (status != KV_OK)
        return status;
    if (queue->value.size != QUEUE_TAILS_BYTES)
        return kv_error_set(last_error_of_thread(), KV_CORRUPT,
                            "the entry %stails is not that of a queue", queue->prefix);
    memcpy(queue->tails_bytes, queue->value.data, QUEUE_TAILS_BYTES);
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++) {
        queue->tails[lane] = load_u64(queue->tails_bytes + 8u * lane);
        if (queue->tails[lane] > QUEUE_MOST_NUMBER)
            return queue_refuse_tail(queue, lane);
        if (queue->heads[lane] > queue->tails[lane]) /* the entries were deleted meanwhile */
            queue->heads[lane] = 0;
    }
    return KV_OK;
}

enum kv_status queue_refuse_tail(const struct clientk_queue *queue, unsigned lane)
{
    return kv_error_set(last_error_of_thread(), KV_CORRUPT,
                        "%stails says that %" PRIu64 " jobs were put into lane %s, which are not "
                        "there: something else has written it",
                        queue->prefix, queue->tails[lane], queue_lane_name(lane));
}

void queue_guard_tails(struct clientk_queue *queue)
{
    struct kv_slice key = plan_key(&queue->plan, "tails");
    if (queue->has_tails)
        plan_guard_value(&queue->plan, key, kv_slice(queue->tails_bytes, QUEUE_TAILS_BYTES));
    else
        plan_guard_version(&queue->plan, key, 0);
}

void queue_put_tails(struct clientk_queue *queue, const uint64_t next[QUEUE_LANES])
{
    uint8_t bytes[QUEUE_TAILS_BYTES];
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++)
        store_u64(bytes + 8u * lane, next[lane]);
    plan_put_copy(&queue->plan, plan_key(&queue->plan, "tails"),
                  kv_slice(bytes, QUEUE_TAILS_BYTES));
}

void queue_adopt_tails(struct clientk_queue *queue, const uint64_t next[QUEUE_LANES])
{
    memcpy(queue->tails, next, sizeof queue->tails);
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++)
        store_u64(queue->tails_bytes + 8u * lane, next[lane]);
    queue->has_tails = true;
}

void queue_ring(struct clientk_queue *queue)
{
    if (queue->has_tails) {
        plan_step(&queue->plan, CLIENTK_TOUCH, plan_key(&queue->plan, "tails"));
    } else {
        queue_guard_tails(queue);
        queue_put_tails(queue, queue->tails);
    }
}

void queue_count_done(struct clientk_queue *queue, unsigned lane, uint64_t count)
{
    plan_add(&queue->plan, plan_key(&queue->plan, "done:%s", queue_lane_name(lane)),
             (int64_t)count);
}

/* Jobs ----------------------------------------------------------------------------------------- */

static bool copy_to_value(struct clientk_value *value, struct kv_slice bytes)
{
    if (!value_reserve(value, bytes.size))
        return false;
    if (bytes.size > 0)
        memcpy(value->data, bytes.data, bytes.size);
    ((char *)value->data)[bytes.size] = '\0';
    value->size = bytes.size;
    return true;
}

enum kv_status queue_fill_job(struct clientk_job *job, const struct job_record *record,
                              uint64_t number, uint64_t version)
{
    job->id = record->id;
    job->put_ms = record->put_ms;
    job->until_ms = record->until_ms;
    job->priority = record->lane;
    job->attempts = record->attempts;
    job->max_attempts = record->max_attempts;
    job->backoff_ms = record->backoff_ms;
    job->number = number;
    job->token = record->token;
    job->version = version;
    job->body = record->body_bytes;
    return copy_to_value(&job->payload, record->payload) &&
                   copy_to_value(&job->reason, record->reason)
               ? KV_OK
               : queue_refuse(KV_NO_MEMORY, "no memory for a job");
}

enum kv_status queue_read_body(struct clientk_queue *queue, struct clientk_job *job)
{
    plan_begin(&queue->look);
    return clientk_get(queue->client, queue_body_key(&queue->look, job->id), &job->payload);
}

void queue_put_record(struct clientk_queue *queue, struct kv_slice key,
                      const struct job_record *record)
{
    size_t size;
    void *bytes = job_record_write(record, &size);
    plan_put_owned(&queue->plan, key, bytes, size);
}

void queue_tell_unreadable(struct clientk_queue *queue, struct kv_slice key,
                           uint64_t next[QUEUE_LANES])
{
    char reason[QUEUE_KEY_BYTES + 32];
    int size = snprintf(reason, sizeof reason, "%.*s cannot be read", (int)key.size,
                        (const char *)key.data);
    const struct job_record dead = {.id = random_next(&queue->random),
                                    .put_ms = clock_realtime_ms(),
                                    .reason = kv_slice(reason, (size_t)size)};
    queue_put_record(queue, queue_job_key(&queue->plan, QUEUE_DEAD_LANE, next[QUEUE_DEAD_LANE]++),
                     &dead);
}

void clientk_job_free(struct clientk_job *job)
{
    if (!job)
        return;
    clientk_value_free(&job->payload);
    clientk_value_free(&job->reason);
    *job = (struct clientk_job){.id = 0};
}
