#include "kvstore/maintenance/order_filler.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "kvstore/format/sizes.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "kvstore/core/thread.h"
#include "kvstore/table/datafile.h"
#include "kvstore/table/ordering.h"

/* Between two holds of a lock, so that whoever waits for it has it first. */
#define FILL_PAUSE_NS 2000

/* How much later than asked for the kernel may wake the thread; its default is 50 us. */
#define TIMER_SLACK_NS 1000

struct order_filler {
    const struct store_context *context;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    bool told;     /* guarded by the mutex */
    bool in_child; /* the mutex may be held for ever */
    atomic_bool stop;
};

/* After a failure nothing is tried for so long, and twice as long after each other one: asking for
 * ranges wakes the thread, and each try takes the locks of writers. */
#define FIRST_REST_MS UINT64_C(1000)
#define MOST_REST_MS  UINT64_C(60000)

/* False: it could not be filled. */
static bool fill_file(struct order_filler *filler, struct datafile *file, bool tells)
{
    const struct store_context *context = filler->context;
    const struct timespec pause = {.tv_nsec = FILL_PAUSE_NS};
    enum kv_status status = KV_OK;
    while (status == KV_OK && !atomic_load(&filler->stop) && !ordering_is_whole(file->ordering)) {
        lockset_write_lock(context->locks, file->number);
        status = ordering_fill(file->ordering, file->current);
        lockset_write_unlock(context->locks, file->number);
        nanosleep(&pause, NULL);
    }
    logfile_end(context->options.io);
    if (status != KV_OK && tells)
        log_warn("%s: the order of data file %u cannot be built: %s", context->dir, file->number,
                 kv_status_text(status));
    return status == KV_OK;
}

static bool all_are_whole(const struct store_context *context)
{
    bool whole = true;
    for (uint32_t number = 0; number < context->datafiles; number++)
        whole &= ordering_is_whole(context->files[number].ordering);
    return whole;
}

/* False: not all could be filled, of which the log is told if the caller wants it. */
static bool fill_all(struct order_filler *filler, bool tells)
{
    const struct store_context *context = filler->context;
    if (all_are_whole(context))
        return true;
    uint64_t began_ns = clock_monotonic_ns();
    bool filled = true;
    for (uint32_t number = 0; number < context->datafiles && filled; number++)
        filled = fill_file(filler, &context->files[number], tells);
    if (filled && !atomic_load(&filler->stop))
        log_info("%s: the order of all keys was built in %" PRIu64 " ms", context->dir,
                 (clock_monotonic_ns() - began_ns) / 1000000);
    return filled;
}

/* Rests for rest_ms, whoever wakes the thread, and then waits until it is told. */
static void rest_until_told(struct order_filler *filler, uint64_t rest_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + rest_ms * 1000000;
    pthread_mutex_lock(&filler->mutex);
    while (rest_ms > 0 && !atomic_load(&filler->stop) && clock_monotonic_ns() < until_ns)
        thread_wait_until(&filler->work, &filler->mutex, until_ns);
    while (!filler->told && !atomic_load(&filler->stop))
        pthread_cond_wait(&filler->work, &filler->mutex);
    filler->told = false;
    pthread_mutex_unlock(&filler->mutex);
}

static void *order_filler_thread(void *argument)
{
    struct order_filler *filler = argument;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    uint64_t rest_ms = 0;
    while (!atomic_load(&filler->stop)) {
        bool filled = fill_all(filler, rest_ms == 0);
        rest_ms = filled ? 0 : rest_ms == 0 ? FIRST_REST_MS : at_most(2 * rest_ms, MOST_REST_MS);
        rest_until_told(filler, rest_ms);
    }
    return NULL;
}

static void order_filler_deallocate(struct order_filler *filler)
{
    pthread_cond_destroy(&filler->work);
    pthread_mutex_destroy(&filler->mutex);
    free(filler);
}

enum kv_status order_filler_create(const struct store_context *context,
                                   struct order_filler **filler, struct kv_error *error)
{
    struct order_filler *created = calloc(1, sizeof *created);
    bool has_memory = created != NULL;
    for (uint32_t number = 0; number < context->datafiles && has_memory; number++) {
        struct datafile *file = &context->files[number];
        lockset_write_lock(context->locks, number); /* the sweeper may be at work */
        file->ordering = ordering_create(context->arena, &file->shared->order);
        has_memory = file->ordering != NULL;
        lockset_write_unlock(context->locks, number);
    }
    if (!has_memory) {
        free(created);
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    }
    created->context = context;
    pthread_mutex_init(&created->mutex, NULL);
    thread_condition_init(&created->work);
    int result = thread_start(&created->thread, "kv-order", order_filler_thread, created);
    if (result != 0) {
        order_filler_deallocate(created);
        return kv_error_set_no_thread(error, result, "%s: cannot start the thread of the order",
                                      context->dir);
    }
    *filler = created;
    return KV_OK;
}

void order_filler_in_child(struct order_filler *filler)
{
    filler->in_child = true;
}

void order_filler_wake(struct order_filler *filler)
{
    if (filler->in_child)
        return;
    pthread_mutex_lock(&filler->mutex);
    filler->told = true;
    pthread_cond_signal(&filler->work);
    pthread_mutex_unlock(&filler->mutex);
}

void order_filler_free(struct order_filler *filler)
{
    if (!filler)
        return;
    atomic_store(&filler->stop, true);
    order_filler_wake(filler);
    pthread_join(filler->thread, NULL);
    order_filler_deallocate(filler);
}
