#include "bridges/cluster/natskv/nats_key_queue.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_key_run.h"

#define CHAINS 4096u

struct key_queues {
    struct nats_engine *engine;
    pthread_mutex_t lock; /* covers the chains, and the operations that wait in each queue */
    struct key_queue *chains[CHAINS];
};

struct key_queues *nats_key_queues_create(struct nats_engine *engine)
{
    struct key_queues *queues = calloc(1, sizeof *queues);
    if (!queues)
        return NULL;
    queues->engine = engine;
    pthread_mutex_init(&queues->lock, NULL);
    return queues;
}

void nats_key_queues_free(struct key_queues *queues)
{
    if (!queues)
        return;
    pthread_mutex_destroy(&queues->lock);
    free(queues);
}

/* Turns ---------------------------------------------------------------------------------------- */

static struct key_queue **find_key_queue(struct key_queues *queues, const char *subject,
                                         uint64_t hash)
{
    struct key_queue **link = &queues->chains[hash % CHAINS];
    while (*link && strcmp((*link)->subject, subject) != 0)
        link = &(*link)->next;
    return link;
}

static bool is_read(const struct engine_operation *operation)
{
    return operation->opcode == ENGINE_GET || operation->opcode == ENGINE_EXISTS;
}

/* Returns true if the operation can travel with those of the run. */
static bool fits(const struct key_queue *queue, const struct engine_operation *operation)
{
    return queue->run_count == 0 ||
           (queue->run_count < NATSKV_FOLD && is_read(operation) == queue->reads);
}

/* Makes a run of the operations at the front that can go together. The most patient of them says
 * how long the run may take, but never longer than servers remember message ids. Returns those
 * whose deadline came while they waited: they are in no run. The run may be empty then. */
static struct engine_operation *take_run(struct key_queue *queue)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    struct engine_operation *late = NULL, **late_end = &late, **run_end = &queue->run;
    queue->run = NULL;
    queue->run_count = queue->tries = 0;
    queue->deadline_ms = 0;
    while (queue->first) {
        struct engine_operation *operation = queue->first;
        bool is_late = operation->deadline_ms <= now_ms;
        if (!is_late && !fits(queue, operation))
            break;
        queue->first = operation->next;
        operation->next = NULL;
        struct engine_operation ***end = is_late ? &late_end : &run_end;
        **end = operation;
        *end = &operation->next;
        if (is_late)
            continue;
        queue->reads = is_read(operation);
        queue->run_count++;
        if (operation->deadline_ms > queue->deadline_ms)
            queue->deadline_ms = operation->deadline_ms;
    }
    if (queue->deadline_ms > now_ms + NATS_PATIENCE_MS)
        queue->deadline_ms = now_ms + NATS_PATIENCE_MS;
    return late;
}

/* Begins the next run; removes the queue if nothing waits. Takes over the lock of the queues. */
static void begin_locked(struct key_queue *queue)
{
    struct key_queues *queues = queue->queues;
    struct engine_operation *late = take_run(queue);
    bool runs = queue->run_count > 0;
    if (!runs)
        *find_key_queue(queues, queue->subject, queue->hash) = queue->next;
    pthread_mutex_unlock(&queues->lock);
    /* Finishes operations that waited too long. A caller whose own deadline is further away (it was
     * the engine's patience that ended) should not wait again for the rest of its request:
     * operations on the key get no answer, or others write it all the time. */
    while (late) {
        struct engine_operation *next = late->next;
        late->next = NULL;
        nats_finish(late, late->bounded ? KV_NO_SERVER : KV_DEADLINE,
                    late->bounded ? NATS_NO_TURN : NULL);
        late = next;
    }
    if (runs)
        nats_key_run_begin(queue);
    else
        free(queue);
}

/* Begins the next run after one is over: key_queue.over. */
static void begin_next(struct key_queue *queue)
{
    pthread_mutex_lock(&queue->queues->lock);
    begin_locked(queue);
}

static struct key_queue *create_key_queue(struct key_queues *queues, const char *subject,
                                          uint32_t shard, uint64_t hash)
{
    size_t size = strlen(subject) + 1;
    struct key_queue *queue = calloc(1, sizeof *queue + size);
    if (!queue)
        return NULL;
    queue->queues = queues;
    queue->engine = queues->engine;
    queue->shard = shard;
    queue->hash = hash;
    queue->over = begin_next;
    memcpy(queue->subject, subject, size);
    return queue;
}

void nats_key_queues_take(struct key_queues *queues, struct engine_operation *operation,
                          uint32_t shard, const char *encoded)
{
    char subject[NATS_SUBJECT_BYTES];
    int size = snprintf(subject, sizeof subject, "$KV.%s_%" PRIu32 ".%s",
                        queues->engine->bucket.name, shard, encoded);
    uint64_t hash = XXH3_64bits(subject, (size_t)size);
    operation->next = NULL;
    nats_bound_deadline(operation); /* counted from now, however long the operation waits */
    pthread_mutex_lock(&queues->lock);
    struct key_queue **link = find_key_queue(queues, subject, hash);
    struct key_queue *queue = *link;
    bool idle = !queue;
    if (!queue)
        queue = *link = create_key_queue(queues, subject, shard, hash);
    if (queue) {
        struct engine_operation **end = queue->first ? &queue->last->next : &queue->first;
        *end = queue->last = operation;
    }
    if (queue && idle) {
        begin_locked(queue);
        return;
    }
    pthread_mutex_unlock(&queues->lock);
    if (!queue)
        nats_finish(operation, KV_NO_MEMORY, NULL);
}
