#include "serverk/execute/watchers.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/reply.h"
#include "serverk/execute/user_places.h"
#include "serverk/session/deliver.h"
#include "wire/change.h"

/* How often the thread looks at times, and whether clients are still there, while a request
 * waits. */
#define LOOK_EVERY_MS 250u

/* After each round the thread sleeps as long as that took, up to this. */
#define REST_MAX_NS UINT64_C(5000000)

struct watcher {
    struct watcher *next;
    uint32_t session;
    uint64_t cookie;
    uid_t uid;
    uint64_t until_ms; /* clock_monotonic_coarse_ms */
    struct wire_header request;
    size_t bytes; /* of the allocation */
    size_t operation_bytes;
    size_t positions_at; /* in the operation: the last of it */
    uint8_t operation[];
};

struct watchers {
    struct kvstore *store;
    struct session_table *sessions;
    struct fragment_budget *budget;
    const struct live_settings *live;
    watchers_execute execute;
    const operation_runner *runners;

    sem_t wakes;
    atomic_bool changed;
    atomic_uint_fast64_t told; /* how often the store has; raised before `changed` is set */
    atomic_bool stop;
    _Atomic kvstore_change_listener also;
    void *also_context; /* constant once `also` is there */

    pthread_mutex_t lock; /* everything below */
    bool started;
    pthread_t thread;
    struct execution_context context;     /* the thread's */
    struct watcher *first;                /* but for those that the thread deals with */
    struct user_places places;            /* with those */
    struct worker_statistics *statistics; /* the thread's own block */
};

static void wake(struct watchers *watchers)
{
    if (!atomic_exchange(&watchers->changed, true))
        sem_post(&watchers->wakes);
}

/* A kvstore_change_listener, which is called under the lock of a data file. */
static void note_change(void *context, uint32_t file)
{
    struct watchers *watchers = context;
    kvstore_change_listener also = atomic_load(&watchers->also);
    if (also)
        also(watchers->also_context, file);
    atomic_fetch_add(&watchers->told, 1);
    wake(watchers);
}

uint64_t watchers_told(const struct watchers *watchers)
{
    return atomic_load(&watchers->told);
}

void watchers_also_tell(struct watchers *watchers, kvstore_change_listener listener, void *context)
{
    watchers->also_context = context;
    atomic_store(&watchers->also, listener);
}

struct watchers *watchers_create(struct kvstore *store, struct session_table *sessions,
                                 struct fragment_budget *budget, const struct live_settings *live,
                                 watchers_execute execute, const operation_runner *runners)
{
    struct watchers *watchers = calloc(1, sizeof *watchers);
    if (!watchers)
        return NULL;
    watchers->store = store;
    watchers->sessions = sessions;
    watchers->budget = budget;
    watchers->live = live;
    watchers->execute = execute;
    watchers->runners = runners;
    watchers->places =
        (struct user_places){.max_count = WATCHERS_MAX, .max_bytes = WATCHERS_MAX_BYTES};
    watchers->statistics = statistics_create(1);
    if (!watchers->statistics) {
        free(watchers);
        return NULL;
    }
    sem_init(&watchers->wakes, 0, 0);
    pthread_mutex_init(&watchers->lock, NULL);
    kvstore_set_change_listener(store, note_change, watchers);
    return watchers;
}

/* Places --------------------------------------------------------------------------------------- */

static void drop_watcher(struct watchers *watchers, struct watcher *watcher)
{
    pthread_mutex_lock(&watchers->lock);
    user_places_give_back(&watchers->places, watcher->uid, 1, watcher->bytes);
    pthread_mutex_unlock(&watchers->lock);
    free(watcher);
}

void watchers_free(struct watchers *watchers)
{
    if (!watchers)
        return;
    while (watchers->first) {
        struct watcher *watcher = watchers->first;
        watchers->first = watcher->next;
        drop_watcher(watchers, watcher);
    }
    KV_ASSERT(watchers->places.count == 0 && watchers->places.bytes == 0);
    KV_ASSERT(!watchers->started);
    sem_destroy(&watchers->wakes);
    pthread_mutex_destroy(&watchers->lock);
    free(watchers->statistics);
    free(watchers);
}

uint64_t watchers_waiting(struct watchers *watchers)
{
    if (!watchers)
        return 0;
    pthread_mutex_lock(&watchers->lock);
    uint64_t count = watchers->places.count;
    pthread_mutex_unlock(&watchers->lock);
    return count;
}

void watchers_statistics(struct watchers *watchers, struct worker_statistics *sum)
{
    if (watchers)
        statistics_sum(sum, watchers->statistics, 1);
}

/* Executing again ------------------------------------------------------------------------------ */

static size_t send_watcher_reply(struct watchers *watchers, struct execution_context *context,
                                 struct session *session, struct reply *reply, uint64_t request_id)
{
    size_t sent;
    if (session_segment_is_broken(session)) {
        reply_abandon(reply);
        session_end(watchers->sessions, session, SESSION_SEGMENT);
        execution_context_trim(context, context->reply, context->buffer_bytes);
        return deliver_failure(watchers->sessions, session, request_id, KV_IO,
                               SESSION_SEGMENT_IS_BROKEN);
    }
    struct kv_slice message = reply_finish(reply);
    sent = deliver_reply(watchers->sessions, watchers->budget, session, message, reply->extended);
    execution_context_trim(context, context->reply, message.size);
    execution_context_trim(context, context->outgoing, reply->scratch_used);
    return sent;
}

/* False: it is answered, or its session is no more. */
static bool run_again(struct watchers *watchers, struct execution_context *context,
                      struct watcher *watcher)
{
    struct session *session =
        session_acquire(watchers->sessions, watcher->session, watcher->cookie);
    if (!session)
        return false;
    struct read_cursor operations = read_cursor(watcher->operation, watcher->operation_bytes);
    struct reply reply;
    const char *sentence = "";
    context->received_ns = clock_monotonic_ns();
    context->waiting = watcher->operation + watcher->positions_at;
    context->waiting_ends = clock_monotonic_coarse_ms() >= watcher->until_ms;
    context->waits_on = false;
    enum kv_status status =
        watchers->execute(context, session, &watcher->request, &operations, &reply, &sentence);
    bool waits_on = status == KV_OK && context->waits_on;
    size_t sent = 0;
    if (waits_on)
        reply_abandon(&reply);
    else if (status == KV_OK)
        sent = send_watcher_reply(watchers, context, session, &reply, watcher->request.request_id);
    else
        sent = deliver_failure(watchers->sessions, session, watcher->request.request_id, status,
                               sentence);
    statistics_add(&watchers->statistics->bytes_out, sent);
    session_release(watchers->sessions, session);
    return waits_on;
}

static bool client_is_there(struct watchers *watchers, const struct watcher *watcher)
{
    struct session *session =
        session_acquire(watchers->sessions, watcher->session, watcher->cookie);
    if (session)
        session_release(watchers->sessions, session);
    return session != NULL;
}

/* Looks at each request that waits, once. */
static void go_round(struct watchers *watchers, struct execution_context *context, bool changed)
{
    for (uint32_t file = 0; changed && file < kvstore_datafiles(watchers->store); file++)
        kvstore_await_change(watchers->store, file);
    pthread_mutex_lock(&watchers->lock);
    struct watcher *list = watchers->first;
    watchers->first = NULL;
    pthread_mutex_unlock(&watchers->lock);
    while (list) {
        struct watcher *watcher = list;
        list = watcher->next;
        bool due = changed || clock_monotonic_coarse_ms() >= watcher->until_ms;
        bool stays =
            due ? run_again(watchers, context, watcher) : client_is_there(watchers, watcher);
        if (!stays) {
            drop_watcher(watchers, watcher);
            continue;
        }
        pthread_mutex_lock(&watchers->lock);
        watcher->next = watchers->first;
        watchers->first = watcher;
        pthread_mutex_unlock(&watchers->lock);
    }
}

/* The thread ----------------------------------------------------------------------------------- */

static void sleep_until_woken(struct watchers *watchers)
{
    if (watchers_waiting(watchers) == 0) {
        while (sem_wait(&watchers->wakes) != 0 && errno == EINTR)
            ;
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (sem_clockwait(&watchers->wakes, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
        ;
}

static void *watch_thread(void *argument)
{
    struct watchers *watchers = argument;
    pthread_setname_np(pthread_self(), "serverk/watch");
    while (!atomic_load(&watchers->stop)) {
        sleep_until_woken(watchers);
        uint64_t began_ns = clock_monotonic_ns();
        bool changed = atomic_exchange(&watchers->changed, false);
        if (!atomic_load(&watchers->stop))
            go_round(watchers, &watchers->context, changed);
        uint64_t worked_ns = clock_monotonic_ns() - began_ns;
        struct timespec rest = {.tv_nsec =
                                    (long)(worked_ns < REST_MAX_NS ? worked_ns : REST_MAX_NS)};
        if (changed)
            nanosleep(&rest, NULL);
    }
    return NULL;
}

/* Makes the context, and starts the thread, unless it runs. Holds: lock. */
static enum kv_status start_watch_thread(struct watchers *watchers)
{
    sigset_t all, before;
    KV_ASSERT(mutex_is_held(&watchers->lock));
    if (watchers->started)
        return KV_OK;
    if (!execution_context_init(&watchers->context, watchers->store, watchers->budget))
        return KV_NO_MEMORY;
    watchers->context.live = watchers->live;
    watchers->context.runners = watchers->runners;
    watchers->context.statistics = watchers->statistics;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard */
    sigdelset(&all, SIGSYS); /* syscall_filter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watchers->started = pthread_create(&watchers->thread, NULL, watch_thread, watchers) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!watchers->started)
        execution_context_free(&watchers->context);
    return watchers->started ? KV_OK : KV_LIMIT;
}

void watchers_stop(struct watchers *watchers)
{
    if (!watchers)
        return;
    pthread_mutex_lock(&watchers->lock);
    bool started = watchers->started;
    pthread_mutex_unlock(&watchers->lock);
    atomic_store(&watchers->stop, true);
    sem_post(&watchers->wakes);
    if (started) {
        pthread_join(watchers->thread, NULL);
        execution_context_free(&watchers->context);
    }
    watchers->started = false;
}

/* Taking --------------------------------------------------------------------------------------- */

static struct watcher *make_watcher(const struct session *session,
                                    const struct wire_header *request,
                                    const struct wire_operation *operation,
                                    struct kv_slice positions)
{
    struct wire_operation again = *operation;
    again.value = positions;
    again.flags &= (uint16_t)~WIRE_VALUE_IN_SEGMENT;
    size_t size = wire_operation_size(&again);
    struct watcher *made = malloc(sizeof *made + size);
    if (!made)
        return NULL;
    uint32_t wait_ms = operation->limit < WIRE_WATCH_MAX_MS ? operation->limit : WIRE_WATCH_MAX_MS;
    *made = (struct watcher){.session = session->id,
                             .cookie = session->cookie,
                             .uid = session->uid,
                             .until_ms = clock_monotonic_coarse_ms() + wait_ms,
                             .request = *request,
                             .bytes = sizeof *made + size,
                             .operation_bytes = size,
                             .positions_at = size - positions.size};
    made->request.deadline_ms = 0; /* it was in time */
    struct write_cursor cursor = write_cursor(made->operation, size);
    wire_put_operation(&cursor, &again);
    KV_ASSERT(write_cursor_left(&cursor) == 0 && made->positions_at <= size);
    return made;
}

enum kv_status watchers_take(struct watchers *watchers, const struct session *session,
                             const struct wire_header *request,
                             const struct wire_operation *operation, struct kv_slice positions,
                             uint64_t told_before)
{
    struct watcher *watcher = make_watcher(session, request, operation, positions);
    if (!watcher)
        return KV_NO_MEMORY;
    pthread_mutex_lock(&watchers->lock);
    bool is_first = watchers->places.count == 0;
    enum kv_status status = user_places_take(&watchers->places, watcher->uid, 1, watcher->bytes);
    if (status == KV_OK) {
        status = start_watch_thread(watchers);
        if (status != KV_OK)
            user_places_give_back(&watchers->places, watcher->uid, 1, watcher->bytes);
    }
    if (status == KV_OK) {
        watcher->next = watchers->first;
        watchers->first = watcher;
    }
    pthread_mutex_unlock(&watchers->lock);
    if (status != KV_OK)
        free(watcher);
    else if (is_first)
        sem_post(&watchers->wakes);
    if (status == KV_OK && watchers_told(watchers) != told_before)
        wake(watchers); /* the thread may have looked while the request was in no list */
    return status;
}
