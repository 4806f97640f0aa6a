/*
 * history_load: several threads work on few keys of a running serverk at once, note when each call
 * began and ended and what it answered, and then have every key's history judged. The daemon may be
 * killed and started again meanwhile: writes of unknown fate are judged as such. Now and then a thread
 * changes the priority of all.
 *
 *     history_load QUEUE THREADS KEYS OPERATIONS SEED
 *
 * Exit status: 0 every key is linearizable; 1 one is not (its history is printed); 2 usage; 3 the
 * load could not run.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/clientk.h"
#include "common/clock.h"
#include "common/parse.h"
#include "common/random.h"
#include "tests/history/history.h"

#define OPERATIONS_A_KEY 300u

struct noted {
    uint32_t key;
    struct history_operation operation;
};

struct load {
    struct clientk *client;
    uint32_t keys;
    uint64_t operations_a_thread;
    uint64_t seed;
    _Atomic uint32_t *used; /* operations of each key so far */
};

struct worker {
    struct load *load;
    uint32_t number;
    pthread_t thread;
    struct noted *noted;
    size_t count;
    size_t unknown;
    size_t failed;
};

static void key_name(char name[32], const struct load *load, uint32_t key)
{
    snprintf(name, 32, "h%" PRIu64 ".%" PRIu32, load->seed, key);
}

static int64_t value_number(const struct clientk_value *value)
{
    int64_t number = 0;
    if (!parse_i64_bytes(value->data, value->size, &number))
        errx(3, "a value is no number: %.*s", (int)value->size, (const char *)value->data);
    return number;
}

/* Makes the call that the operation describes and fills in its answer. */
static enum kv_status perform(struct clientk *client, struct kv_slice key,
                              struct history_operation *operation, struct clientk_value *value)
{
    struct clientk_put_options put = {.if_absent = operation->kind == HISTORY_PUT_IF_ABSENT};
    enum kv_status status = KV_USAGE;
    char text[24];
    bool found = false;
    struct kv_slice input =
        kv_slice(text, (size_t)snprintf(text, sizeof text, "%" PRId64, operation->input));

    switch (operation->kind) {
    case HISTORY_GET:
        status = clientk_get(client, key, value);
        operation->output = status == KV_OK ? value_number(value) : HISTORY_ABSENT;
        break;
    case HISTORY_PUT:
    case HISTORY_PUT_IF_ABSENT:
        status = clientk_put(client, key, input, &put, NULL);
        break;
    case HISTORY_DELETE:
        status = clientk_delete(client, key, 0);
        break;
    case HISTORY_ADD:
        status = clientk_add(client, key, operation->input, NULL, &operation->output);
        break;
    case HISTORY_EXCHANGE:
        status = clientk_exchange(client, key, input, NULL, value, &found);
        operation->output = found ? value_number(value) : HISTORY_ABSENT;
        break;
    }
    operation->succeeded = status == KV_OK;
    return status;
}

/* Notes what the status says of the operation's fate. */
static void note(struct worker *worker, uint32_t key, struct history_operation *operation,
                 enum kv_status status)
{
    switch (status) {
    case KV_OK:
    case KV_NOT_FOUND:
    case KV_EXISTS:
        break;
    case KV_TIMEOUT:
    case KV_OUTCOME_UNKNOWN:
        if (operation->kind == HISTORY_GET)
            return;
        operation->end_ns = HISTORY_PENDING;
        worker->unknown++;
        break;
    default: /* surely not executed */
        worker->failed++;
        return;
    }
    worker->noted[worker->count++] = (struct noted){key, *operation};
}

static void *work(void *argument)
{
    static const enum history_kind mix[] = {HISTORY_GET,    HISTORY_GET,           HISTORY_GET,
                                            HISTORY_PUT,    HISTORY_PUT_IF_ABSENT, HISTORY_ADD,
                                            HISTORY_DELETE, HISTORY_EXCHANGE};
    struct worker *worker = argument;
    struct load *load = worker->load;
    struct clientk_value value = {0};
    struct random_state random;

    random_seed(&random, load->seed * 1000003u + worker->number);
    for (uint64_t i = 0; i < load->operations_a_thread; i++) {
        uint32_t key = (uint32_t)random_below(&random, load->keys);
        char name[32];
        struct history_operation operation = {
            .kind = mix[random_below(&random, sizeof mix / sizeof *mix)],
            .input = (int64_t)(worker->number * 1000000u + i + 1)};
        if (atomic_fetch_add(&load->used[key], 1) >= OPERATIONS_A_KEY)
            continue;
        key_name(name, load, key);
        if (random_below(&random, 16) == 0)
            clientk_set_priority(load->client,
                                 (unsigned)random_below(&random, CLIENTK_MAX_PRIORITY + 1));
        operation.start_ns = clock_monotonic_ns();
        enum kv_status status =
            perform(load->client, kv_slice_from_string(name), &operation, &value);
        operation.end_ns = clock_monotonic_ns();
        note(worker, key, &operation, status);
    }
    clientk_value_free(&value);
    return NULL;
}

static void print_history(const struct history_operation *operations, size_t count)
{
    static const char *const names[] = {"get", "put", "put-if-absent", "delete", "add", "exchange"};
    for (size_t i = 0; i < count; i++)
        printf("  %" PRIu64 " .. %" PRIu64 " %s input %" PRId64 " output %" PRId64 " %s\n",
               operations[i].start_ns, operations[i].end_ns, names[operations[i].kind],
               operations[i].input, operations[i].output, operations[i].succeeded ? "ok" : "no");
}

/* Judges one key's operations out of all that were noted. */
static enum history_verdict judge(const struct worker *workers, size_t threads, uint32_t key)
{
    struct history_operation own[HISTORY_MAX_OPERATIONS];
    size_t count = 0;

    for (size_t w = 0; w < threads; w++)
        for (size_t i = 0; i < workers[w].count; i++)
            if (workers[w].noted[i].key == key && count < HISTORY_MAX_OPERATIONS)
                own[count++] = workers[w].noted[i].operation;
    enum history_verdict verdict = history_check(own, count, HISTORY_ABSENT);
    if (verdict == HISTORY_VIOLATION) {
        printf("key %" PRIu32 " is not linearizable:\n", key);
        print_history(own, count);
    }
    return verdict;
}

static int judge_all(const struct load *load, const struct worker *workers, size_t threads)
{
    size_t violations = 0, too_hard = 0, noted = 0, unknown = 0, failed = 0;

    for (size_t w = 0; w < threads; w++) {
        noted += workers[w].count;
        unknown += workers[w].unknown;
        failed += workers[w].failed;
    }
    for (uint32_t key = 0; key < load->keys; key++) {
        enum history_verdict verdict = judge(workers, threads, key);
        violations += verdict == HISTORY_VIOLATION;
        too_hard += verdict == HISTORY_TOO_HARD;
    }
    printf("%zu operations on %" PRIu32 " keys, %zu of unknown fate, %zu not executed: "
           "%zu violations, %zu keys not decided\n",
           noted, load->keys, unknown, failed, violations, too_hard);
    return violations > 0 || too_hard > load->keys / 4 ? 1 : 0;
}

int main(int argc, char **argv)
{
    uint64_t threads, keys, operations, seed;
    struct kv_error error = {0};

    if (argc != 6 || !parse_u64(argv[2], 1, 256, &threads) ||
        !parse_u64(argv[3], 1, 100000, &keys) || !parse_u64(argv[4], 1, 100000000, &operations) ||
        !parse_u64(argv[5], 0, UINT32_MAX, &seed))
        errx(2, "usage: history_load QUEUE THREADS KEYS OPERATIONS SEED");
    struct load load = {.keys = (uint32_t)keys,
                        .operations_a_thread = operations / threads + 1,
                        .seed = seed,
                        .used = calloc(keys, sizeof *load.used)};
    struct worker *workers = calloc(threads, sizeof *workers);
    if (!load.used || !workers)
        errx(3, "out of memory");
    if (clientk_open(&(struct clientk_options){.queue = argv[1], .timeout_ms = 10000}, &load.client,
                     &error) != KV_OK)
        errx(3, "%s", error.text);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){.load = &load, .number = i + 1};
        workers[i].noted = calloc(load.operations_a_thread, sizeof *workers[i].noted);
        if (!workers[i].noted || pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(3, "can not start a thread");
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    clientk_close(load.client);
    int status = judge_all(&load, workers, threads);
    for (size_t i = 0; i < threads; i++)
        free(workers[i].noted);
    free(workers);
    free(load.used);
    return status;
}
