/*
 * allocator_load: threads that allocate and free blocks of random sizes for a while, beside each
 * other and sometimes each other's; one CSV row on stdout.
 *
 *     allocator_load system|locked|thread-local THREADS SECONDS SEED [CROSS_PERCENT]
 *
 * LIVE_BLOCKS blocks of SMALLEST to LARGEST bytes, spread over all threads, are live at any time.
 * An operation frees a random one of the thread's own, or with CROSS_PERCENT (default 10) the one
 * that another thread left last in a random place of a common table, and allocates a new one. Its
 * first and last bytes are written when it is made and checked before it is freed.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/time/clock.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "mqkv/allocator.h"

#define LIVE_BLOCKS   2048u
#define SHARED_BLOCKS 64u
#define SMALLEST      32u
#define LARGEST       1024u
#define MAX_THREADS   256u

struct live_block {
    size_t bytes;
    uint64_t stamp; /* the same at the end of the block */
};

static const struct allocator *allocator;
static atomic_bool stopped;
static _Atomic(struct live_block *) shared[SHARED_BLOCKS];

struct allocator_worker {
    pthread_t thread;
    struct random_state random;
    uint64_t cross_percent;
    size_t blocks;
    struct live_block *live[LIVE_BLOCKS];
    uint64_t operations;
};

static const struct allocator *find_allocator(const char *name)
{
    static const struct allocator *const all[] = {&kv_allocator_system, &kv_allocator_locked,
                                                  &kv_allocator_thread_local};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]->name) == 0)
            return all[i];
    return NULL;
}

static uint64_t *end_stamp(struct live_block *block)
{
    return (uint64_t *)((char *)block + block->bytes - sizeof(uint64_t));
}

static struct live_block *make_block(struct random_state *random)
{
    size_t bytes = (SMALLEST + random_below(random, LARGEST - SMALLEST + 1)) & ~(size_t)7;
    struct live_block *block = allocator->allocate(bytes);
    if (!block)
        err(4, "%s: %zu bytes", allocator->name, bytes);
    block->bytes = bytes;
    block->stamp = *end_stamp(block) = (uintptr_t)block * 31 + bytes;
    return block;
}

static void release_block(struct live_block *block)
{
    if (!block)
        return;
    if (block->stamp != (uintptr_t)block * 31 + block->bytes || *end_stamp(block) != block->stamp)
        errx(4, "%s: a block was overwritten while it was live", allocator->name);
    block->stamp = 0;
    allocator->release(block);
}

static void *work(void *argument)
{
    struct allocator_worker *worker = argument;
    for (size_t i = 0; i < worker->blocks; i++)
        worker->live[i] = make_block(&worker->random);
    while (!atomic_load_explicit(&stopped, memory_order_relaxed)) {
        struct live_block **place = &worker->live[random_below(&worker->random, worker->blocks)];
        struct live_block *old = *place;
        if (random_below(&worker->random, 100) < worker->cross_percent)
            old = atomic_exchange(&shared[random_below(&worker->random, SHARED_BLOCKS)], old);
        release_block(old);
        *place = make_block(&worker->random);
        worker->operations++;
    }
    return NULL;
}

/* Of jemalloc, where it is preloaded: the statistics of `system` are glibc's. */
extern int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
    __attribute__((weak));

static size_t ask_jemalloc(const char *name)
{
    size_t number = 0, number_bytes = sizeof number;
    return mallctl(name, &number, &number_bytes, NULL, 0) == 0 ? number : 0;
}

static struct allocator_statistics take_statistics(void)
{
    struct allocator_statistics statistics;
    allocator->statistics(&statistics);
    if (allocator == &kv_allocator_system && mallctl) {
        uint64_t epoch = 1;
        mallctl("epoch", NULL, NULL, &epoch, sizeof epoch); /* its figures are of this moment */
        statistics.segment_bytes = ask_jemalloc("stats.mapped");
        statistics.free_bytes = statistics.segment_bytes - ask_jemalloc("stats.allocated");
    }
    return statistics;
}

static uint64_t peak_memory_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss;
}

int main(int argc, char **argv)
{
    uint64_t threads, seed, cross_percent = 10;
    double seconds = 0;
    if (argc < 5 || argc > 6 || !(allocator = find_allocator(argv[1])) ||
        !parse_u64(argv[2], 1, MAX_THREADS, &threads) ||
        !parse_double(argv[3], 0.001, 1e6, &seconds) || !parse_u64(argv[4], 0, UINT64_MAX, &seed) ||
        (argc == 6 && !parse_u64(argv[5], 0, 100, &cross_percent)))
        errx(2, "usage: allocator_load system|locked|thread-local THREADS SECONDS SEED "
                "[CROSS_PERCENT]");
    struct allocator_worker *workers = calloc(threads, sizeof *workers);
    if (!workers)
        err(4, "calloc");
    uint64_t start_ns = clock_monotonic_ns();
    for (uint64_t i = 0; i < threads; i++) {
        random_seed(&workers[i].random, seed * MAX_THREADS + i);
        workers[i].cross_percent = cross_percent;
        workers[i].blocks = LIVE_BLOCKS / threads;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(4, "cannot start a thread");
    }
    clock_sleep_ms((uint64_t)(seconds * 1000));
    /* Before the threads end: afterwards their lists would be one. */
    struct allocator_statistics statistics = take_statistics();
    atomic_store(&stopped, true);
    uint64_t operations = 0;
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        operations += workers[i].operations;
    }
    double elapsed_s = (double)(clock_monotonic_ns() - start_ns) / 1e9;
    if (!allocator->is_sound())
        errx(4, "%s: the free lists are damaged", allocator->name);
    puts("allocator,ops,seconds,ops_per_s,execution_s_per_million,data_segment_bytes,free_bytes,"
         "free_blocks,peak_memory_kib");
    printf("%s,%" PRIu64 ",%.6f,%.1f,%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
           allocator->name, operations, elapsed_s, (double)operations / elapsed_s,
           elapsed_s * 1e6 / (double)(operations > 0 ? operations : 1), statistics.segment_bytes,
           statistics.free_bytes, statistics.free_blocks, peak_memory_kib());
    free(workers);
    return 0;
}
