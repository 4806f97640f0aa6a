/*
 * bench_engine: what one call of the storage engine costs, without queues: random puts, gets and a
 * mix of both, with 1 and with T threads, and gets while a data file is compacted. The figures go
 * to docs/PERFORMANCE-TABLES.md.
 *
 *   bench_engine [KEYS [VALUE_BYTES [SECONDS [THREADS [LOCKING [DIRECT]]]]]]
 *   default       1000000 64 3 2 file-rwlock off
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/numbers/histogram.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "mqkv/kvstore.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"

#define MAX_THREADS     64
#define MAX_VALUE_BYTES 65536
#define KEY_BYTES       16
/* Clock reads would be a good part of what is measured: so many calls between two. */
#define CALLS_A_SAMPLE  32

static struct {
    uint64_t keys;
    uint64_t value_bytes;
    uint64_t seconds;
    uint64_t threads;
    enum kvstore_locking locking;
    enum kvstore_direct direct;
} settings = {1000000, 64, 3, 2, KVSTORE_FILE_RWLOCK, KVSTORE_DIRECT_OFF};

static struct kvstore *store;
static atomic_bool running;

struct engine_thread {
    pthread_t thread;
    uint64_t seed;
    unsigned put_percent;
    uint64_t calls;
    uint64_t cpu_ns;            /* of this thread: a busy machine does not change it much */
    struct histogram sample_ns; /* of CALLS_A_SAMPLE calls */
};

static void make_key(char key[KEY_BYTES + 1], uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = KEY_BYTES - 1; i >= 0; i--, number >>= 4)
        key[i] = digits[number & 15];
    key[KEY_BYTES] = '\0';
}

static void call_once(struct random_state *random, unsigned put_percent, char *value)
{
    char key[KEY_BYTES + 1];
    make_key(key, random_below(random, settings.keys));
    bool is_put = put_percent > 0 && random_below(random, 100) < put_percent;
    enum kv_status status =
        is_put ? kvstore_put(store, kv_slice(key, KEY_BYTES), kv_slice(value, settings.value_bytes),
                             NULL, NULL)
               : kvstore_get(store, kv_slice(key, KEY_BYTES), value, MAX_VALUE_BYTES, NULL);
    if (status != KV_OK) {
        fprintf(stderr, "bench_engine: %s\n", kv_status_text(status));
        exit(1);
    }
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *work(void *argument)
{
    struct engine_thread *worker = argument;
    struct random_state random;
    char *value = calloc(1, MAX_VALUE_BYTES);
    random_seed(&random, worker->seed);
    while (atomic_load_explicit(&running, memory_order_relaxed)) {
        uint64_t started_ns = clock_monotonic_ns();
        for (int i = 0; i < CALLS_A_SAMPLE; i++)
            call_once(&random, worker->put_percent, value);
        histogram_record(&worker->sample_ns, clock_monotonic_ns() - started_ns);
        worker->calls += CALLS_A_SAMPLE;
    }
    worker->cpu_ns = thread_cpu_ns();
    free(value);
    return NULL;
}

static void measure(const char *what, uint64_t threads, unsigned put_percent)
{
    static struct engine_thread workers[MAX_THREADS];
    memset(workers, 0, sizeof workers);
    atomic_store(&running, true);
    uint64_t started_ns = clock_monotonic_ns();
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].seed = i + 1;
        workers[i].put_percent = put_percent;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    clock_sleep_ms(settings.seconds * 1000);
    atomic_store(&running, false);
    uint64_t calls = 0, cpu_ns = 0;
    static struct histogram all;
    memset(&all, 0, sizeof all);
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        calls += workers[i].calls;
        cpu_ns += workers[i].cpu_ns;
        histogram_merge(&all, &workers[i].sample_ns);
    }
    double elapsed_s = (double)(clock_monotonic_ns() - started_ns) / 1e9;
    printf(
        "%-28s %llu threads %8.0f ns of CPU a call %7.2f million/s   %d calls: p50 %.1f p99 %.1f "
        "p99.9 %.1f max %.0f us\n",
        what, (unsigned long long)threads, (double)cpu_ns / (double)calls,
        (double)calls / elapsed_s / 1e6, CALLS_A_SAMPLE,
        (double)histogram_quantile_ns(&all, 0.5) / 1e3,
        (double)histogram_quantile_ns(&all, 0.99) / 1e3,
        (double)histogram_quantile_ns(&all, 0.999) / 1e3, (double)all.max_ns / 1e3);
    fflush(stdout);
}

static void fill(void)
{
    char key[KEY_BYTES + 1];
    char *value = calloc(1, MAX_VALUE_BYTES);
    uint64_t started_ns = thread_cpu_ns();
    for (uint64_t i = 0; i < settings.keys; i++) {
        make_key(key, i);
        if (kvstore_put(store, kv_slice(key, KEY_BYTES), kv_slice(value, settings.value_bytes),
                        NULL, NULL) != KV_OK)
            exit(1);
    }
    printf("%-28s 1 threads %8.0f ns of CPU a call\n", "put of new keys",
           (double)(thread_cpu_ns() - started_ns) / (double)settings.keys);
    free(value);
}

static void *keep_compacting(void *argument)
{
    struct kv_error error;
    uint32_t count = 0;
    (void)argument;
    for (; atomic_load(&running); count++)
        kvstore_compact(store, count % kvstore_datafiles(store), &error);
    return NULL;
}

static void measure_compacting(void)
{
    pthread_t compactor;
    atomic_store(&running, true);
    pthread_create(&compactor, NULL, keep_compacting, NULL);
    measure("get while compacting", 1, 0);
    pthread_join(compactor, NULL);
}

static void measure_restart(const char *dir)
{
    uint64_t started_ns = clock_monotonic_ns();
    must_close(store);
    uint64_t closed_ns = clock_monotonic_ns();
    store = must_open(dir, NULL);
    uint64_t opened_ns = clock_monotonic_ns();
    printf("close with checkpoint %.0f ms, open with it %.0f ms\n",
           (double)(closed_ns - started_ns) / 1e6, (double)(opened_ns - closed_ns) / 1e6);
}

static bool read_settings(int count, char **texts)
{
    uint64_t *const values[] = {&settings.keys, &settings.value_bytes, &settings.seconds,
                                &settings.threads};
    static const uint64_t limits[] = {1000000000, MAX_VALUE_BYTES, 3600, MAX_THREADS};
    for (int i = 0; i < count && i < 4; i++)
        if (!parse_u64(texts[i], 1, limits[i], values[i]))
            return false;
    if (count < 5)
        return true;
    while (settings.locking < KVSTORE_LOCKING_COUNT &&
           strcmp(texts[4], kvstore_locking_name(settings.locking)) != 0)
        settings.locking++;
    for (; count > 5 && settings.direct < KVSTORE_DIRECT_COUNT; settings.direct++)
        if (strcmp(texts[5], kvstore_direct_name(settings.direct)) == 0)
            break;
    return count <= 6 && settings.locking < KVSTORE_LOCKING_COUNT &&
           settings.direct < KVSTORE_DIRECT_COUNT;
}

int main(int argc, char **argv)
{
    if (!read_settings(argc - 1, argv + 1)) {
        fprintf(
            stderr,
            "usage: bench_engine [KEYS [VALUE_BYTES [SECONDS [THREADS [LOCKING [DIRECT]]]]]]\n");
        return 2;
    }
    char dir[STORE_DIR_BYTES];
    store_dir_make(dir);
    struct kvstore_options options = {
        .create = true, .locking = settings.locking, .direct = settings.direct};
    store = must_open(dir, &options);
    fill();
    measure("get", 1, 0);
    measure("get", settings.threads, 0);
    measure("95 % gets, 5 % puts", 1, 5);
    measure("95 % gets, 5 % puts", settings.threads, 5);
    measure("put", 1, 100);
    measure("put", settings.threads, 100);
    measure("half puts, half gets", settings.threads, 50);
    measure_compacting();
    measure_restart(dir);
    struct kvstore_file_statistics total = total_statistics(store);
    printf("index: %.1f bytes a key; %llu compactions failed\n",
           (double)total.index_bytes / (double)total.keys,
           (unsigned long long)total.compaction_failures);
    must_close(store);
    store_dir_remove(dir);
    return 0;
}
