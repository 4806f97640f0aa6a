#include "lab/dispatch/request_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "lab/dispatch/slots.h"
#include "serverk/dispatch/worker.h"

/* Enough for the deepest call; and so small that the C library keeps the stacks of 64 threads for
 * reuse (40 MiB, pthread_attr_setstacksize(3), glibc.pthread.stack_cache_size). */
#define STACK_BYTES (512u << 10)

struct request_thread {
    struct request_threads *threads;
    struct worker worker;
    size_t message_bytes; /* in worker.receiver.buffer */
    pthread_t thread;
    bool joinable; /* it was started, and not joined yet; the receiving thread's */
};

struct request_threads {
    const struct service *service;
    struct slots *slots;
    pthread_attr_t attributes;
    struct request_thread places[];
};

static void *serve_in_thread(void *argument)
{
    struct request_thread *place = argument;
    struct slots *slots = place->threads->slots;
    worker_handle(&place->worker, place->message_bytes);
    slots_release(slots, (unsigned)(place - place->threads->places));
    return NULL;
}

static void join_thread(struct request_thread *place)
{
    if (place->joinable)
        pthread_join(place->thread, NULL);
    place->joinable = false;
}

/* The pool's handler. */
static uint64_t start_request_thread(void *context, struct worker *front, size_t message_bytes)
{
    struct request_threads *threads = context;
    receiver_find_session(&front->receiver, message_bytes);
    struct request_thread *place = &threads->places[slots_take(threads->slots)];
    join_thread(place);
    KV_ASSERT(!place->joinable);
    worker_take_message(&place->worker, front);
    place->message_bytes = message_bytes;
    place->joinable =
        pthread_create(&place->thread, &threads->attributes, serve_in_thread, place) == 0;
    if (!place->joinable) {
        slots_count_taken_back(threads->slots);
        place->worker.nice.on = false; /* there would be no way back for threads to come */
        serve_in_thread(place);
    }
    return clock_monotonic_ns();
}

/* The pool's finish. */
static void wait_for_threads(void *context)
{
    struct request_threads *threads = context;
    slots_wait_all(threads->slots);
    for (unsigned i = 0; i < threads->service->options->workers; i++)
        join_thread(&threads->places[i]);
}

static void free_threads(void *context)
{
    struct request_threads *threads = context;
    for (unsigned i = 0; i < threads->service->options->workers; i++) {
        free(threads->places[i].worker.receiver.buffer);
        worker_free(&threads->places[i].worker);
    }
    pthread_attr_destroy(&threads->attributes);
    slots_free(threads->slots);
    free(threads);
}

/* The pool's put_stats. */
static void put_thread_stats(void *context, struct json *json)
{
    const struct request_threads *threads = context;
    slots_put_stats(threads->slots, json);
}

static bool set_up_place(struct request_threads *threads, unsigned number)
{
    const struct service *service = threads->service;
    struct request_thread *place = &threads->places[number];
    place->threads = threads;
    return worker_init(&place->worker, service, &service->statistics[1 + number]) &&
           worker_init_buffer(&place->worker);
}

enum kv_status request_threads_create(const struct service *service, struct pool_feed *feed,
                                      struct kv_error *error)
{
    unsigned count = service->options->workers;
    struct request_threads *threads =
        calloc(1, sizeof *threads + count * sizeof threads->places[0]);
    if (!threads)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory for %u threads (-w)", count);
    threads->service = service;
    threads->slots = slots_create(count);
    pthread_attr_init(&threads->attributes);
    pthread_attr_setstacksize(&threads->attributes, STACK_BYTES);
    for (unsigned i = 0; i < count; i++) {
        if (threads->slots && set_up_place(threads, i))
            continue;
        free_threads(threads);
        return kv_error_set(error, KV_NO_MEMORY,
                            "out of memory for %u threads (-w): each reserves address space for "
                            "three of the largest values (--max-value); ulimit -v bounds it",
                            count);
    }
    *feed = (struct pool_feed){.context = threads,
                               .handle = start_request_thread,
                               .finish = wait_for_threads,
                               .put_stats = put_thread_stats,
                               .free = free_threads};
    return KV_OK;
}
