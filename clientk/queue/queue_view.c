/* Looking at a queue: lengths, lists; and what is done with jobs that nobody has taken. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "clientk/queue/queue_take.h"
#include "clientk/queue/time_tree.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "common/time/clock.h"

/* Leased records stand among the first ones of a lane; and so many of those that wait for a moment
 * are looked at when jobs are counted. */
#define LEASED_AMONG 1024u

/* How many records are read, and changed, together. */
#define VIEW_RECORDS 24u

/* Something that is done with the jobs of a queue, one page of records after the other. */
struct viewing {
    struct clientk_queue *queue;
    enum clientk_job_state state; /* which jobs are wanted */
    uint64_t now_ms;
    uint64_t limit, count;
    uint64_t absent;         /* of the records of a lane: how many were seen to have left */
    uint64_t seen;           /* of the records of moments: how many */
    uint64_t away;           /* of `count`: how many stand away from their lanes */
    clientk_visit_job visit; /* NULL: they are counted */
    void *context;
    bool stopped; /* the visitor has had enough */
    struct clientk_job job;
};

static enum kv_status viewing_begin(struct viewing *viewing, struct clientk_queue *queue,
                                    enum clientk_job_state state, uint64_t limit)
{
    if (!queue)
        return queue_refuse(KV_USAGE, "NULL was given as the queue");
    if (state < CLIENTK_JOB_READY || state > CLIENTK_JOB_DEAD)
        return queue_refuse(KV_USAGE, "there is no such state of jobs");
    *viewing = (struct viewing){.queue = queue,
                                .state = state,
                                .now_ms = clock_realtime_ms(),
                                .limit = limit ? limit : UINT64_MAX};
    enum kv_status status = queue_read_tails(queue);
    return status == KV_OK ? queue_read_heads(queue) : status;
}

/* Tells others how far the heads have come, so that nobody passes the same holes again; a caller
 * who may only read does not. Returns `status`, whose sentence stays. */
static enum kv_status viewing_end(struct viewing *viewing, enum kv_status status)
{
    struct kv_error *last = last_error_of_thread();
    const struct kv_error error = *last;
    queue_tell_heads(viewing->queue);
    *last = error;
    return status;
}

static bool viewing_is_over(const struct viewing *viewing)
{
    return viewing->stopped || viewing->count >= viewing->limit;
}

/* Whether what waits for that moment can be taken: the next worker will bring it to its lane. */
static bool moment_has_come(const struct viewing *viewing, uint64_t moment_number)
{
    return time_of_moment(moment_number) <= viewing->now_ms;
}

static enum clientk_job_state state_of(const struct job_record *record, uint64_t now_ms)
{
    return job_record_is_free(record, now_ms) ? CLIENTK_JOB_READY : CLIENTK_JOB_LEASED;
}

/* Reads a result of queue->look. KV_OK; KV_NOT_FOUND: it is no job that can be read. */
static enum kv_status read_result(struct clientk_queue *queue, size_t at, struct job_record *record)
{
    const struct clientk_result *result = &queue->look.results[at];
    if (result->status == KV_CORRUPT || result->status == KV_IO)
        return KV_NOT_FOUND; /* one record of many */
    if (result->status != KV_OK) {
        if (result->status != KV_NOT_FOUND)
            last_error_explain(last_error_of_thread(), result->status);
        return result->status;
    }
    return job_record_read(kv_slice(result->value.data, result->value.size), record) ? KV_OK
                                                                                     : KV_NOT_FOUND;
}

/* Counts the records of a page that have left; returns a bit for each. */
static uint32_t absent_of_page(struct viewing *viewing, size_t page)
{
    uint32_t absent = 0;
    for (size_t i = 0; i < page; i++)
        if (viewing->queue->look.results[i].status == KV_NOT_FOUND)
            absent |= UINT32_C(1) << i;
    viewing->absent += (unsigned)__builtin_popcount(absent);
    return absent;
}

/* The head of the lane passes the records of a page, from `at` on, that have left. KV_CORRUPT: too
 * many have been passed in one call. */
static enum kv_status pass_head(struct viewing *viewing, unsigned lane, uint64_t at, uint32_t left)
{
    struct clientk_queue *queue = viewing->queue;
    for (unsigned i = 0; i < VIEW_RECORDS; i++)
        if (queue->heads[lane] == at + i && left >> i & 1u)
            queue->heads[lane]++;
    return viewing->absent > QUEUE_MOST_ABSENT ? queue_refuse_tail(queue, lane) : KV_OK;
}

/* Lists ---------------------------------------------------------------------------------------- */

static enum kv_status show(struct viewing *viewing, const struct job_record *record,
                           uint64_t number, uint64_t version)
{
    if (!viewing->visit) {
        viewing->count++;
        return KV_OK;
    }
    enum kv_status status = queue_fill_job(&viewing->job, record, number, version);
    if (status == KV_OK && record->body_bytes > 0)
        status = queue_read_body(viewing->queue, &viewing->job);
    if (status == KV_NOT_FOUND)
        return KV_OK; /* it was acknowledged meanwhile */
    if (status != KV_OK)
        return status;
    viewing->count++;
    viewing->stopped = !viewing->visit(viewing->context, &viewing->job, viewing->state);
    return KV_OK;
}

static enum kv_status list_lane(struct viewing *viewing, unsigned lane)
{
    struct clientk_queue *queue = viewing->queue;
    uint64_t end = queue->tails[lane];
    if (viewing->state == CLIENTK_JOB_LEASED && end - queue->heads[lane] > LEASED_AMONG)
        end = queue->heads[lane] + LEASED_AMONG;
    viewing->absent = 0;
    for (uint64_t at = queue->heads[lane]; at < end && !viewing_is_over(viewing);) {
        size_t count = end - at < VIEW_RECORDS ? (size_t)(end - at) : VIEW_RECORDS;
        enum kv_status status = queue_look_at(queue, lane, at, count);
        if (status == KV_OK)
            status = pass_head(viewing, lane, at, absent_of_page(viewing, count));
        for (size_t i = 0; i < count && status == KV_OK && !viewing_is_over(viewing); i++) {
            struct job_record record = {.state = JOB_FREE};
            enum kv_status one = read_result(queue, i, &record);
            if (one == KV_OK &&
                (lane == QUEUE_DEAD_LANE || state_of(&record, viewing->now_ms) == viewing->state))
                one = show(viewing, &record, at + i, queue->look.results[i].value.version);
            if (one != KV_NOT_FOUND)
                status = one;
        }
        if (status != KV_OK)
            return status;
        at += count;
    }
    return KV_OK;
}

/* Shows the record that a reference stands for, if its state is the wanted one. Of a lease that was
 * shortened a second reference tells. */
static enum kv_status show_away(struct viewing *viewing, const struct job_record *reference)
{
    struct clientk_queue *queue = viewing->queue;
    struct job_record record = {.state = JOB_FREE};
    plan_begin(&queue->plan);
    enum kv_status status =
        clientk_get(queue->client, queue_away_key(&queue->plan, reference->lane, reference->token),
                    &queue->located);
    if (status != KV_OK)
        return status == KV_NOT_FOUND ? KV_OK : status;
    if (!job_record_read(kv_slice(queue->located.data, queue->located.size), &record) ||
        state_of(&record, viewing->now_ms) != viewing->state ||
        reference->until_ms > record.until_ms)
        return KV_OK;
    uint64_t before = viewing->count;
    status = show(viewing, &record, reference->token, queue->located.version);
    viewing->away += viewing->count - before;
    return status;
}

/* Reads up to VIEW_RECORDS records of a moment into queue->look.results. */
static enum kv_status look_at_moment(struct clientk_queue *queue, const struct time_moment *moment,
                                     uint64_t from, size_t *count)
{
    *count = moment->tail - from < VIEW_RECORDS ? (size_t)(moment->tail - from) : VIEW_RECORDS;
    plan_begin(&queue->look);
    for (size_t i = 0; i < *count; i++)
        plan_step(&queue->look, CLIENTK_GET, time_due_key(&queue->look, moment->number, from + i));
    return plan_execute(&queue->look, queue->client);
}

static enum kv_status list_moment(struct viewing *viewing, const struct time_moment *moment)
{
    struct clientk_queue *queue = viewing->queue;
    enum kv_status status = KV_OK;
    bool is_wanted =
        viewing->state ==
        (moment_has_come(viewing, moment->number) ? CLIENTK_JOB_READY : CLIENTK_JOB_LATER);
    for (uint64_t at = moment->head;
         at < moment->tail && status == KV_OK && !viewing_is_over(viewing);) {
        size_t count;
        status = look_at_moment(queue, moment, at, &count);
        for (size_t i = 0; i < count && status == KV_OK && !viewing_is_over(viewing); i++) {
            struct job_record record = {.state = JOB_FREE};
            enum kv_status one = read_result(queue, i, &record);
            if (one == KV_OK && record.state == JOB_REFERENCE)
                one = viewing->state == CLIENTK_JOB_LATER ? KV_OK : show_away(viewing, &record);
            else if (one == KV_OK && is_wanted)
                one = show(viewing, &record, at + i, queue->look.results[i].value.version);
            if (one != KV_NOT_FOUND)
                status = one;
        }
        at += count;
        viewing->seen += count;
        if (!viewing->visit && viewing->seen >= LEASED_AMONG)
            viewing->stopped = true;
    }
    return status;
}

/* Shows what waits for a moment. What is ready and what waits are of different moments. */
static enum kv_status list_times(struct viewing *viewing)
{
    bool only_due = viewing->state == CLIENTK_JOB_READY;
    uint64_t number = viewing->state == CLIENTK_JOB_LATER ? time_moment_of(viewing->now_ms) : 0;
    enum kv_status status = KV_OK;
    for (uint64_t from = number; status == KV_OK && !viewing_is_over(viewing); from = number + 1) {
        bool found;
        struct time_moment moment = {.number = 0};
        status = time_find(viewing->queue, from, &found, &number);
        if (status != KV_OK || !found || (only_due && !moment_has_come(viewing, number)))
            return status;
        status = time_read_moment(viewing->queue, number, &moment);
        if (status == KV_OK)
            status = list_moment(viewing, &moment);
    }
    return status;
}

enum kv_status clientk_queue_list(struct clientk_queue *queue, enum clientk_job_state state,
                                  uint64_t limit, clientk_visit_job visit, void *context)
{
    struct viewing viewing = {.queue = queue};
    enum kv_status status = viewing_begin(&viewing, queue, state, limit);
    if (status != KV_OK)
        return status;
    if (!visit)
        return queue_refuse(KV_USAGE, "NULL was given as the visitor");
    viewing.visit = visit;
    viewing.context = context;
    if (state == CLIENTK_JOB_DEAD)
        status = list_lane(&viewing, QUEUE_DEAD_LANE);
    else if (state != CLIENTK_JOB_LATER)
        for (unsigned lane = CLIENTK_MAX_JOB_PRIORITY + 1; lane-- > 0 && status == KV_OK;)
            status = list_lane(&viewing, lane);
    if (status == KV_OK && state != CLIENTK_JOB_DEAD)
        status = list_times(&viewing);
    clientk_job_free(&viewing.job);
    return viewing_end(&viewing, status);
}

/* Lengths -------------------------------------------------------------------------------------- */

/* Counts the leased records that stand in the lanes. */
static enum kv_status count_leased(struct clientk_queue *queue, uint64_t *leased)
{
    uint64_t now_ms = clock_realtime_ms();
    for (unsigned lane = 0; lane <= CLIENTK_MAX_JOB_PRIORITY; lane++) {
        uint64_t end = queue->tails[lane];
        if (end - queue->heads[lane] > LEASED_AMONG)
            end = queue->heads[lane] + LEASED_AMONG;
        for (uint64_t at = queue->heads[lane]; at < end;) {
            size_t count = end - at < VIEW_RECORDS ? (size_t)(end - at) : VIEW_RECORDS;
            enum kv_status status = queue_look_at(queue, lane, at, count);
            if (status != KV_OK)
                return status;
            for (size_t i = 0; i < count; i++) {
                struct job_record record = {.state = JOB_FREE};
                *leased += read_result(queue, i, &record) == KV_OK &&
                           state_of(&record, now_ms) == CLIENTK_JOB_LEASED;
            }
            at += count;
        }
    }
    return KV_OK;
}

/* A counter that ADD keeps, as an entry has it. */
static int64_t counter_of(const struct clientk_result *result)
{
    char digits[24] = "";
    if (result->status == KV_OK && result->value.size < sizeof digits)
        memcpy(digits, result->value.data, result->value.size);
    return strtoll(digits, NULL, 10);
}

enum kv_status clientk_queue_length(struct clientk_queue *queue,
                                    struct clientk_queue_lengths *lengths)
{
    struct viewing viewing = {.queue = queue};
    struct kv_slice keys[QUEUE_LANES + 3];
    enum kv_status status = viewing_begin(&viewing, queue, CLIENTK_JOB_READY, 0);
    if (status != KV_OK)
        return status;
    if (!lengths)
        return queue_refuse(KV_USAGE, "NULL was given as the lengths");
    *lengths = (struct clientk_queue_lengths){0};
    status = count_leased(queue, &lengths->leased);
    if (status == KV_OK)
        status = list_times(&viewing); /* what is due, and in no lane yet */
    if (status != KV_OK)
        return status;
    plan_begin(&queue->look);
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++)
        keys[lane] = plan_key(&queue->look, "done:%s", queue_lane_name(lane));
    keys[QUEUE_LANES] = plan_key(&queue->look, "later");
    keys[QUEUE_LANES + 1] = plan_key(&queue->look, "outside");
    keys[QUEUE_LANES + 2] = plan_key(&queue->look, "tails");
    struct clientk_result *results = queue->look.results;
    status = clientk_get_together(queue->client, keys, QUEUE_LANES + 3, results);
    if (status != KV_OK)
        return status;
    int64_t in_lanes = 0, left[QUEUE_LANES];
    for (unsigned lane = 0; lane < QUEUE_LANES; lane++) {
        const struct clientk_value *tails = &results[QUEUE_LANES + 2].value;
        bool known = results[QUEUE_LANES + 2].status == KV_OK && tails->size == QUEUE_TAILS_BYTES;
        uint64_t tail = known ? load_u64((const uint8_t *)tails->data + 8u * lane) : 0;
        left[lane] = (int64_t)tail - counter_of(&results[lane]);
        in_lanes += lane == QUEUE_DEAD_LANE ? 0 : left[lane];
    }
    uint64_t due = viewing.count - viewing.away;
    int64_t outside = counter_of(&results[QUEUE_LANES + 1]) - (int64_t)viewing.away;
    int64_t later = counter_of(&results[QUEUE_LANES]) - (int64_t)due;
    if ((int64_t)lengths->leased > in_lanes) /* some were acknowledged meanwhile */
        lengths->leased = in_lanes > 0 ? (uint64_t)in_lanes : 0;
    lengths->ready = in_lanes > 0 ? (uint64_t)in_lanes - lengths->leased : 0;
    lengths->ready += viewing.count;
    lengths->leased += outside > 0 ? (uint64_t)outside : 0;
    lengths->later = later > 0 ? (uint64_t)later : 0;
    lengths->dead = left[QUEUE_DEAD_LANE] > 0 ? (uint64_t)left[QUEUE_DEAD_LANE] : 0;
    return KV_OK;
}

/* Dropping and reviving ------------------------------------------------------------------------ */

/* Plans what becomes of the records of a page: those of the state are deleted, or revived. *count:
 * how many; *left gets a bit for each. */
static enum kv_status plan_page(struct viewing *viewing, unsigned lane, uint64_t at, size_t page,
                                uint64_t *next, uint64_t *count, uint32_t *left)
{
    struct clientk_queue *queue = viewing->queue;
    uint64_t room = viewing->limit - viewing->count;
    *count = 0;
    plan_begin(&queue->plan);
    for (size_t i = 0; i < page && *count < room; i++) {
        struct job_record record = {.state = JOB_FREE};
        enum kv_status status = read_result(queue, i, &record);
        if (status != KV_OK && status != KV_NOT_FOUND)
            return status;
        if (status != KV_OK && lane == QUEUE_DEAD_LANE && !next &&
            queue->look.results[i].status == KV_OK) { /* malformed, and nobody's */
            record = (struct job_record){.state = JOB_FREE};
            status = KV_OK;
        }
        if (status != KV_OK ||
            (lane != QUEUE_DEAD_LANE && state_of(&record, viewing->now_ms) != viewing->state))
            continue;
        if (next && record.max_attempts == 0)
            continue; /* it tells of a record that cannot be read */
        struct kv_slice key = queue_job_key(&queue->plan, lane, at + i);
        plan_guard_version(&queue->plan, key, queue->look.results[i].value.version);
        plan_delete(&queue->plan, key);
        if (next) {
            record.attempts = 0;
            queue_put_record(queue, queue_job_key(&queue->plan, record.lane, next[record.lane]++),
                             &record);
        } else if (record.body_bytes > 0) {
            plan_delete(&queue->plan, queue_body_key(&queue->plan, record.id));
        }
        ++*count;
        *left |= UINT32_C(1) << i;
    }
    if (*count > 0)
        queue_count_done(queue, lane, *count);
    if (*count > 0 && next) {
        queue_guard_tails(queue);
        queue_put_tails(queue, next);
    }
    return KV_OK;
}

/* Deletes the jobs of the state in a lane, or revives them. */
static enum kv_status change_lane(struct viewing *viewing, unsigned lane, bool revive)
{
    struct clientk_queue *queue = viewing->queue;
    uint64_t end = queue->tails[lane];
    unsigned tries = 0;
    viewing->absent = 0;
    for (uint64_t at = queue->heads[lane]; at < end && !viewing_is_over(viewing);) {
        uint64_t next[QUEUE_LANES], count = 0;
        size_t page = end - at < VIEW_RECORDS ? (size_t)(end - at) : VIEW_RECORDS;
        bool done;
        enum kv_status status = queue_look_at(queue, lane, at, page);
        uint32_t left = status == KV_OK ? absent_of_page(viewing, page) : 0;
        memcpy(next, queue->tails, sizeof next);
        if (status == KV_OK)
            status = plan_page(viewing, lane, at, page, revive ? next : NULL, &count, &left);
        if (status != KV_OK)
            return status;
        done = count == 0;
        if (count > 0)
            status = plan_run(&queue->plan, queue->client, queue->options.durability, &done);
        if (status != KV_OK)
            return status;
        if (done) {
            viewing->count += count;
            if (revive && count > 0)
                queue_adopt_tails(queue, next);
            status = pass_head(viewing, lane, at, left);
            if (status != KV_OK)
                return status;
            at += page;
        } else if (++tries == QUEUE_TRIES) {
            return queue_refuse(KV_OVERLOADED, "others change the queue all the time");
        } else {
            status = queue_read_tails(queue);
            if (status != KV_OK)
                return status;
        }
    }
    return KV_OK;
}

/* Deletes delayed jobs of the first records of a moment that were read. A moment from which all are
 * deleted goes; else they leave holes, and go with the moment. */
static enum kv_status drop_of_moment(struct viewing *viewing, const struct time_moment *moment,
                                     uint64_t at, size_t page, uint64_t *count, bool *done)
{
    struct clientk_queue *queue = viewing->queue;
    uint64_t room = viewing->limit - viewing->count;
    bool all = at == moment->head && page == moment->tail - moment->head;
    struct job_record record = {.state = JOB_FREE};
    *count = 0;
    for (size_t i = 0; i < page; i++) {
        enum kv_status status = read_result(queue, i, &record);
        if (status == KV_OK && record.state != JOB_REFERENCE)
            ++*count;
        else
            all &= status == KV_NOT_FOUND;
    }
    all &= *count <= room;
    *count = 0;
    plan_begin(&queue->plan);
    for (size_t i = 0; i < page && *count < room; i++) {
        if (read_result(queue, i, &record) != KV_OK || record.state == JOB_REFERENCE)
            continue;
        struct kv_slice key = time_due_key(&queue->plan, moment->number, at + i);
        if (!all)
            plan_guard_version(&queue->plan, key, queue->look.results[i].value.version);
        plan_delete(&queue->plan, key);
        if (record.body_bytes > 0)
            plan_delete(&queue->plan, queue_body_key(&queue->plan, record.id));
        ++*count;
    }
    *done = true;
    if (*count == 0)
        return KV_OK;
    time_change_begin(queue);
    enum kv_status status = all ? time_remove(queue, moment, page) : KV_OK;
    if (status != KV_OK)
        return status;
    time_change_end(queue);
    plan_add(&queue->plan, plan_key(&queue->plan, "later"), -(int64_t)*count);
    return plan_run(&queue->plan, queue->client, queue->options.durability, done);
}

/* Brings what is due to its lanes. */
static enum kv_status bring_due(struct viewing *viewing)
{
    enum kv_status status = KV_OK;
    for (uint64_t next_ms = 0; status == KV_OK && next_ms <= viewing->now_ms;) {
        next_ms = UINT64_MAX;
        status = queue_promote_due(viewing->queue, viewing->now_ms, &next_ms);
    }
    return status;
}

static enum kv_status drop_later(struct viewing *viewing)
{
    struct clientk_queue *queue = viewing->queue;
    uint64_t from = time_moment_of(viewing->now_ms + 1), number = 0;
    unsigned tries = 0;
    while (!viewing_is_over(viewing)) {
        bool found, done = true;
        struct time_moment moment = {.number = 0};
        enum kv_status status = time_find(queue, from, &found, &number);
        if (status != KV_OK || !found)
            return status;
        status = time_read_moment(queue, number, &moment);
        for (uint64_t at = moment.head; status == KV_OK && done && at < moment.tail;) {
            size_t page;
            uint64_t count = 0;
            status = look_at_moment(queue, &moment, at, &page);
            if (status == KV_OK)
                status = drop_of_moment(viewing, &moment, at, page, &count, &done);
            at += page;
            viewing->count += status == KV_OK && done ? count : 0;
        }
        if (status != KV_OK)
            return status;
        if (done)
            from = number + 1;
        else if (++tries == QUEUE_TRIES)
            return queue_refuse(KV_OVERLOADED, "others change the queue all the time");
    }
    return KV_OK;
}

enum kv_status clientk_queue_revive(struct clientk_queue *queue, uint64_t limit, uint64_t *count)
{
    struct viewing viewing = {.queue = queue};
    if (count)
        *count = 0;
    enum kv_status status = viewing_begin(&viewing, queue, CLIENTK_JOB_DEAD, limit);
    if (status != KV_OK)
        return status;
    status = change_lane(&viewing, QUEUE_DEAD_LANE, true);
    if (count)
        *count = viewing.count;
    return viewing_end(&viewing, status);
}

enum kv_status clientk_queue_drop(struct clientk_queue *queue, enum clientk_job_state state,
                                  uint64_t limit, uint64_t *count)
{
    struct viewing viewing = {.queue = queue};
    if (count)
        *count = 0;
    enum kv_status status = viewing_begin(&viewing, queue, state, limit);
    if (status != KV_OK)
        return status;
    if (state == CLIENTK_JOB_LEASED)
        return queue_refuse(KV_USAGE, "jobs that workers have are not dropped");
    if (state == CLIENTK_JOB_LATER)
        status = drop_later(&viewing);
    else if (state == CLIENTK_JOB_DEAD)
        status = change_lane(&viewing, QUEUE_DEAD_LANE, false);
    else {
        status = bring_due(&viewing);
        for (unsigned lane = 0; lane <= CLIENTK_MAX_JOB_PRIORITY && status == KV_OK; lane++)
            status = change_lane(&viewing, lane, false);
    }
    if (count)
        *count = viewing.count;
    return viewing_end(&viewing, status);
}
