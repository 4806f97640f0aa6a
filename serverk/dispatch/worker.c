#include "serverk/dispatch/worker.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/allowance.h"
#include "serverk/execute/execution.h"
#include "serverk/config/lab_seam.h"
#include "serverk/execute/submission.h"
#include "serverk/session/deliver.h"
#include "serverk/session/hello.h"
#include "serverk/session/segment_offer.h"
#include "wire/queue.h"

/* The backlog is looked at once in this number of messages, for the estimate of the queue wait. */
#define ESTIMATE_EVERY 64u

/* A worker that has not been idle for this time, while messages still wait, unparks another. */
#define BACKLOG_NS (200u * 1000u)

/* Less waiting work is not worth a wake-up, which takes 20 us: one worker does the work sooner. */
#define BACKLOG_MESSAGES 4u
#define BACKLOG_WORK_NS  (50u * 1000u)

bool worker_init(struct worker *worker, const struct service *service,
                 struct worker_statistics *statistics)
{
    *worker = (struct worker){.service = service,
                              .statistics = statistics,
                              .receivers = 1,
                              .receiver = {.sleep_epoll = -1}};
    struct execution_context *execution = &worker->execution;
    if (!execution_context_init(execution, service->store, service->budget))
        return false;
    execution->runners = execution_runners;
    execution->gate = service->gate;
    execution->live = service->live;
    execution->one_snapshot = service->options->dispatch->forks;
    execution->statistics = statistics;
    execution->write_stats = service->write_stats;
    execution->stats_context = service->stats_context;
    execution->run_admin = service->run_admin;
    execution->admin_context = service->admin_context;
    execution->watchers = service->watchers;
    lab.begin_worker(service->options, execution);
    return true;
}

void worker_free(struct worker *worker)
{
    execution_context_free(&worker->execution);
}

bool worker_init_buffer(struct worker *worker)
{
    struct lanes *lanes = worker->service->lanes;
    worker->receiver = (struct receiver){.lanes = lanes,
                                         .served = lanes_served(lanes),
                                         .statistics = worker->statistics,
                                         .sessions = worker->service->sessions,
                                         .buffer_bytes = lanes_message_bytes(lanes),
                                         .sleep_epoll = -1,
                                         .taken = 1}; /* no estimates: it does not receive */
    worker->receiver.buffer = wire_queue_buffer(worker->receiver.buffer_bytes);
    return worker->receiver.buffer != NULL;
}

void worker_take_message(struct worker *worker, struct worker *from)
{
    uint8_t *buffer = worker->receiver.buffer;
    KV_ASSERT(worker->receiver.buffer_bytes == from->receiver.buffer_bytes);
    KV_ASSERT(!worker->receiver.session); /* its last message was dealt with */
    worker->receiver.buffer = from->receiver.buffer;
    from->receiver.buffer = buffer;
    worker->receiver.priority = from->receiver.priority;
    worker->receiver.current = from->receiver.current;
    worker->receiver.session = from->receiver.session;
    from->receiver.session = NULL;
    worker->nice = from->nice; /* a thread that it starts has its nice value */
}

/* Answers a message that fails as a whole, whatever its kind. */
static void fail_message(struct worker *worker, struct session *session,
                         const struct wire_header *header, enum kv_status status,
                         const char *sentence)
{
    size_t sent =
        deliver_failure(worker->service->sessions, session, header->request_id, status, sentence);
    statistics_add(&worker->statistics->statuses[status], 1);
    statistics_add(&worker->statistics->bytes_out, sent);
}

/* Operations ----------------------------------------------------------------------------------- */

/* Sends the reply, or leaves it to the commit queue. */
static void send_worker_reply(struct worker *worker, struct session *session, struct reply *reply)
{
    const struct service *service = worker->service;
    struct execution_context *execution = &worker->execution;
    struct kv_slice message = reply_finish(reply);
    if (execution->waits.count > 0) {
        commit_hold(service->commit, session, message, reply->extended, &execution->waits);
        commit_waits_clear(&execution->waits);
    } else {
        size_t sent =
            deliver_reply(service->sessions, service->budget, session, message, reply->extended);
        statistics_add(&worker->statistics->bytes_out, sent);
    }
    execution_context_trim(execution, execution->reply, message.size);
    execution_context_trim(execution, execution->outgoing, reply->scratch_used);
    execution_context_trim(execution, execution->incoming, execution->incoming_used);
    execution->incoming_used = 0;
}

/* What was read from the segment may be zeros, what was written is lost: all of the request fails,
 * and with it the session. */
static void fail_by_segment(struct worker *worker, struct session *session,
                            const struct wire_header *request, struct reply *reply)
{
    reply_abandon(reply);
    struct execution_context *execution = &worker->execution;
    commit_waits_clear(&execution->waits);
    execution_context_trim(execution, execution->reply, execution->buffer_bytes);
    session_end(worker->service->sessions, session, SESSION_SEGMENT); /* before its BYE can come */
    fail_message(worker, session, request, KV_IO, SESSION_SEGMENT_IS_BROKEN);
}

/* Hands the request's operations to an engine that is elsewhere; the reply is sent when their
 * outcomes are known, by a thread of the engine. */
static void submit_request(struct worker *worker, struct session *session,
                           const struct wire_header *request, struct read_cursor *operations,
                           uint64_t received_ns)
{
    const char *sentence = "";
    enum kv_status status = submission_take(worker->service->submissions, session, request,
                                            operations, received_ns, &sentence);
    if (status != KV_OK)
        fail_message(worker, session, request, status, sentence);
}

/* Kept out of the way of other requests. */
__attribute__((noinline)) static void note_request(const struct worker *worker,
                                                   const struct session *session,
                                                   struct kv_slice operations, unsigned count,
                                                   uint64_t work_ns, uint64_t lock_wait_ns)
{
    const struct noted_request request = {.session = session,
                                          .operations =
                                              read_cursor(operations.data, operations.size),
                                          .count = count,
                                          .work_ns = work_ns,
                                          .lock_wait_ns = lock_wait_ns};
    request_notes_take(worker->service->notes, &request);
}

/* Runs a request, which came in one message or was put together from parts. */
static void run_request(struct worker *worker, struct session *session,
                        const struct wire_header *request, struct read_cursor *operations,
                        uint64_t received_ns)
{
    struct worker_statistics *statistics = worker->statistics;
    KV_ASSERT(worker->execution.waits.count == 0); /* a reply waits for its own writes only */
    KV_ASSERT(!worker->execution.waits_on && worker->execution.written_bytes == 0);
    statistics_add(&statistics->messages, 1);
    if (allowance_deadline_passed(request)) {
        fail_message(worker, session, request, KV_DEADLINE,
                     "the deadline passed before it was executed");
        return;
    }
    if (worker->service->submissions) {
        submit_request(worker, session, request, operations, received_ns);
        return;
    }
    struct reply reply;
    const char *sentence = "";
    uint64_t waited_ns = kvstore_lock_wait_ns();
    unsigned kind = statistics_kind(request->count, operations);
    const uint8_t *first = operations->at;
    enum kv_status status =
        execute_request(&worker->execution, session, request, operations, &reply, &sentence);
    worker->receiver.written_bytes = worker->execution.written_bytes;
    worker->execution.written_bytes = 0;
    if (status != KV_OK) {
        fail_message(worker, session, request, status, sentence);
        return;
    }
    if (worker->execution.waits_on) { /* answered by the watchers */
        worker->execution.waits_on = false;
        reply_abandon(&reply);
        return;
    }
    if (session_segment_is_broken(session)) {
        fail_by_segment(worker, session, request, &reply);
        return;
    }
    uint64_t worked_ns = clock_monotonic_ns();
    uint64_t lock_wait_ns = kvstore_lock_wait_ns() - waited_ns;
    worker->receiver.waited_ns = lock_wait_ns;
    send_worker_reply(worker, session, &reply);
    uint64_t sent_ns = worker->done_ns = clock_monotonic_ns();
    uint64_t work_ns = worked_ns - received_ns;
    if (request_notes_wants(worker->service->notes, work_ns) && !worker->is_unnoted)
        note_request(worker, session, kv_slice(first, (size_t)(operations->end - first)),
                     request->count, work_ns, lock_wait_ns);
    histogram_record(&statistics->stages[STAGE_LOCK_WAIT], lock_wait_ns);
    histogram_record(&statistics->work[kind], work_ns > lock_wait_ns ? work_ns - lock_wait_ns : 0);
    histogram_record(&statistics->stages[STAGE_REPLY], sent_ns - worked_ns);
}

/* Returns why a fragment is refused. */
static const char *explain_part(const struct service *service, enum kv_status status,
                                const struct wire_part *part, char text[KV_ERROR_TEXT_BYTES])
{
    unsigned most_bytes = (unsigned)service->budget->message_max_bytes;
    switch (status) {
    case KV_VALUE_TOO_BIG:
        snprintf(text, KV_ERROR_TEXT_BYTES,
                 "a fragmented message has at most %u bytes, this one has %u: the largest value "
                 "(--max-value of the server: %u) and %u more",
                 most_bytes, part->total_bytes, engine_max_value_bytes(service->engine),
                 FRAGMENTS_EXTRA_BYTES);
        return text;
    case KV_OVERLOADED:
        return part->offset == 0 || part->total_bytes == 0
                   ? "the server's memory for large messages is in use: try again later"
                   : "the server's memory for large messages is in use, or no fragment came for 5 "
                     "s while others needed it: begin again later";
    case KV_NO_MEMORY:
        return "the server has no memory for this request";
    default:
        return "this fragment is not the next one of its request: begin again";
    }
}

/* Returns why a header is refused. */
static const char *explain_header(const struct wire_header *header, enum kv_status status,
                                  const char *otherwise, char text[KV_ERROR_TEXT_BYTES])
{
    if (header->count <= WIRE_MAX_OPERATIONS || status != KV_BAD_REQUEST)
        return otherwise;
    snprintf(text, KV_ERROR_TEXT_BYTES, "a message has at most %u operations, this one has %u",
             WIRE_MAX_OPERATIONS, header->count);
    return text;
}

/* Takes a fragment of a request; the last one completes it. */
static void take_request_fragment(struct worker *worker, struct session *session,
                                  const struct wire_header *header, struct read_cursor *body,
                                  uint64_t received_ns)
{
    const struct service *service = worker->service;
    struct wire_part part = {0};
    struct fragmented_message whole = {0};
    char text[KV_ERROR_TEXT_BYTES];
    enum kv_status status = wire_get_part(body, &part);
    if (status == KV_OK)
        status = fragments_take_part(&session->fragments, service->budget, header->request_id,
                                     &part, &whole);
    if (status != KV_OK) {
        fail_message(worker, session, header, status, explain_part(service, status, &part, text));
        return;
    }
    if (!whole.data) {
        deliver_failure(service->sessions, session, header->request_id, KV_OK, ""); /* go on */
        return;
    }
    struct read_cursor cursor = read_cursor(whole.data, whole.size);
    struct wire_header request = {0};
    status = wire_get_header(&cursor, &request);
    if (status == KV_OK &&
        (request.kind != WIRE_REQUEST || request.session != header->session ||
         request.secret != header->secret || request.request_id != header->request_id))
        status = KV_BAD_REQUEST;
    if (status == KV_OK)
        run_request(worker, session, &request, &cursor, received_ns);
    else
        fail_message(worker, session, header, status,
                     explain_header(&request, status,
                                    "the reassembled message does not match its fragments", text));
    fragmented_message_free(&whole, service->budget);
}

static void send_more(struct worker *worker, struct session *session,
                      const struct wire_header *header, struct read_cursor *body)
{
    struct wire_part part;
    if (wire_get_part(body, &part) != KV_OK) {
        fail_message(worker, session, header, KV_BAD_REQUEST, "malformed MORE message");
        return;
    }
    size_t sent = deliver_fragment(worker->service->sessions, worker->service->budget, session,
                                   header->request_id, part.offset);
    statistics_add(&worker->statistics->bytes_out, sent);
}

/* Messages ------------------------------------------------------------------------------------- */

/* Ends the session, for a BYE of the client or the final BYE that session_client_died sends for
 * it. */
static void end_session(struct worker *worker, struct session *session,
                        const struct wire_header *header)
{
    const struct service *service = worker->service;
    enum session_end_reason reason = SESSION_BYE;
    session_final_bye(service->sessions, session, header->request_id, &reason);
    if (service->farewells)
        farewells_end(service->farewells, session, receiver_source(&worker->receiver), reason);
    else
        session_end(service->sessions, session, reason);
}

static void handle_kind(struct worker *worker, struct session *session,
                        const struct wire_header *header, struct read_cursor *body,
                        uint64_t received_ns)
{
    switch (header->kind) {
    case WIRE_REQUEST:
        run_request(worker, session, header, body, received_ns);
        return;
    case WIRE_PART:
        take_request_fragment(worker, session, header, body, received_ns);
        return;
    case WIRE_MORE:
        send_more(worker, session, header, body);
        return;
    case WIRE_SEGMENT:
        segment_offer_answer(&worker->service->terms, session, header, body);
        return;
    case WIRE_BYE:
        end_session(worker, session, header);
        return;
    case WIRE_HELLO:
    case WIRE_WELCOME:
    case WIRE_REFUSED:
    case WIRE_REPLY:
    case WIRE_REPLY_PART:
        break;
    }
    fail_message(worker, session, header, KV_UNSUPPORTED, "clients send no messages of this kind");
}

bool worker_lane_admits(const struct worker *worker, struct session *session)
{
    const struct service *service = worker->service;
    unsigned queue = worker->receiver.current;
    if (lanes_is_own(queue))
        return true;
    if (!lanes_admit(service->lanes, queue, session->uid, &session->assignment))
        return false;
    if (!atomic_load_explicit(&session->lane_closed, memory_order_relaxed))
        session_close_lane(service->sessions, session);
    return true;
}

static void handle_message(struct worker *worker, size_t size, uint64_t received_ns)
{
    char text[KV_ERROR_TEXT_BYTES];
    struct read_cursor cursor = read_cursor(worker->receiver.buffer, size);
    struct wire_header header = {0};
    enum kv_status status = wire_get_header(&cursor, &header);
    struct session_table *sessions = worker->service->sessions;
    struct session *session = worker->receiver.session;
    worker->receiver.session = NULL;
    if (!session && header.session != 0)
        session = session_acquire(sessions, header.session, header.secret);
    receiver_settle(&worker->receiver);
    if (header.kind == WIRE_HELLO && header.session == 0) {
        struct kv_slice message = kv_slice(worker->receiver.buffer, size);
        bool reads_only = worker->receiver.current == LANE_PLAN_READ_LANE;
        if (!hello_answer(&worker->service->terms, message, &header, status, &cursor, reads_only))
            statistics_add(&worker->statistics->dropped[DROPPED_BAD_HELLO], 1);
        return;
    }
    if (receiver_drop_stray(&worker->receiver, &header, session) || !session)
        return;
    if (!worker_lane_admits(worker, session)) {
        receiver_drop(&worker->receiver, DROPPED_UNKNOWN_SESSION);
        session_release(sessions, session);
        return;
    }
    if (status == KV_OK)
        handle_kind(worker, session, &header, &cursor, received_ns);
    else
        fail_message(
            worker, session, &header, status,
            explain_header(&header, status, "the header is malformed or of an unknown kind", text));
    session_release(sessions, session);
}

/* Messages carry no time of sending. So the wait of a message that came now is estimated by what is
 * before it: messages waiting in this queue, times the mean time that one takes, divided by the
 * workers that take from the queue. (An order of messages measures the wait.) */
static void estimate_queue_wait(struct worker *worker, uint64_t service_ns)
{
    int64_t change = ((int64_t)service_ns - (int64_t)worker->mean_service_ns) / 16;
    worker->mean_service_ns += (uint64_t)change;
    if (worker->receiver.order || worker->receiver.taken % ESTIMATE_EVERY != 0)
        return;
    const struct receiver *receiver = &worker->receiver;
    uint64_t waiting = receiver_backlog_behind(receiver);
    unsigned takers =
        receiver->place ? parking_counts(receiver->place->parking).active : worker->receivers;
    histogram_record(&worker->statistics->stages[STAGE_QUEUE_WAIT],
                     waiting * worker->mean_service_ns / (takers > 0 ? takers : 1));
}

uint64_t worker_handle(struct worker *worker, size_t size)
{
    KV_ASSERT(size <= worker->receiver.buffer_bytes);
    uint64_t received_ns = worker->execution.received_ns = clock_monotonic_ns();
    if (worker->nice.on)
        nice_follow(&worker->nice, worker->receiver.priority);
    statistics_add(&worker->statistics->bytes_in, size);
    handle_message(worker, size, received_ns);
    if (worker->done_ns < received_ns)
        worker->done_ns = clock_monotonic_ns();
    estimate_queue_wait(worker, worker->done_ns - received_ns);
    return worker->done_ns;
}

/* Unparks another worker when the load has been too much for this one for a while. */
static void watch_backlog(struct worker *worker, uint64_t *busy_since_ns, uint64_t now_ns)
{
    struct receiver *receiver = &worker->receiver;
    if (receiver->found_empty) {
        receiver->found_empty = false;
        *busy_since_ns = now_ns;
    } else if (now_ns - *busy_since_ns > BACKLOG_NS) {
        *busy_since_ns = now_ns;
        uint64_t waiting = receiver_backlog(receiver);
        if (waiting >= BACKLOG_MESSAGES || waiting * worker->mean_service_ns >= BACKLOG_WORK_NS)
            parking_unpark(receiver->place->parking);
    }
}

bool worker_run(struct worker *worker)
{
    struct receiver *receiver = &worker->receiver;
    uint64_t busy_since_ns = 0;
    ssize_t size;
    while ((size = receiver_take(receiver)) > 0) {
        worker->execution.received_ns = 0; /* the message may be handed on */
        if (receiver->shares)
            shares_begin_message(receiver->shares, lanes_tenant(receiver->current));
        uint64_t done_ns = worker->handle
                               ? worker->handle(worker->handle_context, worker, (size_t)size)
                               : worker_handle(worker, (size_t)size);
        if (receiver->place)
            receiver->was_away = parking_come_back(receiver->place);
        if (receiver->shares) {
            shares_end_message(receiver->shares, lanes_tenant(receiver->current));
            receiver_charge(receiver, worker->execution.received_ns, done_ns);
        }
        if (receiver->place)
            watch_backlog(worker, &busy_since_ns, done_ns);
        if (!receiver->blocking)
            wire_waiter_served(&receiver->waiter, done_ns);
    }
    return size == 0;
}
