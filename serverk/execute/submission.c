#include "serverk/execute/submission.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/submitted_operation.h"
#include "serverk/session/deliver.h"

struct submission {
    struct submitted_request request; /* the first member */
    struct read_cursor operations;    /* those not decoded yet, in `message` */
    uint8_t *reply_buffer;
    uint64_t received_ns;
    unsigned kind; /* statistics_kind */

    /* of the thread that advances it */
    struct wire_operation upcoming; /* decoded, not begun yet */
    bool has_upcoming;
    uint16_t decoded;
    enum kv_status verdict; /* of the operations that are not executed; KV_OK: none yet */
    bool ended;             /* no other operation begins */
    bool stopped;           /* the reply ends early: what is under way gets no result */
    unsigned first, count;  /* of the ring */
    struct submitted_operation ring[SUBMISSION_WINDOW];

    pthread_mutex_t lock; /* below, and `done` of the ring */
    bool advancing;       /* by some thread */
    bool again;           /* something was done meanwhile */

    size_t message_bytes;
    uint8_t message[];
};

_Static_assert(offsetof(struct submission, request) == 0, "operation_done finds the submission");

static struct submitted_operation *submission_at(struct submission *submission, unsigned index)
{
    KV_ASSERT(index < SUBMISSION_WINDOW && submission->count <= SUBMISSION_WINDOW);
    return &submission->ring[(submission->first + index) % SUBMISSION_WINDOW];
}

static void free_submission(struct submission *submission, size_t reply_bytes)
{
    struct submissions *all = submission->request.all;
    uid_t uid = submission->request.uid;
    size_t bytes = submission->message_bytes;
    submissions_give_buffer(all, submission->reply_buffer, reply_bytes);
    pthread_mutex_destroy(&submission->lock);
    free(submission);
    submissions_dismiss(all, uid, bytes);
}

/* The end of a request ------------------------------------------------------------------------- */

/* Sends what became of the request. Returns the bytes sent. */
static size_t send_submission_reply(struct submission *submission, size_t *reply_bytes)
{
    struct submitted_request *request = &submission->request;
    const struct submission_services *services = submissions_services(request->all);
    struct session *session = request->session;
    uint64_t request_id = request->header.request_id;
    if (request->refusal != KV_OK) {
        reply_abandon(&request->reply);
        if (request->reply.results == 0) /* else the result was counted */
            submissions_count_status(request->all, request->refusal);
        return deliver_failure(services->sessions, session, request_id, request->refusal,
                               request->sentence);
    }
    if (session_segment_is_broken(session)) {
        reply_abandon(&request->reply);
        *reply_bytes = services->buffer_bytes;
        session_end(services->sessions, session, SESSION_SEGMENT);
        return deliver_failure(services->sessions, session, request_id, KV_IO,
                               SESSION_SEGMENT_IS_BROKEN);
    }
    KV_ASSERT(request->reply.may_stop || request->reply.results == request->header.count);
    struct kv_slice message = reply_finish(&request->reply);
    *reply_bytes = message.size;
    return deliver_reply(services->sessions, services->budget, session, message,
                         request->reply.extended);
}

static void finish_submission(struct submission *submission)
{
    struct submissions *all = submission->request.all;
    KV_ASSERT(submission->ended && submission->count == 0);
    size_t reply_bytes = 0;
    uint64_t ready_ns = clock_monotonic_ns();
    size_t sent_bytes = send_submission_reply(submission, &reply_bytes);
    session_release(submissions_services(all)->sessions, submission->request.session);
    submissions_count_request(all, submission->kind, sent_bytes, submission->received_ns, ready_ns);
    free_submission(submission, reply_bytes);
}

/* Results, in order ---------------------------------------------------------------------------- */

/* Returns the verdict on the operations behind one with that outcome. Those behind a refused one
 * wait for it; behind one for which the engine had no answer in all its patience, each would wait
 * as long; and a deadline that one has missed is the deadline of all. */
static enum kv_status verdict_behind(enum kv_status outcome)
{
    switch (outcome) {
    case KV_OVERLOADED:
    case KV_DEADLINE:
        return outcome;
    case KV_NO_SERVER:
    case KV_OUTCOME_UNKNOWN:
        return KV_NO_SERVER;
    default:
        return KV_OK;
    }
}

/* Takes those that are done off the front of the ring. */
static void settle_submission(struct submission *submission)
{
    while (submission->count > 0) {
        struct submitted_operation *submitted = submission_at(submission, 0);
        pthread_mutex_lock(&submission->lock);
        bool done = submitted->done;
        pthread_mutex_unlock(&submission->lock);
        if (!done)
            return;
        if (submission->stopped || reply_is_full(&submission->request.reply)) {
            submission->stopped = true;
            submitted_operation_drop(submitted);
        } else {
            enum kv_status outcome = submitted->engine.status;
            submission->stopped = submitted_operation_settle(submitted);
            if (submission->verdict == KV_OK)
                submission->verdict = verdict_behind(outcome);
        }
        submission->ended |= submission->stopped;
        submission->first = (submission->first + 1) % SUBMISSION_WINDOW;
        submission->count--;
    }
}

/* The rest is not executed: each operation that is left gets the verdict, if it gets a result. A
 * client that takes a short reply sends the rest again at once, where it would wait anew for a
 * cluster that does not answer: it gets the verdict, too. */
static void leave_out_rest(struct submission *submission)
{
    struct reply *reply = &submission->request.reply;
    struct wire_result result = {.status = submission->verdict};
    submission->ended = true;
    if (reply->may_stop && reply->results > 0 && result.status != KV_NO_SERVER)
        return;
    while (reply->results_to_come > 0 && !reply_is_full(reply)) {
        reply_add(reply, &result);
        submissions_count_status(submission->request.all, result.status);
    }
}

/* What may begin ------------------------------------------------------------------------------- */

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
    case WIRE_OP_WATCH:
    case WIRE_OP_TRANSACT:
    case WIRE_OP_RANGE:
    case WIRE_OP_RANGE_COUNT:
    case WIRE_OP_RANGE_DELETE:
        break;
    }
    return true;
}

static bool is_read_operation(const struct wire_operation *operation)
{
    return operation->opcode == WIRE_OP_GET || operation->opcode == WIRE_OP_EXISTS;
}

/* Returns whether the second may be under way while the first is. */
static bool agree(const struct submission *submission, const struct wire_operation *first,
                  const struct wire_operation *second)
{
    if (is_alone(first))
        return false;
    if (is_read_operation(second))
        return is_read_operation(first) || !kv_slice_equal(first->key, second->key);
    if (submission->request.reply.may_stop && first->opcode == WIRE_OP_GET)
        return false; /* the reply may end with it */
    return !kv_slice_equal(first->key, second->key);
}

static bool may_begin(struct submission *submission)
{
    const struct wire_operation *upcoming = &submission->upcoming;
    if (submission->count == 0)
        return true;
    if (submission->count == SUBMISSION_WINDOW || is_alone(upcoming) ||
        !reply_has_room(&submission->request.reply, submission->count + 1))
        return false;
    for (unsigned i = 0; i < submission->count; i++)
        if (!agree(submission, &submission_at(submission, i)->operation, upcoming))
            return false;
    return true;
}

/* Decodes the next operation. False: there is none that can be executed, and verdict or refusal
 * says why, or the request has no other. */
static bool decode_submission(struct submission *submission)
{
    if (submission->has_upcoming)
        return true;
    KV_ASSERT(submission->decoded <= submission->request.header.count);
    if (submission->decoded == submission->request.header.count) {
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
    submission->request.refusal = status;
    submission->request.sentence = status == KV_UNSUPPORTED
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
    uint64_t deadline_ms = submission->request.header.deadline_ms;
    if (session_is_lost(submission->request.session))
        submission->verdict = KV_OVERLOADED;
    else if (deadline_ms != 0 && clock_monotonic_coarse_ms() >= deadline_ms)
        submission->verdict = KV_DEADLINE;
}

static void begin_what_may(struct submission *submission)
{
    while (!submission->ended) {
        if (submission->verdict == KV_OK)
            look_at_time(submission);
        if (submission->verdict == KV_OK && decode_submission(submission)) {
            if (submission->count == 0 && reply_is_full(&submission->request.reply)) {
                submission->ended = true;
                return;
            }
            if (!may_begin(submission))
                return;
            submission->has_upcoming = false;
            submitted_operation_begin(submission_at(submission, submission->count++),
                                      &submission->request, &submission->upcoming);
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
    KV_ASSERT(mutex_is_held(&submission->lock));
    submission->again = true;
    bool other = submission->advancing;
    submission->advancing = true;
    while (!other && submission->again) {
        submission->again = false;
        pthread_mutex_unlock(&submission->lock);
        settle_submission(submission);
        begin_what_may(submission);
        pthread_mutex_lock(&submission->lock);
    }
    if (!other)
        submission->advancing = false;
    bool over = !other && submission->ended && submission->count == 0;
    pthread_mutex_unlock(&submission->lock);
    if (over)
        finish_submission(submission);
}

/* submitted_request.done. */
static void operation_done(struct submitted_request *request, struct submitted_operation *submitted)
{
    struct submission *submission = (struct submission *)request;
    pthread_mutex_lock(&submission->lock);
    KV_ASSERT(!submitted->done); /* an operation has one outcome */
    submitted->done = true;
    advance_locked(submission);
}

/* The beginning of a request ------------------------------------------------------------------- */

static struct submission *create_submission(struct submissions *all, struct session *session,
                                            const struct wire_header *request,
                                            struct kv_slice message, uint64_t received_ns)
{
    struct submission *submission = malloc(sizeof *submission + message.size);
    if (!submission)
        return NULL;
    memset(submission, 0, sizeof *submission);
    submission->request = (struct submitted_request){.all = all,
                                                     .session = session,
                                                     .uid = session->uid,
                                                     .header = *request,
                                                     .done = operation_done};
    submission->received_ns = received_ns;
    submission->message_bytes = message.size;
    if (message.data)
        memcpy(submission->message, message.data, message.size);
    submission->operations = read_cursor(submission->message, message.size);
    pthread_mutex_init(&submission->lock, NULL);
    submission->reply_buffer = submissions_take_buffer(all);
    return submission;
}

enum kv_status submission_take(struct submissions *all, struct session *session,
                               const struct wire_header *request, struct read_cursor *operations,
                               uint64_t received_ns, const char **sentence)
{
    struct kv_slice message = {0};
    size_t left = read_cursor_left(operations);
    message = kv_slice(read_bytes(operations, left), left);
    *sentence = "too many requests wait for the cluster: try again later";
    if (!submissions_admit(all, session->uid, message.size))
        return KV_OVERLOADED;
    struct submission *submission = create_submission(all, session, request, message, received_ns);
    if (!submission)
        submissions_dismiss(all, session->uid, message.size);
    if (!submission || !submission->reply_buffer) {
        if (submission)
            free_submission(submission, 0);
        *sentence = "the server has no memory for this request";
        return KV_NO_MEMORY;
    }
    submission->kind = statistics_kind(request->count, &submission->operations);
    const struct submission_services *services = submissions_services(all);
    enum kv_status status =
        reply_start(&submission->request.reply, session, services->budget, false, request,
                    submission->reply_buffer, services->buffer_bytes, NULL, 0);
    if (status != KV_OK) {
        free_submission(submission, 0);
        *sentence = "too many large replies are waiting: fetch those first";
        return status;
    }
    session_retain(session);
    pthread_mutex_lock(&submission->lock);
    advance_locked(submission);
    return KV_OK;
}
