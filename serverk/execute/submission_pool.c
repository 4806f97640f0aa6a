#include "serverk/execute/submission_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/execute/user_places.h"

/* The number of buffers for replies that are kept. */
#define KEPT_BUFFERS 64u

/* The memory that stays with a buffer that was used. */
#define KEPT_BYTES (64u << 10)

struct submissions {
    struct submission_services services;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t drained;
    struct user_places under_way;
    uint8_t *buffers[KEPT_BUFFERS];
    unsigned kept;
    struct worker_statistics statistics;
};

struct submissions *submissions_create(struct store_engine *engine, struct session_table *sessions,
                                       struct fragment_budget *budget, stats_writer write_stats,
                                       const void *stats_context)
{
    struct submissions *all = aligned_alloc(_Alignof(struct submissions), sizeof *all);
    if (!all)
        return NULL;
    memset(all, 0, sizeof *all);
    all->services = (struct submission_services){.engine = engine,
                                                 .sessions = sessions,
                                                 .budget = budget,
                                                 .write_stats = write_stats,
                                                 .stats_context = stats_context,
                                                 .buffer_bytes = budget->message_max_bytes};
    all->under_way =
        (struct user_places){.max_count = SUBMISSIONS_MAX, .max_bytes = SUBMISSIONS_MAX_BYTES};
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->drained, NULL);
    return all;
}

void submissions_free(struct submissions *all)
{
    if (!all)
        return;
    KV_ASSERT(all->under_way.count == 0 && all->under_way.bytes == 0);
    while (all->kept > 0)
        munmap(all->buffers[--all->kept], all->services.buffer_bytes);
    pthread_cond_destroy(&all->drained);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

void submissions_drain(struct submissions *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    while (all->under_way.count > 0)
        pthread_cond_wait(&all->drained, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

uint64_t submissions_under_way(struct submissions *all)
{
    if (!all)
        return 0;
    pthread_mutex_lock(&all->lock);
    uint64_t under_way = all->under_way.count;
    pthread_mutex_unlock(&all->lock);
    return under_way;
}

void submissions_set_admin(struct submissions *all, admin_runner run_admin, void *context)
{
    all->services.run_admin = run_admin;
    all->services.admin_context = context;
}

const struct submission_services *submissions_services(const struct submissions *all)
{
    return &all->services;
}

/* Memory --------------------------------------------------------------------------------------- */

static bool take_submission_place(struct submissions *all, uid_t uid, unsigned count, size_t bytes)
{
    pthread_mutex_lock(&all->lock);
    bool taken = user_places_take(&all->under_way, uid, count, bytes) == KV_OK;
    pthread_mutex_unlock(&all->lock);
    return taken;
}

static void give_place_back(struct submissions *all, uid_t uid, unsigned count, size_t bytes)
{
    pthread_mutex_lock(&all->lock);
    user_places_give_back(&all->under_way, uid, count, bytes);
    if (all->under_way.count == 0)
        pthread_cond_broadcast(&all->drained);
    pthread_mutex_unlock(&all->lock);
}

bool submissions_admit(struct submissions *all, uid_t uid, size_t bytes)
{
    return take_submission_place(all, uid, 1, bytes);
}

void submissions_dismiss(struct submissions *all, uid_t uid, size_t bytes)
{
    give_place_back(all, uid, 1, bytes);
}

bool submissions_add_bytes(struct submissions *all, uid_t uid, size_t bytes)
{
    return take_submission_place(all, uid, 0, bytes);
}

void submissions_release_bytes(struct submissions *all, uid_t uid, size_t bytes)
{
    give_place_back(all, uid, 0, bytes);
}

uint8_t *submissions_take_buffer(struct submissions *all)
{
    uint8_t *buffer = NULL;
    pthread_mutex_lock(&all->lock);
    if (all->kept > 0)
        buffer = all->buffers[--all->kept];
    pthread_mutex_unlock(&all->lock);
    if (buffer)
        return buffer;
    buffer = mmap(NULL, all->services.buffer_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return buffer == MAP_FAILED ? NULL : buffer;
}

void submissions_give_buffer(struct submissions *all, uint8_t *buffer, size_t used_bytes)
{
    if (!buffer)
        return;
    if (used_bytes > KEPT_BYTES)
        madvise(buffer, all->services.buffer_bytes, MADV_DONTNEED);
    pthread_mutex_lock(&all->lock);
    bool keep = all->kept < KEPT_BUFFERS;
    if (keep)
        all->buffers[all->kept++] = buffer;
    KV_ASSERT(all->kept <= KEPT_BUFFERS);
    pthread_mutex_unlock(&all->lock);
    if (!keep)
        munmap(buffer, all->services.buffer_bytes);
}

/* Counts --------------------------------------------------------------------------------------- */

void submissions_statistics(struct submissions *all, struct worker_statistics *sum)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    statistics_sum(sum, &all->statistics, 1);
    pthread_mutex_unlock(&all->lock);
}

static void count_submissions(struct submissions *all, uint64_t *counter, uint64_t number)
{
    pthread_mutex_lock(&all->lock);
    statistics_add(counter, number);
    pthread_mutex_unlock(&all->lock);
}

void submissions_count_status(struct submissions *all, enum kv_status status)
{
    count_submissions(all, &all->statistics.statuses[status], 1);
}

void submissions_count_brought(struct submissions *all, size_t bytes)
{
    count_submissions(all, &all->statistics.bytes_in, bytes);
}

void submissions_count_result(struct submissions *all, enum wire_opcode opcode,
                              enum kv_status status)
{
    struct worker_statistics *counted = &all->statistics;
    pthread_mutex_lock(&all->lock);
    statistics_add(&counted->operations[opcode], 1);
    statistics_add(&counted->statuses[status], 1);
    if (opcode == WIRE_OP_GET || opcode == WIRE_OP_EXISTS)
        statistics_add(status == KV_NOT_FOUND ? &counted->misses : &counted->hits, 1);
    pthread_mutex_unlock(&all->lock);
}

void submissions_count_request(struct submissions *all, unsigned kind, size_t sent_bytes,
                               uint64_t received_ns, uint64_t ready_ns)
{
    struct worker_statistics *counted = &all->statistics;
    pthread_mutex_lock(&all->lock);
    statistics_add(&counted->messages, 1);
    statistics_add(&counted->bytes_out, sent_bytes);
    histogram_record(&counted->work[kind], ready_ns - received_ns);
    histogram_record(&counted->stages[STAGE_REPLY], clock_monotonic_ns() - ready_ns);
    pthread_mutex_unlock(&all->lock);
}
