/*
 * engine_load: random puts, then random gets, on one embedded engine, by THREADS threads; one CSV
 * row a phase on stdout.
 *
 *     engine_load ENGINE DIR KEYS VALUE_BYTES THREADS SEED [sync]
 *
 * The puts are a random permutation of all keys (each is put once), shared out over the threads;
 * the gets are as many uniformly chosen keys. With `sync` every put is on disk before the next.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/numbers/histogram.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "experiments/peers/engine.h"

#define MAX_VALUE_BYTES (1u << 20)
#define KEY_BYTES       16u

enum phase { PHASE_PUT, PHASE_GET };

struct engine_run {
    const struct engine *engine;
    void *database;
    uint64_t keys, value_bytes, threads, seed;
    enum phase phase;
};

struct engine_worker {
    const struct engine_run *load;
    uint64_t number;
    pthread_t thread;
    uint64_t missing;
    struct histogram latency;
};

/* A bijection on 0 .. 2^bits - 1 >= keys by multiplication and xor-shift, so that a permutation of
 * any number of keys takes no memory: values past the last key are walked over ("cycle walking",
 * Black and Rogaway, CT-RSA 2002). */
static uint64_t permute(uint64_t at, uint64_t keys)
{
    unsigned bits = keys < 2 ? 1 : 64 - (unsigned)__builtin_clzll(keys - 1);
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    do {
        at = at * 0x9e3779b97f4a7c15u & mask;
        at ^= at >> (bits / 2 + 1);
        at = at * 0xbf58476d1ce4e5b9u & mask;
        at ^= at >> (bits / 2 + 1);
    } while (at >= keys);
    return at;
}

static void *work(void *argument)
{
    struct engine_worker *worker = argument;
    const struct engine_run *load = worker->load;
    struct random_state random;
    char key[KEY_BYTES + 8];
    char *value = malloc(MAX_VALUE_BYTES);

    if (!value)
        err(4, "malloc");
    memset(value, 'v', MAX_VALUE_BYTES);
    random_seed(&random, load->seed + worker->number + (uint64_t)load->phase * 1000);
    for (uint64_t i = worker->number; i < load->keys; i += load->threads) {
        uint64_t chosen =
            load->phase == PHASE_PUT ? permute(i, load->keys) : random_below(&random, load->keys);
        snprintf(key, sizeof key, "key%013" PRIu64, chosen);
        struct kv_slice name = kv_slice(key, KEY_BYTES);
        uint64_t start_ns = clock_monotonic_ns();
        if (load->phase == PHASE_PUT)
            load->engine->put(load->database, name, kv_slice(value, load->value_bytes));
        else if (!load->engine->get(load->database, name, value, MAX_VALUE_BYTES))
            worker->missing++;
        histogram_record(&worker->latency, clock_monotonic_ns() - start_ns);
    }
    free(value);
    return NULL;
}

static void run_phase(struct engine_run *load, enum phase phase, const char *durability)
{
    struct engine_worker *workers = calloc(load->threads, sizeof *workers);
    struct histogram latency = {0};
    uint64_t missing = 0;

    if (!workers)
        err(4, "calloc");
    load->phase = phase;
    uint64_t start_ns = clock_monotonic_ns();
    for (uint64_t i = 0; i < load->threads; i++) {
        workers[i].load = load;
        workers[i].number = i;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(4, "cannot start a thread");
    }
    for (uint64_t i = 0; i < load->threads; i++) {
        pthread_join(workers[i].thread, NULL);
        histogram_merge(&latency, &workers[i].latency);
        missing += workers[i].missing;
    }
    double seconds = (double)(clock_monotonic_ns() - start_ns) / 1e9;
    printf("%s,%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64
           ",%.6f,%.1f,%.3f,%.3f,%.3f,%.3f,%.3f,%" PRIu64 "\n",
           load->engine->name, phase == PHASE_PUT ? "put" : "get", durability, load->threads,
           load->value_bytes, load->keys, seconds, (double)load->keys / seconds,
           histogram_mean_ns(&latency) / 1e3, (double)histogram_quantile_ns(&latency, 0.5) / 1e3,
           (double)histogram_quantile_ns(&latency, 0.99) / 1e3,
           (double)histogram_quantile_ns(&latency, 0.999) / 1e3, (double)latency.max_ns / 1e3,
           missing);
    free(workers);
}

int main(int argc, char **argv)
{
    struct engine_run load = {0};
    bool sync = argc == 8 && strcmp(argv[7], "sync") == 0;

    if ((argc != 7 && !sync) || !(load.engine = engine_find(argv[1])) ||
        !parse_u64(argv[3], 1, UINT64_C(1) << 32, &load.keys) ||
        !parse_u64(argv[4], 0, MAX_VALUE_BYTES, &load.value_bytes) ||
        !parse_u64(argv[5], 1, 256, &load.threads) ||
        !parse_u64(argv[6], 0, UINT64_MAX, &load.seed))
        errx(2, "usage: engine_load mqkv|lmdb|rocksdb|leveldb DIR KEYS VALUE_BYTES "
                "THREADS SEED [sync]");
    const char *durability = sync ? "always" : "none";
    load.database = load.engine->open(argv[2], sync);
    puts(
        "engine,phase,sync,threads,value_bytes,ops,seconds,ops_per_s,mean_us,p50_us,p99_us,p999_us,"
        "max_us,errors");
    run_phase(&load, PHASE_PUT, durability);
    run_phase(&load, PHASE_GET, durability);
    load.engine->close(load.database);
    return 0;
}
