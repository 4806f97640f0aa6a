#include "lab/dispatch/request_processes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/memory/mapguard.h"
#include "lab/dispatch/slots.h"
#include "serverk/dispatch/worker.h"
#include "serverk/execute/allowance.h"
#include "serverk/execute/execution.h"
#include "serverk/session/deliver.h"
#include "wire/queue.h"

/* data.u64 of the event that ends the reaper; children have the number of their place. */
#define STOP_TAG UINT64_MAX

/* The shortest time between two lines in the log about children that died. */
#define DIED_LINE_MS 1000u

/* After a reply of more than this size, its memory goes back to the kernel. */
#define KEEP_BYTES (256u << 10)

/* How a child ends. */
enum { CHILD_ANSWERED = 0, CHILD_LEFT_IT = 1, CHILD_FOUND_QUEUE_FULL = 2, CHILD_MADE_REPLY = 3 };

/* One request that is alive. */
struct request_process {
    struct session *session; /* held */
    uint8_t *message;        /* of lanes_message_bytes; swapped with that of who received it */
    size_t message_bytes;
    uint8_t *reply; /* of a batch; shared with the child; NULL: no memory */
    bool reserved;  /* fragments are, for such a reply */
    pid_t pid;
    int pidfd;
    uint64_t received_ns;
};

struct request_processes {
    const struct service *service;
    struct slots *slots;
    struct worker reaper; /* of the reaper thread; its buffers also serve the children, as copies */
    struct worker_statistics child_zero; /* what a child counts in, its own copy of zeros */
    struct child_word *words;            /* by place, shared with the children */
    int epoll;                           /* the children's pidfds and the stop event */
    int stop_event;
    pthread_t thread;
    bool started;
    uint64_t died_line_ms; /* the reaper's */
    struct request_process places[];
};

/* What a child leaves word of. */
struct child_word {
    _Atomic bool answered;
    _Atomic size_t made_bytes; /* CHILD_MADE_REPLY: of place->reply */
};

/* A request that only reads, as it lies in a message. */
struct read_request {
    struct wire_header header;
    struct read_cursor operations;
};

/* The child ------------------------------------------------------------------------------------ */

/* Ends with the thread that forked it, and after a time however it fares. All other signals stay
 * blocked: those of a terminal are for the daemon. */
static void bound_life(pid_t daemon)
{
    sigset_t mask;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != daemon)
        _exit(CHILD_LEFT_IT);
    alarm(REQUEST_PROCESS_LIFE_S);
    sigfillset(&mask);
    sigdelset(&mask, SIGALRM);
    sigdelset(&mask, SIGBUS);
    sigdelset(&mask, SIGSYS);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* Adds up what this child counted, for the daemon to see. */
static void count_request(struct request_processes *all, unsigned number,
                          struct worker_statistics *counted, const struct request_process *place,
                          unsigned kind, uint64_t worked_ns, size_t reply_bytes)
{
    statistics_add(&counted->messages, 1);
    statistics_add(&counted->bytes_in, place->message_bytes);
    statistics_add(&counted->bytes_out, reply_bytes);
    histogram_record(&counted->stages[STAGE_LOCK_WAIT], 0);
    histogram_record(&counted->work[kind], worked_ns - place->received_ns);
    histogram_record(&counted->stages[STAGE_REPLY], clock_monotonic_ns() - worked_ns);
    statistics_sum(&all->service->statistics[2 + number], counted, 1);
}

static _Noreturn void serve_in_child(struct request_processes *all, unsigned number,
                                     struct read_request *request, pid_t daemon)
{
    const struct request_process *place = &all->places[number];
    bound_life(daemon);
    kvstore_fork_in_child(all->service->store);
    struct execution_context context = all->reaper.execution;
    context.budget = NULL; /* it has a lock */
    context.statistics = &all->child_zero;
    context.received_ns = place->received_ns;
    context.message_ms = REQUEST_PROCESS_ALLOWANCE_MS;
    if (place->reserved)
        context.reply = place->reply;
    context.reply_reserved = place->reserved;
    struct reply reply;
    const char *sentence;
    unsigned kind = statistics_kind(request->header.count, &request->operations);
    uint32_t faults = mapguard_count(); /* what is lost, the daemon is to find out itself */
    if (execute_request(&context, place->session, &request->header, &request->operations, &reply,
                        &sentence) != KV_OK ||
        reply.too_large || mapguard_count() != faults)
        _exit(CHILD_LEFT_IT);
    struct kv_slice message = reply_finish(&reply);
    uint64_t worked_ns = clock_monotonic_ns();
    /* A reply for which fragments are reserved is sent by the reaper, also if it needs none: else
     * the client's next request could come before the reservation is given back. */
    if (place->reserved) {
        atomic_store(&all->words[number].made_bytes, message.size);
        count_request(all, number, context.statistics, place, kind, worked_ns, 0);
        _exit(CHILD_MADE_REPLY);
    }
    if (!session_put(place->session, message.data, message.size))
        _exit(CHILD_FOUND_QUEUE_FULL);
    atomic_store(&all->words[number].answered, true);
    count_request(all, number, context.statistics, place, kind, worked_ns, message.size);
    _exit(CHILD_ANSWERED);
}

/* The reaper ----------------------------------------------------------------------------------- */

static void tell_died(struct request_processes *all, const siginfo_t *info)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    slots_count_died(all->slots);
    if (now_ms - all->died_line_ms < DIED_LINE_MS)
        return;
    all->died_line_ms = now_ms;
    log_warn("process %ld, which served a request, was ended by signal %d; its request is executed "
             "by the daemon",
             (long)info->si_pid, info->si_status);
}

static void cancel_reservation(struct request_processes *all, struct request_process *place)
{
    if (place->reserved)
        fragments_cancel(&place->session->fragments, all->service->budget);
    place->reserved = false;
}

/* Sends the reply that the child has made, or keeps it and sends its first fragment. */
static void deliver_made(struct request_processes *all, unsigned number, struct worker *worker)
{
    const struct service *service = all->service;
    struct request_process *place = &all->places[number];
    size_t size = atomic_load(&all->words[number].made_bytes);
    KV_ASSERT(place->reserved && size <= service->budget->message_max_bytes);
    size_t sent = deliver_reply(service->sessions, service->budget, place->session,
                                kv_slice(place->reply, size), true);
    statistics_add(&worker->statistics->bytes_out, sent);
    place->reserved = false;
    if (size > KEEP_BYTES)
        madvise(place->reply, worker->execution.buffer_bytes, MADV_REMOVE);
}

/* Executes the request of the place in this thread. */
static void take_request_back(struct request_processes *all, struct request_process *place,
                              struct worker *worker)
{
    cancel_reservation(all, place);
    slots_count_taken_back(all->slots);
    uint8_t *buffer = worker->receiver.buffer;
    session_retain(place->session); /* it may have ended meanwhile */
    worker->receiver.session = place->session;
    worker->receiver.buffer = place->message;
    worker_handle(worker, place->message_bytes);
    worker->receiver.buffer = buffer;
}

static void free_place(struct request_processes *all, unsigned number)
{
    cancel_reservation(all, &all->places[number]);
    KV_ASSERT(all->places[number].session);
    session_release(all->service->sessions, all->places[number].session);
    slots_release(all->slots, number);
}

/* Waits for the end of the child, which is there or near, and sees to what it left. */
static void reap_child(struct request_processes *all, unsigned number, struct worker *worker)
{
    struct request_process *place = &all->places[number];
    siginfo_t info = {0};
    int result;
    do
        result = waitid(P_PID, (id_t)place->pid, &info, WEXITED);
    while (result != 0 && errno == EINTR);
    if (place->pidfd >= 0) {
        /* Other children have copies of the descriptor, which would keep it in the set. */
        epoll_ctl(all->epoll, EPOLL_CTL_DEL, place->pidfd, NULL);
        close(place->pidfd);
    }
    bool exited = result == 0 && info.si_code == CLD_EXITED;
    bool answered = atomic_load(&all->words[number].answered);
    if (!exited && !answered)
        tell_died(all, &info);
    if (exited && info.si_status == CHILD_MADE_REPLY)
        deliver_made(all, number, worker);
    else if (exited && info.si_status == CHILD_FOUND_QUEUE_FULL)
        session_end(all->service->sessions, place->session, SESSION_FAULT);
    else if (!answered)
        take_request_back(all, place, worker);
    free_place(all, number);
}

static void *reap_children(void *argument)
{
    struct request_processes *all = argument;
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(all->epoll, &event, 1, -1) <= 0)
            continue;
        if (event.data.u64 == STOP_TAG)
            return NULL;
        reap_child(all, (unsigned)event.data.u64, &all->reaper);
    }
}

/* The receiving thread ------------------------------------------------------------------------- */

static bool only_reads(const struct read_request *request)
{
    struct read_cursor cursor = request->operations;
    for (unsigned i = 0; i < request->header.count; i++) {
        struct wire_operation operation;
        if (wire_get_operation(&cursor, &operation) != KV_OK ||
            (operation.opcode != WIRE_OP_GET && operation.opcode != WIRE_OP_EXISTS &&
             operation.opcode != WIRE_OP_SCAN && operation.opcode != WIRE_OP_RANGE &&
             operation.opcode != WIRE_OP_RANGE_COUNT))
            return false;
    }
    return request->header.count > 0;
}

/* Returns true if the message is a request that a child can serve; its session is held then, and
 * the receiver, which may have found it, holds it no more. */
static bool is_for_child(const struct request_processes *all, struct worker *front,
                         struct kv_slice message, struct read_request *request,
                         struct session **session)
{
    struct wire_header *header = &request->header;
    request->operations = read_cursor(message.data, message.size);
    *header = (struct wire_header){0};
    if (wire_get_header(&request->operations, header) != KV_OK || header->kind != WIRE_REQUEST ||
        header->session == 0 || allowance_deadline_passed(header) || !only_reads(request))
        return false;
    struct session_table *sessions = all->service->sessions;
    struct session *found = front->receiver.session;
    *session = found ? found : session_acquire(sessions, header->session, header->secret);
    if (!*session)
        return false;
    if (worker_lane_admits(front, *session)) {
        front->receiver.session = NULL;
        return true;
    }
    if (!found)
        session_release(sessions, *session);
    return false;
}

/* Forks. Returns the pid; -1: errno. */
static pid_t start_child(struct request_processes *all, unsigned number,
                         struct read_request *request)
{
    pid_t daemon = getpid();
    kvstore_fork_begin(all->service->store);
    pid_t pid = fork();
    if (pid == 0)
        serve_in_child(all, number, request, daemon);
    int error_number = errno;
    kvstore_fork_end(all->service->store);
    errno = error_number;
    return pid;
}

/* Leaves the child to the reaper. False: that cannot be (no descriptor). */
static bool watch_child(const struct request_processes *all, unsigned number)
{
    const struct request_process *place = &all->places[number];
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = number}};
    return place->pidfd >= 0 && epoll_ctl(all->epoll, EPOLL_CTL_ADD, place->pidfd, &event) == 0;
}

/* The pool's handler. */
static uint64_t serve_message(void *context, struct worker *front, size_t message_bytes)
{
    struct request_processes *all = context;
    struct receiver *receiver = &front->receiver;
    uint64_t received_ns = clock_monotonic_ns();
    struct read_request request;
    struct session *session;
    if (!is_for_child(all, front, kv_slice(receiver->buffer, message_bytes), &request, &session))
        return worker_handle(front, message_bytes);
    receiver_settle(receiver);
    unsigned number = slots_take(all->slots);
    struct request_process *place = &all->places[number];
    uint8_t *buffer = place->message;
    place->message = receiver->buffer;
    receiver->buffer = buffer;
    place->message_bytes = message_bytes;
    place->session = session;
    place->received_ns = received_ns;
    atomic_store(&all->words[number].answered, false);
    place->reserved = request.header.count > 1 && place->reply &&
                      fragments_reserve(&session->fragments, all->service->budget);
    place->pid = start_child(all, number, &request);
    if (place->pid < 0) {
        take_request_back(all, place, front);
        free_place(all, number);
        return clock_monotonic_ns();
    }
    place->pidfd = (int)syscall(SYS_pidfd_open, place->pid, 0);
    if (!watch_child(all, number))
        reap_child(all, number, front);
    return clock_monotonic_ns();
}

/* The pool's finish: children end with the receiving thread, so it waits until they have ended. */
static void wait_for_children(void *context)
{
    const struct request_processes *all = context;
    slots_wait_all(all->slots);
}

/* Life ----------------------------------------------------------------------------------------- */

static void free_processes(void *context)
{
    struct request_processes *all = context;
    unsigned count = all->service->options->workers;
    if (all->started) {
        eventfd_write(all->stop_event, 1);
        pthread_join(all->thread, NULL);
    }
    if (all->epoll >= 0)
        close(all->epoll);
    if (all->stop_event >= 0)
        close(all->stop_event);
    for (unsigned i = 0; i < count; i++) {
        free(all->places[i].message);
        if (all->places[i].reply)
            munmap(all->places[i].reply, all->service->budget->message_max_bytes);
    }
    if (all->words)
        munmap(all->words, count * sizeof *all->words);
    free(all->reaper.receiver.buffer);
    worker_free(&all->reaper);
    slots_free(all->slots);
    free(all);
}

/* The pool's put_stats. */
static void put_process_stats(void *context, struct json *json)
{
    const struct request_processes *all = context;
    slots_put_stats(all->slots, json);
}

static void *map_shared(size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

static bool allocate_places(struct request_processes *all, unsigned count)
{
    const struct service *service = all->service;
    size_t message_bytes = lanes_message_bytes(service->lanes);
    for (unsigned i = 0; i < count; i++) {
        all->places[i].pidfd = -1;
        all->places[i].reply = map_shared(service->budget->message_max_bytes);
        if (!(all->places[i].message = wire_queue_buffer(message_bytes)))
            return false;
    }
    all->words = map_shared(count * sizeof *all->words);
    return all->words && worker_init(&all->reaper, service, &service->statistics[1]) &&
           worker_init_buffer(&all->reaper);
}

static enum kv_status start_reaper(struct request_processes *all, struct kv_error *error)
{
    struct epoll_event stop = {.events = EPOLLIN, .data = {.u64 = STOP_TAG}};
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    all->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (all->epoll < 0 || all->stop_event < 0 ||
        epoll_ctl(all->epoll, EPOLL_CTL_ADD, all->stop_event, &stop) != 0)
        return kv_error_set_errno(error, "cannot watch processes");
    sigset_t everything, before;
    sigfillset(&everything);
    sigdelset(&everything, SIGBUS); /* mapguard */
    sigdelset(&everything, SIGSYS); /* syscall_filter */
    pthread_sigmask(SIG_SETMASK, &everything, &before);
    int result = pthread_create(&all->thread, NULL, reap_children, all);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    all->started = result == 0;
    if (!all->started)
        return kv_error_set_no_thread(error, result, "cannot start the reaping thread");
    return KV_OK;
}

enum kv_status request_processes_create(const struct service *service, struct pool_feed *feed,
                                        struct kv_error *error)
{
    unsigned count = service->options->workers;
    struct request_processes *all = calloc(1, sizeof *all + count * sizeof all->places[0]);
    if (!all)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory for %u processes (-w)", count);
    all->service = service;
    all->slots = slots_create(count);
    all->epoll = all->stop_event = -1;
    enum kv_status status =
        all->slots && allocate_places(all, count)
            ? start_reaper(all, error)
            : kv_error_set(error, KV_NO_MEMORY, "out of memory for %u processes (-w)", count);
    if (status != KV_OK) {
        free_processes(all);
        return status;
    }
    *feed = (struct pool_feed){.context = all,
                               .handle = serve_message,
                               .finish = wait_for_children,
                               .put_stats = put_process_stats,
                               .free = free_processes};
    return KV_OK;
}
