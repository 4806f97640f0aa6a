#include "kvstore/maintenance/compaction_queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/core/thread.h"
#include "kvstore/format/sizes.h"

/* How long a file is left alone after a compaction: REST_FACTOR times what it took, at least
 * REST_MIN_MS. */
#define REST_FACTOR 3u
#define REST_MIN_MS UINT64_C(1000)

/* The same after a failure: 10 s, doubled with each further failure up to 11 minutes. */
#define RETRY_FIRST_MS      UINT64_C(10000)
#define RETRY_MAX_DOUBLINGS 6u

/* How long a file is left alone whose dead bytes are in use. */
#define FREE_EXTENTS_REST_MS UINT64_C(1000)

/* What a compaction of such a file gives back at least, in compact_min_bytes. */
#define FREE_EXTENTS_GAIN 4u

/* The shortest time between two looks at all files for lack of room. */
#define ROOM_EVERY_MS UINT64_C(1000)

/* A log smaller than a block of the disk gives nothing back. */
#define ROOM_MIN_BYTES PAGE_BYTES

/* How much of a log must be dead for a compaction if entries can be evicted and the disk is
 * full. */
#define ROOM_DEAD_PERCENT 25u

#define NS_PER_MS UINT64_C(1000000)

/* What the queue knows of a data file. */
struct queued_file {
    bool wanted;
    bool is_urgent; /* also if what is dead is in use again soon */
    uint32_t failures_in_a_row;
    uint64_t not_before_ns;
};

/* A call that waits; lies on its caller's stack. */
struct compaction_request {
    uint32_t number;
    bool done;
    enum kv_status status;
    struct kv_error *error;
    struct compaction_request *next;
};

/* Covered by the mutex. */
struct compaction_queue {
    const struct store_context *context;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_cond_t request_done;
    bool stop;
    uint32_t wanted_count;
    uint32_t next_number; /* where the search for a wanted file begins */
    bool running;         /* a compaction was given out and has not ended */
    bool woken;           /* compaction_queue_wake was called since something was given out */
    bool room_wanted;
    uint64_t room_not_before_ns;
    struct queued_file *files;           /* one for each data file */
    struct compaction_request *requests; /* first in, first out */
};

struct compaction_queue *compaction_queue_create(const struct store_context *context)
{
    struct compaction_queue *queue = calloc(1, sizeof *queue);
    struct queued_file *files = calloc(context->datafiles, sizeof *files);
    if (!queue || !files) {
        free(queue);
        free(files);
        return NULL;
    }
    queue->context = context;
    queue->files = files;
    pthread_mutex_init(&queue->mutex, NULL);
    thread_condition_init(&queue->work);
    pthread_cond_init(&queue->request_done, NULL);
    return queue;
}

void compaction_queue_free(struct compaction_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->request_done);
    pthread_mutex_destroy(&queue->mutex);
    KV_ASSERT(!queue->requests && !queue->running);
    free(queue->files);
    free(queue);
}

uint64_t compaction_gain(const struct store_context *context, uint32_t number, uint64_t *copy_bytes)
{
    lockset_read_lock(context->locks, number);
    const struct datafile *file = &context->files[number];
    uint64_t dead_bytes = generation_dead_bytes(file->current);
    uint64_t log_bytes = file->current->log.tail - FILE_HEADER_BYTES;
    bool worth = !datafile_is_read_only(file) && dead_bytes * 100 >= log_bytes * ROOM_DEAD_PERCENT;
    *copy_bytes = generation_copy_bytes(file->current);
    lockset_read_unlock(context->locks, number);
    return worth ? dead_bytes : 0;
}

/* Wanting -------------------------------------------------------------------------------------- */

/* Holds: mutex. */
static void set_wanted(struct compaction_queue *queue, uint32_t number, bool wanted)
{
    KV_ASSERT(mutex_is_held(&queue->mutex) && number < queue->context->datafiles);
    queue->wanted_count += wanted && !queue->files[number].wanted;
    queue->wanted_count -= !wanted && queue->files[number].wanted;
    queue->files[number].wanted = wanted;
    KV_ASSERT(queue->wanted_count <= queue->context->datafiles);
}

void compaction_queue_want(struct compaction_queue *queue, uint32_t number)
{
    pthread_mutex_lock(&queue->mutex);
    set_wanted(queue, number, true);
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

void compaction_queue_want_now(struct compaction_queue *queue, uint32_t number)
{
    pthread_mutex_lock(&queue->mutex);
    set_wanted(queue, number, true);
    queue->files[number].is_urgent = true;
    queue->files[number].not_before_ns = 0;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

void compaction_queue_want_room(struct compaction_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    if (!queue->room_wanted)
        pthread_cond_signal(&queue->work);
    queue->room_wanted = true;
    pthread_mutex_unlock(&queue->mutex);
}

enum kv_status compaction_queue_call(struct compaction_queue *queue, uint32_t number,
                                     struct kv_error *error)
{
    struct compaction_request request = {.number = number, .error = error};
    pthread_mutex_lock(&queue->mutex);
    struct compaction_request **last = &queue->requests;
    while (*last)
        last = &(*last)->next;
    *last = &request;
    pthread_cond_signal(&queue->work);
    while (!request.done)
        pthread_cond_wait(&queue->request_done, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
    return request.status;
}

void compaction_queue_wake(struct compaction_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->woken = true;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

bool compaction_queue_await(struct compaction_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    bool running = queue->running;
    while (queue->running)
        pthread_cond_wait(&queue->request_done, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
    return running;
}

/* Giving out ----------------------------------------------------------------------------------- */

/* Returns the next wanted file whose time has come, or D if there is none; *wake_ns: when the first
 * of the others is due, UINT64_MAX if none is wanted. Holds: mutex. */
static uint32_t next_wanted(const struct compaction_queue *queue, uint64_t *wake_ns)
{
    KV_ASSERT(mutex_is_held(&queue->mutex));
    uint32_t datafiles = queue->context->datafiles;
    uint64_t now_ns = clock_monotonic_ns();
    *wake_ns = UINT64_MAX;
    for (uint32_t i = 0; queue->wanted_count > 0 && i < datafiles; i++) {
        uint32_t number = (queue->next_number + i) % datafiles;
        const struct queued_file *file = &queue->files[number];
        if (!file->wanted)
            continue;
        if (file->not_before_ns <= now_ns)
            return number;
        if (file->not_before_ns < *wake_ns)
            *wake_ns = file->not_before_ns;
    }
    return datafiles;
}

/* Queues the file with most dead bytes, if it has enough. */
static void want_deadest(struct compaction_queue *queue)
{
    const struct store_context *context = queue->context;
    uint64_t most_bytes = 0;
    uint32_t deadest = 0;
    for (uint32_t number = 0; number < context->datafiles; number++) {
        uint64_t copy_bytes, bytes = compaction_gain(context, number, &copy_bytes);
        if (bytes <= most_bytes)
            continue;
        most_bytes = bytes;
        deadest = number;
    }
    if (most_bytes > 0 && context->options.compact_dead_percent < 100)
        compaction_queue_want_now(queue, deadest);
}

/* Finds files that are worth compacting when room is short. Holds: mutex, released meanwhile. */
static void look_for_room(struct compaction_queue *queue)
{
    const struct store_context *context = queue->context;
    queue->room_wanted = false;
    queue->room_not_before_ns = clock_monotonic_ns() + ROOM_EVERY_MS * NS_PER_MS;
    pthread_mutex_unlock(&queue->mutex);
    if (context->options.evict != KVSTORE_EVICT_NONE)
        want_deadest(queue);
    for (uint32_t number = 0; number < context->datafiles; number++) {
        lockset_write_lock(context->locks, number);
        compaction_queue_consider(queue, &context->files[number], &context->options,
                                  ROOM_MIN_BYTES);
        lockset_write_unlock(context->locks, number);
    }
    pthread_mutex_lock(&queue->mutex);
    for (uint32_t number = 0; number < context->datafiles; number++)
        queue->files[number].is_urgent |= queue->files[number].wanted;
}

/* Whether what is dead in the file's log is worth a compaction, without extents that are about to
 * get another content. Each entry has at most two: one that a sync has promised, and one that the
 * next has. More are there since they fit little of what is written. A compaction takes them all
 * away, so it is to give back more where there are some. Takes the file's lock. */
static bool is_worth_now(const struct store_context *context, uint32_t number)
{
    lockset_write_lock(context->locks, number);
    const struct generation *current = context->files[number].current;
    uint64_t dead_bytes = generation_dead_bytes(current);
    uint64_t spare_bytes = at_most(free_extents_bytes_in_use(&current->free_extents), dead_bytes);
    spare_bytes = at_most(spare_bytes, 2 * current->words->live_bytes);
    uint64_t log_bytes = current->log.tail - FILE_HEADER_BYTES - spare_bytes;
    lockset_write_unlock(context->locks, number);
    const struct kvstore_options *options = &context->options;
    uint64_t gain_bytes = dead_bytes - spare_bytes;
    return spare_bytes == 0 || (gain_bytes / FREE_EXTENTS_GAIN >= options->compact_min_bytes &&
                                gain_bytes * 100 >= log_bytes * options->compact_dead_percent);
}

/* Takes a file whose time has come out of the queue. False: it stays there for a while, since its
 * dead bytes are in use. Holds: mutex, released meanwhile. */
static bool take_wanted(struct compaction_queue *queue, uint32_t number)
{
    struct queued_file *file = &queue->files[number];
    bool is_urgent = file->is_urgent;
    pthread_mutex_unlock(&queue->mutex);
    bool is_due = is_urgent || is_worth_now(queue->context, number);
    pthread_mutex_lock(&queue->mutex);
    if (is_due || file->is_urgent) {
        set_wanted(queue, number, false);
        file->is_urgent = false;
        return true;
    }
    file->not_before_ns = clock_monotonic_ns() + FREE_EXTENTS_REST_MS * NS_PER_MS;
    return false;
}

/* Holds: mutex, released while it sleeps. */
static void queue_sleep_until(struct compaction_queue *queue, uint64_t wake_ns)
{
    if (queue->room_wanted && queue->room_not_before_ns < wake_ns)
        wake_ns = queue->room_not_before_ns;
    if (wake_ns < UINT64_MAX)
        thread_wait_until(&queue->work, &queue->mutex, wake_ns);
    else
        pthread_cond_wait(&queue->work, &queue->mutex);
}

/* Takes a file whose time has come into *next, or none; false after a sleep: the caller tries
 * again. Holds: mutex, released meanwhile. */
static bool take_wanted_or_wait(struct compaction_queue *queue, uint64_t until_ns,
                                struct compaction *next)
{
    if (queue->room_wanted && queue->room_not_before_ns <= clock_monotonic_ns()) {
        look_for_room(queue);
        *next = (struct compaction){.is_none = true};
        return true;
    }
    uint64_t wake_ns;
    uint32_t number = next_wanted(queue, &wake_ns);
    if (number == queue->context->datafiles) {
        if (queue->woken || clock_monotonic_ns() >= until_ns) {
            queue->woken = false;
            *next = (struct compaction){.is_none = true};
            return true;
        }
        queue_sleep_until(queue, wake_ns < until_ns ? wake_ns : until_ns);
        return false;
    }
    queue->next_number = number + 1;
    *next = (struct compaction){.number = number};
    return take_wanted(queue, number);
}

/* Holds: mutex. */
static void request_answer(struct compaction_queue *queue, struct compaction_request *request,
                           enum kv_status status, const struct kv_error *error)
{
    KV_ASSERT(mutex_is_held(&queue->mutex) && !request->done);
    request->status = status;
    if (request->error)
        *request->error = *error;
    request->done = true;
    pthread_cond_broadcast(&queue->request_done);
}

bool compaction_queue_next(struct compaction_queue *queue, uint64_t until_ns,
                           struct compaction *next)
{
    bool taken = false;
    pthread_mutex_lock(&queue->mutex);
    KV_ASSERT(!queue->running);
    while (!taken && !queue->stop) {
        if (queue->requests) {
            *next =
                (struct compaction){.number = queue->requests->number, .request = queue->requests};
            queue->requests = queue->requests->next;
            set_wanted(queue, next->number, false);
            taken = true;
        } else {
            taken = take_wanted_or_wait(queue, until_ns, next);
        }
    }
    queue->running = taken && !next->is_none;
    struct kv_error error = {0};
    kv_error_set(&error, KV_BUSY, "the store is being closed");
    while (!taken && queue->requests) {
        struct compaction_request *request = queue->requests;
        queue->requests = request->next;
        request_answer(queue, request, KV_BUSY, &error);
    }
    pthread_mutex_unlock(&queue->mutex);
    return taken;
}

void compaction_queue_answer(struct compaction_queue *queue, struct compaction_request *request,
                             enum kv_status status, const struct kv_error *error)
{
    pthread_mutex_lock(&queue->mutex);
    request_answer(queue, request, status, error);
    pthread_mutex_unlock(&queue->mutex);
}

/* Returns how long the file is left alone. After a success the rest is long enough that compactions
 * take a small part of the time, however fast the file is overwritten. */
static uint64_t rest_ns(struct queued_file *file, enum kv_status status, uint64_t took_ns)
{
    if (status == KV_OK) {
        file->failures_in_a_row = 0;
        return at_least(took_ns * REST_FACTOR, REST_MIN_MS * NS_PER_MS);
    }
    uint64_t wait_ms = RETRY_FIRST_MS << file->failures_in_a_row;
    if (file->failures_in_a_row < RETRY_MAX_DOUBLINGS)
        file->failures_in_a_row++;
    return wait_ms * NS_PER_MS;
}

void compaction_queue_finish(struct compaction_queue *queue, uint32_t number, enum kv_status status,
                             uint64_t took_ns)
{
    struct queued_file *file = &queue->files[number];
    pthread_mutex_lock(&queue->mutex);
    KV_ASSERT(queue->running);
    uint64_t rest = rest_ns(file, status, took_ns);
    if (!file->wanted) /* else it was asked for meanwhile, and is due */
        file->not_before_ns = clock_monotonic_ns() + rest;
    queue->running = false;
    pthread_cond_broadcast(&queue->request_done);
    pthread_mutex_unlock(&queue->mutex);
}

void compaction_queue_stop(struct compaction_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->stop = true;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

bool compaction_queue_is_stopped(struct compaction_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    bool stopped = queue->stop;
    pthread_mutex_unlock(&queue->mutex);
    return stopped;
}
