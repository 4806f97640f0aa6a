#include "serverk/handshake.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "serverk/deliver.h"
#include "wire/queue.h"

/* Replies are built in buffers that are at least so large; a client's larger messages stay unused. */
#define MAX_REPLY_BYTES SERVICE_MESSAGE_EXTRA_BYTES

/* Offsets in a segment have 32 bits. */
#define MAX_SEGMENT_BYTES (1ull << 32)

/* One handshake at a time: so a HELLO that came twice finds the session of the first. */
static pthread_mutex_t handshake_lock = PTHREAD_MUTEX_INITIALIZER;

/* A client that has proven who it is, and is no session yet. */
struct applicant {
    struct wire_hello hello;
    char reply_name[WIRE_QUEUE_NAME_BYTES];
    mqd_t reply_queue;
    struct wire_geometry geometry;
    int pidfd;
};

static void close_applicant(struct applicant *applicant)
{
    session_close_queue(applicant->reply_queue);
    if (applicant->pidfd >= 0)
        close(applicant->pidfd);
}

/* A reply queue whose client died before we saw its HELLO has nobody else to remove it. */
static void remove_if_dead(const struct applicant *applicant)
{
    if (wire_process_ended((pid_t)applicant->hello.pid))
        mq_unlink(applicant->reply_name);
}

/* Once a minute: the client learns only that it was not answered. */
static void warn_of_lost_hello(const char *reason)
{
    static _Atomic uint64_t silent_until_ms;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (now_ms < atomic_load(&silent_until_ms))
        return;
    atomic_store(&silent_until_ms, now_ms + 60000);
    log_warn("a client gets no session and no answer: %s", reason);
}

/* Opens the reply queue and checks that it is the sender's. False: dropped, the log says why. */
static bool identify(const struct service *service, struct applicant *applicant)
{
    struct kv_slice name = applicant->hello.reply_queue;
    pid_t named_pid = 0, owner = 0;
    struct kv_error error = {0};
    if (name.size >= sizeof applicant->reply_name ||
        !wire_queue_name_parse(name.data, name.size, service->options->queue, WIRE_REPLY_QUEUE,
                               &named_pid) ||
        named_pid != (pid_t)applicant->hello.pid) {
        log_debug("HELLO dropped: its reply queue is not named after process %u",
                  applicant->hello.pid);
        return false;
    }
    memcpy(applicant->reply_name, name.data, name.size);
    applicant->reply_name[name.size] = '\0';
    if (wire_queue_open(applicant->reply_name, true, &applicant->reply_queue, &applicant->geometry,
                        &error) != KV_OK) {
        log_debug("HELLO of process %u dropped: %s", applicant->hello.pid, error.text);
        if (error.status == KV_LIMIT)
            warn_of_lost_hello(error.text);
        return false;
    }
    applicant->pidfd = wire_queue_owner_pidfd(applicant->reply_queue, &owner);
    if (applicant->pidfd >= 0 && owner == (pid_t)applicant->hello.pid)
        return true;
    if (applicant->pidfd < 0 && errno == EMFILE)
        warn_of_lost_hello("no descriptor is left to watch it with: raise ulimit -n");
    log_debug("HELLO dropped: process %u does not hold the lock of %s", applicant->hello.pid,
              applicant->reply_name);
    if (applicant->pidfd < 0)
        remove_if_dead(applicant);
    close_applicant(applicant);
    return false;
}

static size_t build_answer(uint8_t *message, size_t message_bytes, enum wire_kind kind,
                           const struct wire_header *request, uint32_t session, uint64_t nonce,
                           enum kv_status status, const struct wire_welcome *welcome,
                           const char *sentence)
{
    struct write_cursor cursor = write_cursor(message, message_bytes);
    struct wire_header header = {.kind = kind,
                                 .status = status,
                                 .session = session,
                                 .request_id = request->request_id,
                                 .secret = nonce};
    wire_put_header(&cursor, &header);
    if (welcome)
        wire_put_welcome(&cursor, welcome);
    size_t room = write_cursor_left(&cursor);
    size_t length = strlen(sentence);
    write_bytes(&cursor, sentence, length < room ? length : room);
    return write_cursor_used(&cursor);
}

static void refuse(struct applicant *applicant, const struct wire_header *request,
                   enum kv_status status, const char *sentence)
{
    uint8_t message[512];
    size_t room = applicant->geometry.message_bytes < sizeof message
                      ? applicant->geometry.message_bytes
                      : sizeof message;
    size_t size = build_answer(message, room, WIRE_REFUSED, request, 0, applicant->hello.nonce,
                               status, NULL, sentence);
    wire_send(applicant->reply_queue, message, size, 0, 0);
    log_info("process %u refused: %s", applicant->hello.pid, sentence);
    close_applicant(applicant);
}

static void send_welcome(const struct service *service, struct session *session,
                         const struct wire_header *request)
{
    const struct lane_plan *plan = lanes_plan(service->lanes);
    uint32_t bulk_bytes = plan->bulk_lanes ? plan->bulk.message_bytes : plan->lane.message_bytes;
    struct wire_welcome welcome = {
        .cookie = session->cookie,
        .instance = service->instance,
        .max_value_bytes = kvstore_max_value_bytes(service->store),
        .server_pid = (uint32_t)getpid(),
        .credits = session->assignment.credits,
        .lane = session->assignment.lane,
        .bulk_lane = session->assignment.bulk_lane,
        .flags = service->options->sched == ORDER_FIFO ? 0 : WIRE_WELCOME_PRIORITY,
        .lane_bytes = plan->lane.message_bytes,
        .bulk_bytes = bulk_bytes};
    uint8_t message[WIRE_MIN_REPLY_BYTES];
    size_t size = build_answer(message, sizeof message, WIRE_WELCOME, request, session->id,
                               session->nonce, KV_OK, &welcome, "");
    session_send(service->sessions, session, message, size);
}

struct twin_search {
    const struct applicant *applicant;
    const struct service *service;
    const struct wire_header *request;
    bool answered;
};

static bool answer_twin(void *context, struct session *session)
{
    struct twin_search *search = context;
    if (session->nonce != search->applicant->hello.nonce ||
        strcmp(session->reply_name, search->applicant->reply_name) != 0)
        return true;
    send_welcome(search->service, session, search->request);
    search->answered = true;
    return false;
}

/* True if the applicant has a session already, which was welcomed once more. */
static bool welcome_again(const struct service *service, struct applicant *applicant,
                          const struct wire_header *request)
{
    struct twin_search search = {applicant, service, request, false};
    session_each(service->sessions, answer_twin, &search);
    return search.answered;
}

/* NULL: no room for another. */
static struct session *open_session(const struct service *service,
                                    const struct applicant *applicant)
{
    const struct wire_hello *hello = &applicant->hello;
    uint32_t reply_bytes = applicant->geometry.message_bytes;
    if (reply_bytes > hello->reply_bytes)
        reply_bytes = hello->reply_bytes;
    struct session_start start = {
        .reply_queue = applicant->reply_queue,
        .pidfd = applicant->pidfd,
        .reply_bytes = reply_bytes < MAX_REPLY_BYTES ? reply_bytes : MAX_REPLY_BYTES,
        .reply_depth = applicant->geometry.depth < hello->reply_depth ? applicant->geometry.depth
                                                                      : hello->reply_depth,
        .threads = hello->threads,
        .nonce = hello->nonce,
        .pid = (pid_t)hello->pid,
        .uid = wire_queue_uid(applicant->reply_queue),
        .reply_name = applicant->reply_name};
    struct session *session = session_open(service->sessions, &start);
    if (session)
        return session;
    session_end_abandoned(service->sessions, 0);
    return session_open(service->sessions, &start);
}

static void admit(const struct service *service, struct applicant *applicant,
                  const struct wire_header *request)
{
    if (welcome_again(service, applicant, request)) {
        close_applicant(applicant);
        return;
    }
    session_end_abandoned(service->sessions, (pid_t)applicant->hello.pid);
    struct session *session = open_session(service, applicant);
    if (!session) {
        refuse(applicant, request, KV_LIMIT,
               "the server has as many sessions as it can (ulimit -n of the server; 4096 at most)");
        return;
    }
    log_debug("session %u: process %ld, uid %lu, %u threads, lane %u, %u credits", session->id,
              (long)session->pid, (unsigned long)session->uid, session->threads,
              session->assignment.lane, session->assignment.credits);
    send_welcome(service, session, request);
    session_release(service->sessions, session);
}

void handshake_hello(struct worker *worker, const struct wire_header *header,
                     enum kv_status header_status, struct read_cursor *body)
{
    const struct service *service = worker->service;
    struct applicant applicant = {.pidfd = -1};
    if (wire_get_hello(body, &applicant.hello) != KV_OK || !identify(service, &applicant)) {
        statistics_add(&worker->statistics->dropped[DROPPED_BAD_HELLO], 1);
        return;
    }
    if (header_status != KV_OK) {
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "this server (mqkv " MQKV_VERSION
                 ") speaks version %u of the protocol, without flags",
                 WIRE_VERSION);
        refuse(&applicant, header, KV_UNSUPPORTED, sentence);
    } else if (applicant.geometry.message_bytes < WIRE_MIN_REPLY_BYTES) {
        refuse(&applicant, header, KV_BAD_REQUEST, "the messages of the reply queue are too small");
    } else {
        pthread_mutex_lock(&handshake_lock);
        admit(service, &applicant, header);
        pthread_mutex_unlock(&handshake_lock);
    }
}

/* Opens the offered segment for the session. */
static enum kv_status take_segment(const struct service *service, struct session *session,
                                   const struct wire_segment_offer *offer, struct kv_error *error)
{
    pid_t pid = 0;
    char name[WIRE_QUEUE_NAME_BYTES];
    if (offer->name.size >= sizeof name ||
        !wire_queue_name_parse(offer->name.data, offer->name.size, service->options->queue,
                               WIRE_REPLY_SEGMENT, &pid) ||
        pid != session->pid)
        return kv_error_set(error, KV_BAD_REQUEST, "the segment is not named after process %ld",
                            (long)session->pid);
    if (offer->bytes > MAX_SEGMENT_BYTES)
        return kv_error_set(error, KV_LIMIT, "a segment has at most 4 GiB");
    memcpy(name, offer->name.data, offer->name.size);
    name[offer->name.size] = '\0';
    /* What its owner does with it (fallocate, say) makes every read and write of it wait: so those of
     * other users are taken only where the client can not know better, and never mapped. */
    bool map = session->uid == geteuid();
    if (!map && geteuid() != 0)
        return kv_error_set(error, KV_DENIED,
                            "the server (uid %lu) takes no segment of another user (uid %lu): send "
                            "large values in parts",
                            (unsigned long)geteuid(), (unsigned long)session->uid);
    struct wire_segment *segment;
    enum kv_status status =
        wire_segment_open(name, offer->bytes, session->uid, map, &segment, error);
    if (status != KV_OK)
        return status;
    if (session_add_segment(session, segment, name))
        return KV_OK;
    wire_segment_close(segment);
    return kv_error_set(error, KV_LIMIT, "a session can change its segment %u times",
                        SESSION_MAX_SEGMENTS - 1);
}

void handshake_segment(struct worker *worker, struct session *session,
                       const struct wire_header *header, struct read_cursor *body)
{
    struct wire_segment_offer offer;
    struct kv_error error = {0};
    enum kv_status status = wire_get_segment_offer(body, &offer);
    if (status != KV_OK)
        kv_error_set(&error, status, "malformed SEGMENT message");
    else
        status = take_segment(worker->service, session, &offer, &error);
    deliver_failure(worker->service->sessions, session, header->request_id, status, error.text);
}
