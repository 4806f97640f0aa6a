#include "serverk/session/hello.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "serverk/session/admission.h"
#include "serverk/session/audit.h"
#include "serverk/session/deliver.h"
#include "wire/queue.h"

/* Replies are built in buffers that are at least so large; a client's larger messages stay
 * unused. */
#define MAX_REPLY_BYTES FRAGMENTS_EXTRA_BYTES

/* One handshake at a time: so a HELLO that came twice finds the session of the first. */
static pthread_mutex_t handshake_lock = PTHREAD_MUTEX_INITIALIZER;

/* A client that asks for a session. */
struct applicant {
    struct wire_hello hello;
    char reply_name[WIRE_QUEUE_NAME_BYTES];
    mqd_t reply_queue; /* or the descriptor of the ring's object */
    pid_t pid;         /* as the kernel knows it here; 0: in a PID namespace that is not seen */
    struct wire_ring *ring; /* NULL: it has a reply queue */
    struct wire_geometry geometry;
    uid_t uid;       /* of its reply queue or ring */
    int pidfd;       /* -1: the kernel does not show the process here */
    bool reads_only; /* it came through the read lane */
};

static void close_applicant(struct applicant *applicant)
{
    wire_ring_close(applicant->ring);
    session_close_queue(applicant->reply_queue);
    if (applicant->pidfd >= 0)
        close(applicant->pidfd);
}

/* Anybody can send a HELLO that fails, as often as he likes: so all of them together get a line a
 * second. */
static void log_failure(const struct applicant *applicant, const char *what, const char *reason)
{
    static struct log_pace pace = LOG_PACE(1000);
    char unsaid[LOG_PACE_TEXT_BYTES];
    if (log_pace_allows(&pace, unsaid))
        log_info("HELLO of process %u%s: %s%s", applicant->hello.pid, what, reason, unsaid);
}

/* Warns, once a minute: the client learns only that it was not answered. */
static void warn_of_lost_hello(const char *reason)
{
    static struct log_pace pace = LOG_PACE(60000);
    char unsaid[LOG_PACE_TEXT_BYTES];
    if (log_pace_allows(&pace, unsaid))
        log_warn("a client gets no session and no answer: %s%s", reason, unsaid);
}

/* Returns whether the name is one that the client may have given to an object of that role. */
static bool is_named_after_it(const struct hello_terms *terms, const struct applicant *applicant,
                              enum wire_queue_role role)
{
    struct kv_slice name = applicant->hello.reply_queue;
    pid_t named_pid = 0;
    return name.size < sizeof applicant->reply_name &&
           wire_queue_name_parse(name.data, name.size, terms->queue, role, &named_pid) &&
           named_pid == (pid_t)applicant->hello.pid;
}

/* A ring is mapped before its client's process is proven: so it can be answered. */
static enum kv_status open_ring(struct applicant *applicant, struct kv_error *error)
{
    const struct wire_hello *hello = &applicant->hello;
    int object;
    enum kv_status status = wire_ring_open(applicant->reply_name, &object, error);
    if (status != KV_OK)
        return status;
    applicant->reply_queue = (mqd_t)object;
    applicant->uid = wire_queue_uid(applicant->reply_queue);
    applicant->geometry = (struct wire_geometry){.depth = hello->reply_depth < WIRE_RING_MAX_DEPTH
                                                              ? hello->reply_depth
                                                              : WIRE_RING_MAX_DEPTH,
                                                 .message_bytes = hello->reply_bytes};
    /* The owner of memory can make every access to it wait: only our own user may do so. */
    if (applicant->uid != geteuid())
        status = kv_error_set(error, KV_DENIED, "its shared memory belongs to another user");
    else
        status = wire_ring_map(object, applicant->geometry, &applicant->ring, error);
    if (status != KV_OK)
        session_close_queue(applicant->reply_queue);
    return status;
}

/* Opens the reply queue or ring that HELLO names. False: there is none that may be opened. */
static bool open_reply_path(const struct hello_terms *terms, struct applicant *applicant)
{
    struct kv_slice name = applicant->hello.reply_queue;
    struct kv_error error = {0};
    bool has_ring = is_named_after_it(terms, applicant, WIRE_REPLY_RING);
    if (!has_ring && !is_named_after_it(terms, applicant, WIRE_REPLY_QUEUE)) {
        log_failure(applicant, " dropped", "its reply queue is not named after it");
        return false;
    }
    memcpy(applicant->reply_name, name.data, name.size);
    applicant->reply_name[name.size] = '\0';
    enum kv_status status =
        has_ring ? open_ring(applicant, &error)
                 : wire_queue_open(applicant->reply_name, true, &applicant->reply_queue,
                                   &applicant->geometry, &error);
    if (status == KV_OK)
        applicant->uid = wire_queue_uid(applicant->reply_queue);
    if (status == KV_NO_SERVER) /* the client has given up */
        log_debug("HELLO of process %u dropped: its reply queue is gone", applicant->hello.pid);
    else if (status == KV_LIMIT)
        warn_of_lost_hello(error.text);
    else if (status != KV_OK)
        log_failure(applicant, " dropped", error.text);
    return status == KV_OK;
}

/* Finds the client's process. The process that holds the lock of the reply queue is its client,
 * whatever it calls itself: in another PID namespace it has another pid, or the kernel shows none
 * here. False: there is nobody to answer. */
static bool prove_process(struct applicant *applicant, struct kv_error *refusal)
{
    applicant->pid = 0;
    applicant->pidfd = wire_queue_owner_pidfd(applicant->reply_queue, &applicant->pid);
    if (applicant->pidfd >= 0 && !wire_pidfd_has_pid(applicant->pidfd, (pid_t)applicant->hello.pid))
        kv_error_set(refusal, KV_DENIED,
                     "the kernel knows the client, which calls itself process %u, as process %ld",
                     applicant->hello.pid, (long)applicant->pid);
    if (applicant->pidfd >= 0)
        return true;
    if (errno == EMFILE) {
        warn_of_lost_hello("no descriptor is left to watch it with: raise ulimit -n");
        return false;
    }
    if (wire_queue_owner(applicant->reply_queue) < 0)
        return true;
    log_failure(applicant, " dropped", "it does not hold the lock of its reply queue");
    if (!wire_process_ended((pid_t)applicant->hello.pid))
        return false;
    /* The client died before we saw its HELLO: nobody else removes what it made. */
    if (applicant->ring)
        shm_unlink(applicant->reply_name);
    else
        mq_unlink(applicant->reply_name);
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

/* Sends REFUSED, if the client's messages have room for it, and closes what the applicant has. */
static void refuse_applicant(const struct hello_terms *terms, struct applicant *applicant,
                             const struct wire_header *request, enum kv_status status,
                             const char *sentence)
{
    uint8_t message[WIRE_HEADER_BYTES + KV_ERROR_TEXT_BYTES];
    size_t room = applicant->geometry.message_bytes < sizeof message
                      ? applicant->geometry.message_bytes
                      : sizeof message;
    size_t size = build_answer(message, room, WIRE_REFUSED, request, 0, applicant->hello.nonce,
                               status, NULL, sentence);
    if (size > 0 && applicant->ring)
        wire_ring_put(applicant->ring, message, size);
    else if (size > 0)
        wire_send(applicant->reply_queue, message, size, 0, 0);
    audit_refused(applicant->uid, (pid_t)applicant->hello.pid, sentence);
    session_count_refusal(terms->sessions, status);
    char whose[32];
    snprintf(whose, sizeof whose, " (uid %lu) refused", (unsigned long)applicant->uid);
    log_failure(applicant, whose, sentence);
    close_applicant(applicant);
}

/* Says where the store is to those who may open it. */
static void offer_direct(const struct hello_terms *terms, uid_t uid, struct wire_welcome *welcome)
{
    if (terms->direct == KVSTORE_DIRECT_OFF)
        return;
    bool may = terms->direct == KVSTORE_DIRECT_GROUP || uid == geteuid() || uid == 0;
    welcome->direct = may ? WIRE_DIRECT_OFFERED : WIRE_DIRECT_OTHERS;
    welcome->store_device = may ? terms->store_device : 0;
    welcome->store_inode = may ? terms->store_inode : 0;
    welcome->store_number = may ? terms->store_number : 0;
}

static void send_welcome(const struct hello_terms *terms, struct session *session,
                         const struct wire_header *request)
{
    const struct lane_assignment *lanes = &session->assignment;
    bool is_reader = lanes->queue == LANE_PLAN_READ_LANE;
    struct wire_welcome welcome = {.cookie = session->cookie,
                                   .instance = terms->instance,
                                   .max_value_bytes = atomic_load(&terms->live->max_value_bytes),
                                   .server_pid = (uint32_t)getpid(),
                                   .credits = lanes->credits,
                                   .lane_family = lanes->family,
                                   .lane = lanes->lane,
                                   .bulk_lane = lanes->bulk_lane,
                                   .flags = terms->welcome_flags |
                                            (is_reader ? WIRE_WELCOME_READ_ONLY : 0),
                                   .lane_bytes = lanes->lane_bytes,
                                   .bulk_bytes = lanes->bulk_bytes};
    uint8_t message[WIRE_MIN_REPLY_BYTES];
    offer_direct(terms, session->uid, &welcome);
    size_t size = build_answer(message, sizeof message, WIRE_WELCOME, request, session->id,
                               session->nonce, KV_OK, &welcome, "");
    KV_ASSERT(size > 0 && size <= session->reply_bytes); /* check_form has seen to that */
    session_send(terms->sessions, session, message, size);
}

/* Opens the applicant's session. NULL: there is no room for another. */
static struct session *open_session(const struct hello_terms *terms,
                                    const struct applicant *applicant, struct access_user *access)
{
    const struct wire_hello *hello = &applicant->hello;
    uint32_t reply_bytes = applicant->geometry.message_bytes;
    if (reply_bytes > hello->reply_bytes)
        reply_bytes = hello->reply_bytes;
    struct session_start start = {
        .reply_queue = applicant->reply_queue,
        .ring = applicant->ring,
        .pidfd = applicant->pidfd,
        .reply_bytes = reply_bytes < MAX_REPLY_BYTES ? reply_bytes : MAX_REPLY_BYTES,
        .reply_depth = applicant->geometry.depth < hello->reply_depth ? applicant->geometry.depth
                                                                      : hello->reply_depth,
        .threads = hello->threads,
        .nonce = hello->nonce,
        .pid = applicant->pid,
        .named_pid = (pid_t)hello->pid,
        .uid = applicant->uid,
        .access = access,
        .reads_only = applicant->reads_only,
        .knows_guests = (hello->abilities & WIRE_HELLO_GUEST_LANES) != 0,
        .reply_name = applicant->reply_name};
    return session_open(terms->sessions, &start);
}

/* Returns whether the applicant's user may have sessions that do more than read. It is asked again
 * when the session is there, for a change of the mode ends only those that it sees. */
static bool is_let_in(const struct hello_terms *terms, const struct applicant *applicant)
{
    return applicant->reads_only || session_table_admits(terms->sessions, applicant->uid);
}

static void admit(const struct hello_terms *terms, struct applicant *applicant,
                  const struct wire_header *request)
{
    struct kv_error error = {0};
    struct newcomer newcomer = {.reply_queue = applicant->reply_queue,
                                .nonce = applicant->hello.nonce,
                                .pid = applicant->pid,
                                .uid = applicant->uid};
    struct session *session = NULL;
    struct access_user *access = NULL;
    KV_ASSERT(mutex_is_held(&handshake_lock));
    enum kv_status status =
        access_enter(terms->access, applicant->uid, applicant->reads_only, &access, &error);
    if (status != KV_OK) {
        refuse_applicant(terms, applicant, request, status, error.text);
        return;
    }
    newcomer.max_sessions = access_max_sessions(access);
    status = admission_check(terms->sessions, &newcomer, &session, &error);
    if (session) {
        session_reopen_lane(terms->sessions, session);
        send_welcome(terms, session, request); /* the same once more */
        session_release(terms->sessions, session);
        close_applicant(applicant);
        return;
    }
    if (status == KV_OK) {
        session = open_session(terms, applicant, access);
        if (!session && errno == ESHUTDOWN) {
            close_applicant(applicant); /* it sees the name go, and looks for another server */
            return;
        }
        if (!session)
            status = kv_error_set(&error, KV_LIMIT,
                                  "the server has no descriptor or slot left for a session");
    }
    if (!session) {
        refuse_applicant(terms, applicant, request, status, error.text);
        return;
    }
    if (!audit_opened(session->id, session->uid, session->pid))
        atomic_store(&session->audited, false);
    log_debug("session %u: process %ld, uid %lu, %u threads, lane %u, %u credits", session->id,
              (long)session->pid, (unsigned long)session->uid, session->threads,
              session->assignment.lane, session->assignment.credits);
    send_welcome(terms, session, request);
    if (!is_let_in(terms, applicant))
        session_end(terms->sessions, session, SESSION_KILLED);
    session_release(terms->sessions, session);
}

/* Returns whether the daemon's options allow replies of that kind. */
static enum kv_status check_reply_path(const struct hello_terms *terms,
                                       const struct applicant *applicant, struct kv_error *error)
{
    if (!is_let_in(terms, applicant))
        return kv_error_set(error, KV_DENIED, "this server is for its own user only (--mode)");
    if (applicant->ring && terms->replies == WIRE_REPLIES_QUEUE)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "this server sends no replies through shared memory (--replies queue)");
    if (!applicant->ring && terms->replies == WIRE_REPLIES_SHARED && applicant->uid == geteuid())
        return kv_error_set(error, KV_UNSUPPORTED,
                            "this server sends replies to clients of its own user through shared "
                            "memory only (--replies shared)");
    return KV_OK;
}

/* Returns whether the server can talk to the client as it describes itself. */
static enum kv_status check_form(const struct applicant *applicant, enum kv_status header_status,
                                 const uint8_t *message, struct kv_error *error)
{
    const struct wire_hello *hello = &applicant->hello;
    uint8_t version = wire_message_version(message);
    uint32_t reply_bytes = applicant->geometry.message_bytes;
    if (reply_bytes > hello->reply_bytes)
        reply_bytes = hello->reply_bytes;
    if (version != WIRE_VERSION)
        return kv_error_set(
            error, KV_UNSUPPORTED,
            "the client speaks version %u of the protocol, this server (mqkv " MQKV_VERSION
            ") version %u: update the older of the two",
            version, WIRE_VERSION);
    if (header_status != KV_OK)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "this server (mqkv " MQKV_VERSION ") knows no flags in HELLO");
    if (reply_bytes < WIRE_MIN_REPLY_BYTES)
        return kv_error_set(error, KV_BAD_REQUEST,
                            "the messages of the reply queue have %u bytes, less than %u",
                            reply_bytes, WIRE_MIN_REPLY_BYTES);
    if (hello->reply_depth == 0)
        return kv_error_set(error, KV_BAD_REQUEST, "reply_depth is 0: no reply would fit");
    return KV_OK;
}

bool hello_answer(const struct hello_terms *terms, struct kv_slice message,
                  const struct wire_header *header, enum kv_status header_status,
                  struct read_cursor *body, bool reads_only)
{
    struct applicant applicant = {.pidfd = -1, .reads_only = reads_only};
    struct kv_error error = {0};
    if (wire_get_hello(body, &applicant.hello) != KV_OK || !open_reply_path(terms, &applicant))
        return false;
    if (!prove_process(&applicant, &error)) {
        close_applicant(&applicant);
        return false;
    }
    if (error.status == KV_OK)
        check_form(&applicant, header_status, message.data, &error);
    if (error.status == KV_OK)
        check_reply_path(terms, &applicant, &error);
    if (error.status != KV_OK) {
        refuse_applicant(terms, &applicant, header, error.status, error.text);
        return true;
    }
    pthread_mutex_lock(&handshake_lock);
    if (terms->access)
        pthread_mutex_lock(&terms->access->lock);
    admit(terms, &applicant, header);
    if (terms->access)
        pthread_mutex_unlock(&terms->access->lock);
    pthread_mutex_unlock(&handshake_lock);
    return true;
}
