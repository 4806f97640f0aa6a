#include "clientk/queue/queue_take.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/api/handle.h"
#include "clientk/base/last_error.h"
#include "clientk/queue/queue_settle.h"
#include "clientk/queue/time_tree.h"
#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "common/time/clock.h"

#define TAKE_JOBS    64u
#define LOOK_RECORDS 64u

/* How many due records a transaction moves, and how many such transactions a look makes. */
#define PROMOTED_RECORDS 24u
#define PROMOTIONS       64u

/* "heads" is written when a lane's head has got so much higher than it says, and read where so many
 * absent records were seen. */
#define HEAD_STEP 64u

/* So many leased records may stand in the way at the head of a lane; the oldest of more are moved
 * away, so many at a look. */
#define LEASED_IN_PLACE 64u
#define AWAY_A_LOOK     8u

/* Nobody sleeps longer than this before the next look: the host's clock may be set. */
#define LONGEST_SLEEP_MS 60000u

#define RACES_MOST 8u

/* Looks after the time is over, where others were faster, or more has become due. */
#define LATE_LOOKS 16u

/* A worker that has taken a job a moment ago looks again so often, after so long, before it sleeps:
 * each job that is put wakes all that sleep. */
#define NAPS   10u
#define NAP_MS 1u

/* Heads ---------------------------------------------------------------------------------------- */

enum kv_status queue_read_heads(struct clientk_queue *queue)
{
    plan_begin(&queue->look);
    enum kv_status status =
        clientk_get(queue->client, plan_key(&queue->look, "heads"), &queue->value);
    queue->heads_version = status == KV_OK ? queue->value.version : 0;
    if (status == KV_NOT_FOUND)
        return KV_OK;
    for (unsigned lane = 0; lane < QUEUE_LANES && status == KV_OK; lane++) {
        if (queue->value.size != QUEUE_TAILS_BYTES)
            return kv_error_set(last_error_of_thread(), KV_CORRUPT,
                                "the entry %sheads is not that of a queue", queue->prefix);
        uint64_t head = load_u64((const uint8_t *)queue->value.data + 8u * lane);
        queue->told_heads[lane] = head;
        if (head > queue->heads[lane] && head <= queue->tails[lane])
            queue->heads[lane] = head;
    }
    return status;
}

/* Writes the value of "heads", as which it is told from now on. */
static void heads_write(struct clientk_queue *queue, uint8_t bytes[QUEUE_TAILS_BYTES])
{
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++) {
        store_u64(bytes + 8u * lane, queue->heads[lane]);
        queue->told_heads[lane] = queue->heads[lane];
    }
}

enum kv_status queue_tell_heads(struct clientk_queue *queue)
{
    bool higher = false;
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++)
        higher |= queue->heads[lane] >= queue->told_heads[lane] + HEAD_STEP;
    if (!higher)
        return KV_OK;
    enum kv_status status = queue_read_heads(queue);
    if (status != KV_OK)
        return status;
    uint8_t bytes[QUEUE_TAILS_BYTES];
    heads_write(queue, bytes);
    const struct clientk_write_options options = {.if_absent = queue->heads_version == 0,
                                                  .if_version = queue->heads_version};
    plan_begin(&queue->look);
    return clientk_put(queue->client, plan_key(&queue->look, "heads"),
                       kv_slice(bytes, sizeof bytes), &options, NULL);
}

/* What stands at the head of the lane cannot be read: a dead letter says so, once, and in the same
 * transaction the head passes it. KV_OK, also if others were faster. */
static enum kv_status pass_unreadable(struct clientk_queue *queue, unsigned lane)
{
    uint64_t next[QUEUE_LANES], number = queue->heads[lane];
    uint8_t bytes[QUEUE_TAILS_BYTES];
    bool done;
    enum kv_status status = queue_read_tails(queue);
    if (status == KV_OK)
        status = queue_read_heads(queue);
    if (status != KV_OK || queue->heads[lane] != number)
        return status;
    memcpy(next, queue->tails, sizeof next);
    plan_begin(&queue->plan);
    queue_guard_tails(queue);
    plan_guard_version(&queue->plan, plan_key(&queue->plan, "heads"), queue->heads_version);
    queue_tell_unreadable(queue, queue_job_key(&queue->plan, lane, number), next);
    queue_count_done(queue, lane, 1);
    queue->heads[lane]++;
    heads_write(queue, bytes);
    plan_put_copy(&queue->plan, plan_key(&queue->plan, "heads"), kv_slice(bytes, sizeof bytes));
    queue_put_tails(queue, next);
    status = plan_run(&queue->plan, queue->client, queue->options.durability, &done);
    if (done)
        queue_adopt_tails(queue, next);
    else
        queue->heads[lane] = number;
    return plan_is_unknown(&queue->plan, status) ? KV_OK : status;
}

/* What has become due -------------------------------------------------------------------------- */

/* Plans that a reference, the first record of the moment, goes on: to the end of the lease that it
 * stands for, or, if that is over, the job comes back to its lane. */
static enum kv_status plan_reference(struct clientk_queue *queue,
                                     const struct job_record *reference, uint64_t now_ms,
                                     uint64_t next[QUEUE_LANES])
{
    struct job_record record;
    plan_begin(&queue->look);
    struct kv_slice key = queue_away_key(&queue->plan, reference->lane, reference->token);
    enum kv_status status = clientk_get(queue->client, key, &queue->value);
    if (status == KV_NOT_FOUND)
        return KV_OK; /* it was settled meanwhile, and the reference stands for nothing */
    if (status != KV_OK && status != KV_CORRUPT)
        return status;
    uint64_t version = queue->value.version;
    if (status == KV_CORRUPT ||
        !job_record_read(kv_slice(queue->value.data, queue->value.size), &record)) {
        queue_tell_unreadable(queue, key, next);
        plan_add(&queue->plan, plan_key(&queue->plan, "outside"), -1);
        return KV_OK;
    }
    if (!job_record_is_free(&record, now_ms)) {
        struct time_moment later;
        status = time_read_moment(queue, time_moment_of(record.until_ms), &later);
        return status == KV_OK ? time_append(queue, &later, reference, 1) : status;
    }
    record.state = JOB_FREE;
    record.token = record.until_ms = 0;
    plan_guard_version(&queue->plan, key, version);
    plan_delete(&queue->plan, key);
    queue_put_record(queue, queue_job_key(&queue->plan, record.lane, next[record.lane]++), &record);
    plan_add(&queue->plan, plan_key(&queue->plan, "outside"), -1);
    return KV_OK;
}

/* Plans that the first `count` records of the moment, which were read, leave it, as far as goes in
 * one transaction. *left: how many. */
static enum kv_status plan_promotion(struct clientk_queue *queue, const struct time_moment *moment,
                                     size_t count, uint64_t now_ms, uint64_t next[QUEUE_LANES],
                                     size_t *left)
{
    int64_t waited = 0;
    size_t i = 0;
    for (; i < count; i++) {
        struct job_record record;
        const struct clientk_result *result = &queue->look.results[i];
        struct kv_slice key = time_due_key(&queue->plan, moment->number, moment->head + i);
        if (result->status == KV_NOT_FOUND)
            continue;
        if (result->status != KV_OK && result->status != KV_CORRUPT)
            return last_error_explain(last_error_of_thread(), result->status);
        if (result->status == KV_CORRUPT ||
            !job_record_read(kv_slice(result->value.data, result->value.size), &record)) {
            queue_tell_unreadable(queue, key, next);
            waited++;
            continue;
        }
        if (record.state == JOB_REFERENCE) {
            if (i > 0)
                break;
            plan_delete(&queue->plan, key);
            enum kv_status status = plan_reference(queue, &record, now_ms, next);
            if (status != KV_OK)
                return status;
            i++;
            break;
        }
        record.state = JOB_FREE;
        record.until_ms = record.token = 0;
        waited++;
        plan_delete(&queue->plan, key);
        queue_put_record(queue, queue_job_key(&queue->plan, record.lane, next[record.lane]++),
                         &record);
    }
    if (waited > 0)
        plan_add(&queue->plan, plan_key(&queue->plan, "later"), -waited);
    *left = i;
    return KV_OK;
}

/* Runs the plan, which writes the tails. KV_OK, also if others were faster. */
static enum kv_status run_promotion(struct clientk_queue *queue, const uint64_t next[QUEUE_LANES])
{
    bool done;
    queue_put_tails(queue, next);
    enum kv_status status = plan_run(&queue->plan, queue->client, queue->options.durability, &done);
    if (done)
        queue_adopt_tails(queue, next);
    return plan_is_unknown(&queue->plan, status) ? KV_OK : status;
}

/* The moment's entry cannot be read: a dead letter says so, once, and those behind it can come. */
static enum kv_status pass_moment(struct clientk_queue *queue, uint64_t number)
{
    uint64_t next[QUEUE_LANES];
    memcpy(next, queue->tails, sizeof next);
    plan_begin(&queue->plan);
    queue_guard_tails(queue);
    queue_tell_unreadable(queue, time_moment_key(&queue->plan, number), next);
    enum kv_status status = time_leave(queue, number);
    return status == KV_OK ? run_promotion(queue, next) : status;
}

/* Moves the first records of a moment that has come. KV_OK, also if others were faster. */
static enum kv_status promote(struct clientk_queue *queue, uint64_t number, uint64_t now_ms)
{
    struct time_moment moment = {.number = number};
    uint64_t next[QUEUE_LANES];
    enum kv_status status = queue_read_tails(queue);
    if (status != KV_OK)
        return status;
    status = time_read_moment(queue, number, &moment);
    if (status == KV_CORRUPT)
        return pass_moment(queue, number);
    if (status == KV_OK && moment.version == 0)
        status = time_forget(queue, number); /* unless others were faster */
    if (status != KV_OK || moment.version == 0)
        return status;
    size_t count = moment.tail - moment.head < PROMOTED_RECORDS
                       ? (size_t)(moment.tail - moment.head)
                       : PROMOTED_RECORDS;
    plan_begin(&queue->look);
    for (size_t i = 0; i < count; i++)
        plan_step(&queue->look, CLIENTK_GET, time_due_key(&queue->look, number, moment.head + i));
    status = plan_execute(&queue->look, queue->client);
    if (status != KV_OK)
        return status;
    memcpy(next, queue->tails, sizeof next);
    plan_begin(&queue->plan);
    time_change_begin(queue);
    queue_guard_tails(queue);
    size_t left = 0;
    status = plan_promotion(queue, &moment, count, now_ms, next, &left);
    if (status == KV_OK)
        status = time_remove(queue, &moment, left);
    if (status != KV_OK)
        return status;
    time_change_end(queue);
    return run_promotion(queue, next);
}

enum kv_status queue_promote_due(struct clientk_queue *queue, uint64_t now_ms, uint64_t *next_ms)
{
    enum kv_status status = KV_OK;
    for (unsigned i = 0; status == KV_OK && i < PROMOTIONS; i++) {
        bool found;
        uint64_t number;
        status = time_find(queue, 0, &found, &number);
        if (status != KV_OK || !found)
            return status;
        if (time_of_moment(number) > now_ms) {
            if (time_of_moment(number) < *next_ms)
                *next_ms = time_of_moment(number);
            return KV_OK;
        }
        status = promote(queue, number, now_ms);
    }
    if (status == KV_OK)
        *next_ms = now_ms; /* there is more */
    return status;
}

/* Claims --------------------------------------------------------------------------------------- */

/* What one call of clientk_queue_take does. */
struct taking {
    struct clientk_queue *queue;
    struct clientk_job *jobs;
    size_t count, taken;
    uint64_t now_ms;
    uint64_t next_ms; /* when something changes by itself */
    unsigned away;    /* records that were moved away */
    bool raced;       /* a claim was lost */
};

enum kv_status queue_look_at(struct clientk_queue *queue, unsigned lane, uint64_t from,
                             size_t count)
{
    KV_ASSERT(count <= LOOK_RECORDS);
    plan_begin(&queue->look);
    for (size_t i = 0; i < count; i++)
        plan_step(&queue->look, CLIENTK_GET, queue_job_key(&queue->look, lane, from + i));
    return plan_execute(&queue->look, queue->client);
}

/* A record that can be claimed: its place in queue->look.results. */
struct claim {
    size_t at;
    uint64_t number;
    struct job_record record;
};

/* Whether the claim, whose answer never came, was executed. */
static bool claim_was_executed(struct clientk_queue *queue, const struct claim *claim,
                               uint64_t *version)
{
    struct job_record record;
    plan_begin(&queue->look);
    enum kv_status status =
        clientk_get(queue->client, queue_job_key(&queue->look, claim->record.lane, claim->number),
                    &queue->value);
    *version = queue->value.version;
    return status == KV_OK &&
           job_record_read(kv_slice(queue->value.data, queue->value.size), &record) &&
           record.token == claim->record.token;
}

/* Hands the job of a claim that was executed to the caller. */
static enum kv_status hand_out_job(struct taking *taking, const struct claim *claim,
                                   uint64_t version)
{
    struct clientk_job *job = &taking->jobs[taking->taken];
    enum kv_status status = queue_fill_job(job, &claim->record, claim->number, version);
    if (status == KV_OK)
        taking->taken++;
    return status;
}

/* Claims the records: of each its version is the guard. */
static enum kv_status claim_records(struct taking *taking, struct claim *claims, size_t count)
{
    struct clientk_queue *queue = taking->queue;
    plan_begin(&queue->plan);
    for (size_t i = 0; i < count; i++) {
        struct job_record *record = &claims[i].record;
        record->state = JOB_LEASED;
        record->attempts++;
        record->until_ms = taking->now_ms + queue->options.lease_ms;
        do
            record->token = random_next(&queue->random);
        while (record->token == 0);
        queue_put_record(queue, queue_job_key(&queue->plan, record->lane, claims[i].number),
                         record);
        if (queue->plan.no_memory)
            break;
        struct clientk_operation *step = &queue->plan.steps[queue->plan.step_count - 1];
        step->write.if_version = queue->look.results[claims[i].at].value.version;
        step->write.durability = queue->options.durability;
    }
    enum kv_status status = plan_execute(&queue->plan, queue->client);
    if (queue->plan.no_memory)
        return status;
    for (size_t i = 0; i < count; i++) {
        const struct clientk_result *result = &queue->plan.results[i];
        uint64_t version = result->value.version;
        enum kv_status one = result->status;
        if (one == KV_TIMEOUT || one == KV_OUTCOME_UNKNOWN)
            one = claim_was_executed(queue, &claims[i], &version) ? KV_OK : one;
        if (one == KV_OK)
            one = hand_out_job(taking, &claims[i], version);
        else if (one == KV_VERSION_MISMATCH || one == KV_NOT_FOUND) {
            taking->raced = true;
            one = KV_OK;
        }
        if (one != KV_OK && status == KV_OK)
            status = last_error_explain(last_error_of_thread(), one);
    }
    return taking->taken > 0 ? KV_OK : status;
}

/* What is seen of a lane on the way from its head. */
struct lane_look {
    unsigned lane;
    uint64_t at;                /* the next record to look at */
    bool only_absent;           /* nothing else was seen yet */
    bool unreadable;            /* the first that is there cannot be read */
    uint64_t absent;            /* how many were */
    unsigned leased;            /* how many were */
    uint64_t behind;            /* absent ones behind the first that was there */
    uint64_t slow[AWAY_A_LOOK]; /* the oldest leased ones */
    size_t slow_count;
};

/* Notes what stands at a number of the lane that was read. True: *claim can be claimed. */
static bool look_at_record(struct taking *taking, struct lane_look *look, size_t at,
                           struct claim *claim, enum kv_status *status)
{
    struct clientk_queue *queue = taking->queue;
    const struct clientk_result *result = &queue->look.results[at];
    if (result->status == KV_NOT_FOUND) {
        look->absent++;
        if (look->only_absent)
            queue->heads[look->lane] = look->at + at + 1;
        look->behind += !look->only_absent;
        return false;
    }
    bool is_first = look->only_absent;
    look->only_absent = false;
    if (result->status != KV_OK) {
        if (result->status != KV_CORRUPT && result->status != KV_IO) /* one record of many */
            *status = last_error_explain(last_error_of_thread(), result->status);
        look->unreadable |= is_first && result->status == KV_CORRUPT;
        return false;
    }
    *claim = (struct claim){.at = at, .number = look->at + at};
    if (!job_record_read(kv_slice(result->value.data, result->value.size), &claim->record) ||
        claim->record.state == JOB_REFERENCE) { /* nobody's */
        claim->record.state = JOB_FREE;
        look->unreadable |= is_first;
        return false;
    }
    claim->record.lane = look->lane;
    if (job_record_is_free(&claim->record, taking->now_ms))
        return true;
    look->leased++;
    if (claim->record.until_ms < taking->next_ms)
        taking->next_ms = claim->record.until_ms;
    return false;
}

/* Claims what is free among the records that were read; those that have had all their attempts
 * become dead letters. */
static enum kv_status take_of_page(struct taking *taking, struct lane_look *look, size_t count)
{
    struct claim claims[LOOK_RECORDS];
    uint64_t spent[LOOK_RECORDS];
    size_t free_count = 0, spent_count = 0;
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        struct claim *claim = &claims[free_count];
        claim->record.state = JOB_FREE;
        if (!look_at_record(taking, look, i, claim, &status)) {
            if (claim->record.state == JOB_LEASED && look->slow_count < AWAY_A_LOOK)
                look->slow[look->slow_count++] = look->at + i;
        } else if (claim->record.attempts >= claim->record.max_attempts) {
            spent[spent_count++] = claim->number;
        } else {
            free_count++;
        }
    }
    size_t wanted = taking->count - taking->taken;
    size_t begin = 0;
    if (free_count > wanted && taking->queue->races > 0)
        begin = (size_t)random_below(&taking->queue->random, taking->queue->races + 1);
    if (begin + wanted > free_count)
        begin = free_count > wanted ? free_count - wanted : 0;
    size_t claimed = free_count < wanted ? free_count : wanted;
    if (status == KV_OK && claimed > 0)
        status = claim_records(taking, claims + begin, claimed);
    for (size_t i = 0; i < spent_count && status == KV_OK; i++)
        status = queue_bury_spent(taking->queue, look->lane, spent[i], taking->now_ms);
    return status;
}

/* Of many leased ones, or where much behind them is done, the oldest are moved away, so that the
 * head goes on. */
static enum kv_status move_slow_away(struct taking *taking, const struct lane_look *look)
{
    enum kv_status status = KV_OK;
    if (look->leased + look->behind <= LEASED_IN_PLACE)
        return KV_OK;
    for (size_t i = 0; i < look->slow_count && status == KV_OK && taking->away < AWAY_A_LOOK; i++) {
        status = queue_move_away(taking->queue, look->lane, look->slow[i]);
        taking->away++;
    }
    return status;
}

static enum kv_status take_of_lane(struct taking *taking, unsigned lane)
{
    struct clientk_queue *queue = taking->queue;
    struct lane_look look = {.lane = lane, .at = queue->heads[lane], .only_absent = true};
    size_t page = taking->count + queue->races + 1;
    enum kv_status status = KV_OK;
    bool read_heads = false;
    while (status == KV_OK && taking->taken < taking->count && look.at < queue->tails[lane]) {
        uint64_t left = queue->tails[lane] - look.at;
        size_t count = page < LOOK_RECORDS ? page : LOOK_RECORDS;
        if (count > left)
            count = (size_t)left;
        status = queue_look_at(queue, lane, look.at, count);
        if (status == KV_OK)
            status = take_of_page(taking, &look, count);
        look.at += count;
        page = page < LOOK_RECORDS ? 2 * page : LOOK_RECORDS;
        if (status == KV_OK && look.absent > QUEUE_MOST_ABSENT) {
            queue_tell_heads(queue);
            status = queue_refuse_tail(queue, lane);
        }
        if (look.only_absent && look.absent >= HEAD_STEP && !read_heads && status == KV_OK) {
            read_heads = true;
            status = queue_read_heads(queue);
            if (queue->heads[lane] > look.at)
                look.at = queue->heads[lane];
        }
    }
    if (status == KV_OK && look.unreadable)
        status = pass_unreadable(queue, lane);
    return status == KV_OK ? move_slow_away(taking, &look) : status;
}

/* One look at the whole queue. KV_OK, also if nothing was taken. */
static enum kv_status take_now(struct taking *taking)
{
    struct clientk_queue *queue = taking->queue;
    taking->now_ms = clock_realtime_ms();
    taking->next_ms = UINT64_MAX;
    taking->raced = false;
    /* What is due and cannot be read keeps nobody from the lanes. */
    enum kv_status of_due = queue_promote_due(queue, taking->now_ms, &taking->next_ms);
    enum kv_status status = of_due == KV_CORRUPT || of_due == KV_IO ? KV_OK : of_due;
    if (status == KV_OK)
        status = queue_read_tails(queue);
    if (status == KV_OK && !queue->has_heads) {
        status = queue_read_heads(queue);
        queue->has_heads = status == KV_OK;
    }
    for (unsigned lane = CLIENTK_MAX_JOB_PRIORITY + 1; status == KV_OK && lane-- > 0;)
        if (taking->taken < taking->count && queue->heads[lane] < queue->tails[lane])
            status = take_of_lane(taking, lane);
    if (taking->raced && queue->races < RACES_MOST)
        queue->races++;
    else if (!taking->raced && queue->races > 0)
        queue->races--;
    if (taking->taken > 0 || status == KV_OK)
        queue_tell_heads(queue);
    if (taking->taken > 0) /* what is claimed is the caller's, whatever failed behind it */
        return KV_OK;
    return status == KV_OK ? of_due : status;
}

/* Reads the payloads that stand apart. A job without its payload is nobody's: it is buried. */
static enum kv_status read_bodies(struct taking *taking)
{
    size_t kept = 0;
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < taking->taken; i++) {
        struct clientk_job *job = &taking->jobs[i];
        enum kv_status one =
            job->body > 0 && status == KV_OK ? queue_read_body(taking->queue, job) : status;
        if (one == KV_NOT_FOUND) {
            clientk_queue_bury(taking->queue, job,
                               kv_slice_from_string("its payload is not there"));
            continue;
        }
        if (one != KV_OK) {
            status = one;
            break;
        }
        struct clientk_job moved = taking->jobs[kept];
        taking->jobs[kept] = *job;
        if (kept != i)
            *job = moved;
        kept++;
    }
    for (size_t i = kept; i < taking->taken; i++)
        clientk_job_free(&taking->jobs[i]);
    taking->taken = kept;
    return kept > 0 ? KV_OK : status;
}

/* Waiting -------------------------------------------------------------------------------------- */

/* Opens the watch. *again: another look is needed, since it tells what comes from now on. */
static enum kv_status ensure_watch(struct clientk_queue *queue, bool *again)
{
    struct kv_error error = {0};
    *again = false;
    if (queue->watch)
        return KV_OK;
    plan_begin(&queue->look);
    const struct clientk_watch_options options = {.prefix = plan_key(&queue->look, "tails"),
                                                  .keys_only = true};
    enum kv_status status = clientk_watch_open(queue->client, &options, &queue->watch, &error);
    if (status != KV_OK)
        return kv_error_set(last_error_of_thread(), status, "%s", error.text);
    *again = true;
    return KV_OK;
}

/* Waits until the queue has changed, or for wait_ms at most. A watch that has much to tell, of the
 * time in which nobody waited, is opened anew. */
static void await_change(struct clientk_queue *queue, uint64_t wait_ms)
{
    struct clientk_change change;
    enum kv_status status = clientk_watch_next(queue->watch, (int)wait_ms, &change);
    for (unsigned i = 0; status == KV_OK && i < HEAD_STEP; i++)
        status = clientk_watch_next(queue->watch, 0, &change);
    if (status == KV_TIMEOUT || status == KV_MISSED)
        return;
    clientk_watch_close(queue->watch);
    queue->watch = NULL;
}

static enum kv_status check_take(const struct clientk_queue *queue, size_t count,
                                 const struct clientk_job *jobs, const size_t *taken)
{
    if (!queue || !jobs || !taken)
        return queue_refuse(KV_USAGE, "NULL was given as the queue, the jobs or their number");
    if (count == 0 || count > TAKE_JOBS)
        return queue_refuse(KV_USAGE, "1 to 64 jobs are taken at once");
    return KV_OK;
}

enum kv_status clientk_queue_take(struct clientk_queue *queue, size_t count, int timeout_ms,
                                  struct clientk_job *jobs, size_t *taken)
{
    enum kv_status status = check_take(queue, count, jobs, taken);
    if (status != KV_OK)
        return status;
    struct taking taking = {.queue = queue, .jobs = jobs, .count = count};
    const uint64_t begin_ms = clock_monotonic_coarse_ms();
    unsigned late_looks = 0;
    *taken = 0;
    for (;;) {
        taking.away = 0;
        status = take_now(&taking);
        if (status == KV_OK && taking.taken > 0)
            status = read_bodies(&taking);
        if (status != KV_OK || taking.taken > 0)
            break;
        bool again = taking.raced || taking.next_ms <= taking.now_ms;
        uint64_t waited_ms = clock_monotonic_coarse_ms() - begin_ms;
        bool is_late = timeout_ms >= 0 && waited_ms >= (uint64_t)timeout_ms;
        if ((is_late && !(again && late_looks++ < LATE_LOOKS)) ||
            client_settings_interrupted(&queue->client->settings)) {
            status = queue_refuse(KV_NOT_FOUND, "there is no job to take");
            break;
        }
        if (again)
            continue;
        if (queue->naps > 0) {
            queue->naps--;
            clock_sleep_ms(NAP_MS);
            continue;
        }
        bool is_new;
        status = ensure_watch(queue, &is_new);
        if (status != KV_OK)
            break;
        if (is_new)
            continue;
        uint64_t wait_ms = taking.next_ms - taking.now_ms;
        if (wait_ms > LONGEST_SLEEP_MS)
            wait_ms = LONGEST_SLEEP_MS;
        if (timeout_ms >= 0 && wait_ms > (uint64_t)timeout_ms - waited_ms)
            wait_ms = (uint64_t)timeout_ms - waited_ms;
        await_change(queue, wait_ms);
    }
    if (taking.taken > 0)
        queue->naps = NAPS;
    *taken = taking.taken;
    return status;
}
