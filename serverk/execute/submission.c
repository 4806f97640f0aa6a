#include "serverk/execute/submission.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/memory/mapguard.h"
#include "common/time/clock.h"
#include "serverk/execute/submission_internal.h"
#include "serverk/session/deliver.h"

/* So many buffers for replies are kept. */
#define KEPT_BUFFERS 64u

/* Of a buffer that was used, so much memory stays with it. */
#define KEPT_BYTES (64u << 10)

struct submissions {
    struct store_engine *engine;
    struct session_table *sessions;
    struct fragment_budget *budget;
    stats_writer write_stats;
    admin_runner run_admin; /* with its context constant once requests come */
    void *admin_context;
    const void *stats_context;
    size_t buffer_bytes; /* of a reply: address space, memory is taken as far as it is used */

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t drained;
    uint64_t under_way;
    uint64_t bytes;
    uint8_t *buffers[KEPT_BUFFERS];
    unsigned kept;
    struct worker_statistics statistics;
};

/* All of them
 * -------------------------------------------------------------------------------------- */

struct submissions *submissions_create(struct store_engine *engine, struct session_table *sessions,
                                       struct fragment_budget *budget, stats_writer write_stats,
                                       const void *stats_context)
{
    struct submissions *all = aligned_alloc(_Alignof(struct submissions), sizeof *all);
    if (!all)
        return NULL;
    memset(all, 0, sizeof *all);
    all->engine = engine;
    all->sessions = sessions;
    all->budget = budget;
    all->write_stats = write_stats;
    all->stats_context = stats_context;
    all->buffer_bytes = budget->message_max_bytes;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->drained, NULL);
    return all;
}

void submissions_free(struct submissions *all)
{
    if (!all)
        return;
    while (all->kept > 0)
        munmap(all->buffers[--all->kept], all->buffer_bytes);
    pthread_cond_destroy(&all->drained);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

void submissions_drain(struct submissions *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    while (all->under_way > 0)
        pthread_cond_wait(&all->drained, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

uint64_t submissions_under_way(struct submissions *all)
{
    if (!all)
        return 0;
    pthread_mutex_lock(&all->lock);
    uint64_t under_way = all->under_way;
    pthread_mutex_unlock(&all->lock);
    return under_way;
}

void submissions_statistics(struct submissions *all, struct worker_statistics *sum)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    statistics_sum(sum, &all->statistics, 1);
    pthread_mutex_unlock(&all->lock);
}

static void count(uint64_t *counter, uint64_t number, struct submissions *all)
{
    pthread_mutex_lock(&all->lock);
    statistics_add(counter, number);
    pthread_mutex_unlock(&all->lock);
}

void submission_count_result(struct submission *submission, enum wire_opcode opcode,
                             enum kv_status status)
{
    struct submissions *all = submission->all;
    struct worker_statistics *counted = &all->statistics;
    pthread_mutex_lock(&all->lock);
    statistics_add(&counted->operations[opcode], 1);
    statistics_add(&counted->statuses[status], 1);
    if (opcode == WIRE_OP_GET || opcode == WIRE_OP_EXISTS)
        statistics_add(status == KV_NOT_FOUND ? &counted->misses : &counted->hits, 1);
    pthread_mutex_unlock(&all->lock);
}

void submission_count_brought(struct submission *submission, size_t bytes)
{
    count(&submission->all->statistics.bytes_in, bytes, submission->all);
}

enum kv_status submission_stats(const struct submission *submission, struct kv_slice section,
                                char **text, size_t *size)
{
    const struct submissions *all = submission->all;
    return all->write_stats(all->stats_context, section, text, size);
}

enum kv_status submission_admin(const struct submission *submission, struct admin_call *call)
{
    const struct submissions *all = submission->all;
    call->session = submission->session;
    return all->run_admin(all->admin_context, call);
}

void submissions_set_admin(struct submissions *all, admin_runner run_admin, void *context)
{
    all->run_admin = run_admin;
    all->admin_context = context;
}

struct store_engine *submission_engine(const struct submission *submission)
{
    return submission->all->engine;
}

/* Memory
 * ------------------------------------------------------------------------------------------- */

/* Counts one more request, whose message has so many bytes. False: there are too many. */
static bool admit(struct submissions *all, size_t bytes)
{
    pthread_mutex_lock(&all->lock);
    bool admitted = all->under_way < SUBMISSIONS_MAX &&
                    (all->under_way == 0 || all->bytes + bytes <= SUBMISSIONS_MAX_BYTES);
    if (admitted) {
        all->under_way++;
        all->bytes += bytes;
    }
    pthread_mutex_unlock(&all->lock);
    return admitted;
}

static void dismiss(struct submissions *all, size_t bytes)
{
    pthread_mutex_lock(&all->lock);
    all->bytes -= bytes;
    if (--all->under_way == 0)
        pthread_cond_broadcast(&all->drained);
    pthread_mutex_unlock(&all->lock);
}

static uint8_t *take_buffer(struct submissions *all)
{
    uint8_t *buffer = NULL;
    pthread_mutex_lock(&all->lock);
    if (all->kept > 0)
        buffer = all->buffers[--all->kept];
    pthread_mutex_unlock(&all->lock);
    if (buffer)
        return buffer;
    buffer = mmap(NULL, all->buffer_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return buffer == MAP_FAILED ? NULL : buffer;
}

static void give_buffer(struct submissions *all, uint8_t *buffer, size_t used_bytes)
{
    if (!buffer)
        return;
    if (used_bytes > KEPT_BYTES)
        madvise(buffer, all->buffer_bytes, MADV_DONTNEED);
    pthread_mutex_lock(&all->lock);
    bool keep = all->kept < KEPT_BUFFERS;
    if (keep)
        all->buffers[all->kept++] = buffer;
    pthread_mutex_unlock(&all->lock);
    if (!keep)
        munmap(buffer, all->buffer_bytes);
}

static void free_submission(struct submission *submission, size_t reply_bytes)
{
    struct submissions *all = submission->all;
    size_t bytes = submission->message_bytes;
    give_buffer(all, submission->reply_buffer, reply_bytes);
    pthread_mutex_destroy(&submission->lock);
    free(submission);
    dismiss(all, bytes);
}

/* The end of a request
 * ----------------------------------------------------------------------------- */

static bool segment_is_broken(const struct submission *submission)
{
    const struct wire_segment *segment =
        mapguard_count() != 0 ? atomic_load(&submission->session->segment) : NULL;
    return segment && wire_segment_is_broken(segment);
}

/* Sends what became of it. Returns the bytes sent. */
static size_t send_reply(struct submission *submission, size_t *reply_bytes)
{
    struct submissions *all = submission->all;
    struct session *session = submission->session;
    uint64_t request_id = submission->request.request_id;
    if (submission->refusal != KV_OK) {
        reply_abandon(&submission->reply);
        if (submission->reply.results == 0) /* else the result was counted */
            count(&all->statistics.statuses[submission->refusal], 1, all);
        return deliver_failure(all->sessions, session, request_id, submission->refusal,
                               submission->sentence);
    }
    if (segment_is_broken(submission)) {
        reply_abandon(&submission->reply);
        *reply_bytes = all->buffer_bytes;
        session_end(all->sessions, session, SESSION_SEGMENT);
        return deliver_failure(
            all->sessions, session, request_id, KV_IO,
            "the segment was shortened while the server used it: the session ends");
    }
    struct kv_slice message = reply_finish(&submission->reply);
    *reply_bytes = message.size;
    return deliver_reply(all->sessions, all->budget, session, message, submission->reply.extended);
}

static void finish(struct submission *submission)
{
    struct submissions *all = submission->all;
    struct worker_statistics *counted = &all->statistics;
    size_t reply_bytes = 0;
    uint64_t worked_ns = clock_monotonic_ns();
    size_t sent_bytes = send_reply(submission, &reply_bytes);
    session_release(all->sessions, submission->session);
    pthread_mutex_lock(&all->lock);
    statistics_add(&counted->messages, 1);
    statistics_add(&counted->bytes_out, sent_bytes);
    histogram_record(&counted->work[submission->kind], worked_ns - submission->received_ns);
    histogram_record(&counted->stages[STAGE_REPLY], clock_monotonic_ns() - worked_ns);
    pthread_mutex_unlock(&all->lock);
    free_submission(submission, reply_bytes);
}

/* Results, in order
 * -------------------------------------------------------------------------------- */

/* Takes those that are done off the front of the ring. */
static void settle(struct submission *submission)
{
    while (submission->count > 0) {
        struct submitted_operation *submitted = submission_at(submission, 0);
        pthread_mutex_lock(&submission->lock);
        bool done = submitted->done;
        pthread_mutex_unlock(&submission->lock);
        if (!done)
            return;
        if (submission->stopped || reply_is_full(&submission->reply)) {
            submission->stopped = true;
            submitted_operation_drop(submitted);
        } else {
            submission->stopped = submitted_operation_settle(submitted);
        }
        submission->ended |= submission->stopped;
        submission->first = (submission->first + 1) % SUBMISSION_WINDOW;
        submission->count--;
    }
}

/* The rest is not executed: each operation that is left gets the verdict, if it gets a result. */
static void leave_out_rest(struct submission *submission)
{
    struct reply *reply = &submission->reply;
    struct wire_result result = {.status = submission->verdict};
    submission->ended = true;
    if (reply->may_stop && reply->results > 0)
        return;
    while (reply->results_to_come > 0 && !reply_is_full(reply)) {
        reply_add(reply, &result);
        count(&submission->all->statistics.statuses[result.status], 1, submission->all);
    }
}

/* What may begin
 * ----------------------------------------------------------------------------------- */

static bool is_alone(const struct wire_operation *operation)
{
    switch (operation->opcode) {
    case WIRE_OP_GET:
    case WIRE_OP_EXISTS:
    case WIRE_OP_PUT:
    case WIRE_OP_DELETE:
    case WIRE_OP_ADD:
    case WIRE_OP_APPEND:
    case WIRE_OP_TOUCH:
        return false;
    case WIRE_OP_EXCHANGE:
    case WIRE_OP_SCAN:
    case WIRE_OP_STATS:
    case WIRE_OP_PING:
    case WIRE_OP_SYNC:
    case WIRE_OP_BACKUP:
    case WIRE_OP_ADMIN:
        break;
    }
    return true;
}

static bool is_read(const struct wire_operation *operation)
{
    return operation->opcode == WIRE_OP_GET || operation->opcode == WIRE_OP_EXISTS;
}

/* Whether the second may be under way while the first is. */
static bool agree(const struct submission *submission, const struct wire_operation *first,
                  const struct wire_operation *second)
{
    if (is_alone(first))
        return false;
    if (is_read(second))
        return is_read(first) || !kv_slice_equal(first->key, second->key);
    if (submission->reply.may_stop && first->opcode == WIRE_OP_GET)
        return false; /* the reply may end with it */
    return !kv_slice_equal(first->key, second->key);
}

static bool may_begin(struct submission *submission)
{
    const struct wire_operation *upcoming = &submission->upcoming;
    if (submission->count == 0)
        return true;
    if (submission->count == SUBMISSION_WINDOW || is_alone(upcoming) ||
        !reply_has_room(&submission->reply, submission->count + 1))
        return false;
    for (unsigned i = 0; i < submission->count; i++)
        if (!agree(submission, &submission_at(submission, i)->operation, upcoming))
            return false;
    return true;
}

/* Decodes the next operation. False: there is none that can be executed, and verdict or refusal
 * says why, or the request has no other. */
static bool decode(struct submission *submission)
{
    if (submission->has_upcoming)
        return true;
    if (submission->decoded == submission->request.count) {
        submission->ended = true;
        return false;
    }
    enum kv_status status = wire_get_operation(&submission->operations, &submission->upcoming);
    if (status == KV_OK) {
        submission->decoded++;
        submission->has_upcoming = true;
        return true;
    }
    submission->verdict = status;
    if (submission->decoded > 0)
        return false;
    submission->refusal = status;
    submission->sentence = status == KV_UNSUPPORTED
                               ? "the first operation or one of its flags is unknown"
                               : "the first operation is malformed";
    submission->ended = true;
    return false;
}

/* The first operation is always executed. */
static void look_at_time(struct submission *submission)
{
    if (submission->decoded == 0)
        return;
    uint64_t deadline_ms = submission->request.deadline_ms;
    if (session_is_lost(submission->session))
        submission->verdict = KV_OVERLOADED;
    else if (deadline_ms != 0 && clock_monotonic_coarse_ms() >= deadline_ms)
        submission->verdict = KV_DEADLINE;
}

static void begin_what_may(struct submission *submission)
{
    while (!submission->ended) {
        if (submission->verdict == KV_OK)
            look_at_time(submission);
        if (submission->verdict == KV_OK && decode(submission)) {
            if (submission->count == 0 && reply_is_full(&submission->reply)) {
                submission->ended = true;
                return;
            }
            if (!may_begin(submission))
                return;
            submission->has_upcoming = false;
            submitted_operation_begin(submission);
        } else if (submission->verdict != KV_OK && !submission->ended) {
            if (submission->count > 0)
                return;
            leave_out_rest(submission);
        }
    }
}

/* Settles and begins, until nothing more can be done now; by one thread at a time. The submission
 * is gone afterwards, if it has ended. Takes over the lock. */
static void advance_locked(struct submission *submission)
{
    submission->again = true;
    bool other = submission->advancing;
    submission->advancing = true;
    while (!other && submission->again) {
        submission->again = false;
        pthread_mutex_unlock(&submission->lock);
        settle(submission);
        begin_what_may(submission);
        pthread_mutex_lock(&submission->lock);
    }
    if (!other)
        submission->advancing = false;
    bool over = !other && submission->ended && submission->count == 0;
    pthread_mutex_unlock(&submission->lock);
    if (over)
        finish(submission);
}

void submission_done(struct submission *submission, struct submitted_operation *submitted)
{
    pthread_mutex_lock(&submission->lock);
    submitted->done = true;
    advance_locked(submission);
}

/* The beginning of a request
 * ----------------------------------------------------------------------- */

static struct submission *create(struct submissions *all, struct session *session,
                                 const struct wire_header *request, struct kv_slice message,
                                 uint64_t received_ns)
{
    struct submission *submission = malloc(sizeof *submission + message.size);
    if (!submission)
        return NULL;
    memset(submission, 0, sizeof *submission);
    submission->all = all;
    submission->session = session;
    submission->request = *request;
    submission->received_ns = received_ns;
    submission->message_bytes = message.size;
    if (message.data)
        memcpy(submission->message, message.data, message.size);
    submission->operations = read_cursor(submission->message, message.size);
    pthread_mutex_init(&submission->lock, NULL);
    submission->reply_buffer = take_buffer(all);
    return submission;
}

enum kv_status submissions_take(struct submissions *all, struct session *session,
                                const struct wire_header *request, struct read_cursor *operations,
                                uint64_t received_ns, const char **sentence)
{
    struct kv_slice message = {0};
    size_t left = read_cursor_left(operations);
    message = kv_slice(read_bytes(operations, left), left);
    *sentence = "too many requests wait for the cluster: try again later";
    if (!admit(all, message.size))
        return KV_OVERLOADED;
    struct submission *submission = create(all, session, request, message, received_ns);
    if (!submission)
        dismiss(all, message.size);
    if (!submission || !submission->reply_buffer) {
        if (submission)
            free_submission(submission, 0);
        *sentence = "the server has no memory for this request";
        return KV_NO_MEMORY;
    }
    submission->kind = statistics_kind(request->count, operations);
    enum kv_status status = reply_start(&submission->reply, session, all->budget, false, request,
                                        submission->reply_buffer, all->buffer_bytes, NULL, 0);
    if (status != KV_OK) {
        free_submission(submission, 0);
        *sentence = "too many large replies are waiting: fetch those first";
        return status;
    }
    session_hold(session);
    pthread_mutex_lock(&submission->lock);
    advance_locked(submission);
    return KV_OK;
}
