#include "serverk/dispatch/steward.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "serverk/session/deliver.h"
#include "wire/operation.h"
#include "wire/queue.h"

/* Messages between two looks whether a worker has come back. */
#define AT_ONCE 64u

struct steward {
    const struct service *service;
    struct worker worker;
    pthread_t thread;
    _Atomic bool stopping;
};

/* Returns whether the request, behind its header, is one operation that needs no data file. */
static bool needs_no_file(const struct service *service, const struct wire_header *request,
                          struct read_cursor *cursor)
{
    struct wire_operation operation;
    if (request->count != 1 || wire_get_operation(cursor, &operation) != KV_OK)
        return false;
    return operation.opcode == WIRE_OP_STATS || operation.opcode == WIRE_OP_PING ||
           (operation.opcode == WIRE_OP_ADMIN && !service->admin_waits(operation.key));
}

/* Returns whether the steward handles the message of that session itself. */
static bool handles(const struct service *service, const struct session *session,
                    const uint8_t *message, size_t size)
{
    struct read_cursor cursor = read_cursor(message, size);
    struct wire_header header = {0};
    if (!session || wire_get_header(&cursor, &header) != KV_OK)
        return true; /* a HELLO, or refused */
    switch (header.kind) {
    case WIRE_REQUEST:
        return !service->submissions && needs_no_file(service, &header, &cursor);
    case WIRE_BYE:
        return atomic_load(&session->aside) == 0;
    case WIRE_PART:
        return false;
    default:
        return true;
    }
}

/* There is no room for the message. A BYE needs none, for nobody would send it again: the session
 * ends before its messages that were set aside, which hold it, are executed. */
static void deal_without_room(struct steward *steward, struct session *session, size_t size)
{
    const struct service *service = steward->service;
    struct worker *worker = &steward->worker;
    struct read_cursor cursor = read_cursor(worker->receiver.buffer, size);
    struct wire_header header = {0};
    wire_get_header(&cursor, &header);
    if (header.kind == WIRE_BYE) {
        worker->receiver.session = session;
        worker_handle(worker, size);
        return;
    }
    deliver_failure(service->sessions, session, header.request_id, KV_OVERLOADED,
                    "all workers of the server wait, as for a disk that does not answer, and so "
                    "many requests wait for them: try again later");
    statistics_add(&worker->statistics->statuses[KV_OVERLOADED], 1);
    session_release(service->sessions, session);
}

static void deal_with(struct steward *steward, size_t size)
{
    struct worker *worker = &steward->worker;
    struct receiver *receiver = &worker->receiver;
    receiver_find_session(receiver, size);
    struct session *session = receiver->session;
    if (handles(steward->service, session, receiver->buffer, size)) {
        worker_handle(worker, size);
        return;
    }
    KV_ASSERT(session); /* a message of nobody waits for no worker */
    receiver->session = NULL;
    struct kv_slice message = kv_slice(receiver->buffer, size);
    if (!aside_add(steward->service->aside, message, session, receiver->current))
        deal_without_room(steward, session, size);
}

static void *steward_main(void *argument)
{
    struct steward *steward = argument;
    const struct service *service = steward->service;
    uint64_t expirations;
    pthread_setname_np(pthread_self(), "serverk/steward");
    for (;;) {
        ssize_t size = read(parking_timer(service->parking), &expirations, sizeof expirations);
        if (atomic_load(&steward->stopping))
            return NULL;
        bool stands_in = size > 0 && !parking_look(service->parking) && service->aside;
        for (unsigned i = 0; stands_in && i < AT_ONCE; i++) {
            size = receiver_look(&steward->worker.receiver);
            if (size <= 0)
                break;
            deal_with(steward, (size_t)size);
        }
    }
}

static void free_steward(struct steward *steward)
{
    free(steward->worker.receiver.buffer);
    worker_free(&steward->worker);
    free(steward);
}

enum kv_status steward_start(const struct service *service, struct worker_statistics *statistics,
                             const struct receiver *receiver, struct steward **result,
                             struct kv_error *error)
{
    struct steward *steward = calloc(1, sizeof *steward);
    bool made = steward && worker_init(&steward->worker, service, statistics);
    if (made) {
        steward->service = service;
        steward->worker.is_unnoted = true;
        steward->worker.receiver = *receiver;
        steward->worker.receiver.statistics = statistics;
        steward->worker.receiver.buffer = wire_queue_buffer(receiver->buffer_bytes);
    }
    if (!made || !steward->worker.receiver.buffer) {
        if (made)
            worker_free(&steward->worker);
        free(steward);
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    }
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard */
    sigdelset(&all, SIGSYS); /* syscall_filter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int number = pthread_create(&steward->thread, NULL, steward_main, steward);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (number != 0) {
        free_steward(steward);
        return kv_error_set_no_thread(error, number,
                                      "cannot start the thread that looks after the workers");
    }
    *result = steward;
    return KV_OK;
}

void steward_stop(struct steward *steward)
{
    if (!steward)
        return;
    atomic_store(&steward->stopping, true);
    pthread_join(steward->thread, NULL);
    free_steward(steward);
}
