/*
 * range_load: YCSB's workload E (Cooper, Silberstein, Tam, Ramakrishnan, Sears: Benchmarking Cloud
 * Serving Systems with YCSB, SoCC 2010): 95 of 100 operations read a range of 1 to 100 entries,
 * from a key on that is drawn zipfian; 5 put a new key. The store is filled first. A range that is
 * not in order, or gives nothing, is an error. A CSV header and one row on stdout.
 *
 *     range_load SYSTEM ADDRESS KEYS VALUE_BYTES THREADS SECONDS SEED
 *
 * SYSTEM: an engine of engine.h that has ranges, ADDRESS its empty folder; or a server of
 * range_served.h.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/distribution.h"
#include "common/numbers/histogram.h"
#include "common/numbers/random.h"
#include "common/text/parse.h"
#include "common/time/clock.h"
#include "experiments/peers/load_row.h"
#include "experiments/peers/range_served.h"

#define KEY_BYTES       20u /* "user" and 16 digits */
#define MAX_RANGE       100u
#define INSERT_PERCENT  5u
#define THETA           0.99
#define MAX_VALUE_BYTES 4096u
#define MAX_SECONDS     86400.0

struct ycsb_run {
    const struct engine *engine;
    const char *address;
    bool served; /* each thread has a handle of its own */
    uint64_t keys, value_bytes, threads, seed;
    struct distribution popularity;
    _Atomic uint64_t next_key; /* to be put */
    uint64_t end_ns;
    char value[MAX_VALUE_BYTES];
};

struct ranger {
    struct ycsb_run *run;
    void *database;
    uint64_t number;
    pthread_t thread;
    struct histogram latency;
};

/* Writes the key of that number. Neighbours in number are none in the order: a bijection on 64 bits
 * scatters them (the last steps of splitmix64). */
static struct kv_slice make_key(char key[KEY_BYTES + 1], uint64_t number)
{
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 27) * 0x94d049bb133111ebu;
    number ^= number >> 31;
    snprintf(key, KEY_BYTES + 1, "user%016" PRIx64, number);
    return kv_slice(key, KEY_BYTES);
}

static void put_next_key(struct ranger *ranger)
{
    struct ycsb_run *run = ranger->run;
    char key[KEY_BYTES + 1];
    uint64_t number = atomic_fetch_add(&run->next_key, 1);

    run->engine->put(ranger->database, make_key(key, number),
                     kv_slice(run->value, run->value_bytes));
}

static void read_range(struct ranger *ranger, struct random_state *random)
{
    struct ycsb_run *run = ranger->run;
    char key[KEY_BYTES + 1];
    struct engine_range range = {.entries = 0};
    struct kv_slice from =
        make_key(key, distribution_draw(&run->popularity, &(struct distribution_cursor){0}, random,
                                        false, NULL));
    size_t limit = 1 + (size_t)random_below(random, MAX_RANGE);

    run->engine->range(ranger->database, from, limit, &range);
    if (range.entries == 0 || range.entries > limit || range.unordered)
        errx(4, "%s: a range gives %zu entries of at most %zu%s", run->engine->name, range.entries,
             limit, range.unordered ? ", not in order" : "");
}

static void *serve_ranges(void *argument)
{
    struct ranger *ranger = argument;
    struct random_state random;

    random_seed(&random, ranger->run->seed * 1000 + ranger->number);
    for (uint64_t start_ns = clock_monotonic_ns(); start_ns < ranger->run->end_ns;) {
        if (random_below(&random, 100) < INSERT_PERCENT)
            put_next_key(ranger);
        else
            read_range(ranger, &random);
        uint64_t done_ns = clock_monotonic_ns();
        histogram_record(&ranger->latency, done_ns - start_ns);
        start_ns = done_ns;
    }
    return NULL;
}

static void open_all(struct ycsb_run *run, struct ranger *rangers)
{
    for (uint64_t i = 0; i < run->threads; i++) {
        rangers[i].run = run;
        rangers[i].number = i;
        rangers[i].database =
            i > 0 && !run->served ? rangers[0].database : run->engine->open(run->address, false);
    }
    while (atomic_load(&run->next_key) < run->keys)
        put_next_key(&rangers[0]);
}

static void run_all(struct ycsb_run *run, struct ranger *rangers, double seconds)
{
    struct histogram latency = {0};
    uint64_t start_ns = clock_monotonic_ns();

    run->end_ns = start_ns + (uint64_t)(seconds * 1e9);
    for (uint64_t i = 0; i < run->threads; i++)
        if (pthread_create(&rangers[i].thread, NULL, serve_ranges, &rangers[i]) != 0)
            errx(4, "cannot start a thread");
    for (uint64_t i = 0; i < run->threads; i++) {
        pthread_join(rangers[i].thread, NULL);
        histogram_merge(&latency, &rangers[i].latency);
    }
    load_row_print(run->threads, &latency, (double)(clock_monotonic_ns() - start_ns) / 1e9);
}

static const struct engine *find_ranged(const char *name, bool *served)
{
    const struct engine *engine = engine_find(name);

    *served = !engine || !engine->range;
    if (!*served)
        return engine;
    for (engine = range_servers; engine->name; engine++)
        if (strcmp(engine->name, name) == 0)
            return engine;
    return NULL;
}

int main(int argc, char **argv)
{
    static struct ycsb_run run;
    double seconds;

    if (argc != 8 || !(run.engine = find_ranged(argv[1], &run.served)) ||
        !parse_u64(argv[3], 1, UINT64_C(1) << 32, &run.keys) ||
        !parse_u64(argv[4], 0, MAX_VALUE_BYTES, &run.value_bytes) ||
        !parse_u64(argv[5], 1, 256, &run.threads) ||
        !parse_double(argv[6], 0, MAX_SECONDS, &seconds) ||
        !parse_u64(argv[7], 0, UINT64_MAX, &run.seed))
        errx(2, "usage: range_load mqkv|mqkv-queue|redis|lmdb|rocksdb|leveldb ADDRESS KEYS "
                "VALUE_BYTES THREADS SECONDS SEED");
    run.address = argv[2];
    memset(run.value, 'v', sizeof run.value);
    distribution_init(&run.popularity, DISTRIBUTION_ZIPFIAN, run.keys, THETA);
    struct ranger *rangers = calloc(run.threads, sizeof *rangers);
    if (!rangers)
        err(4, "calloc");
    open_all(&run, rangers);
    run_all(&run, rangers, seconds);
    for (uint64_t i = 0; i < (run.served ? run.threads : 1); i++)
        run.engine->close(rangers[i].database);
    free(rangers);
    return 0;
}
