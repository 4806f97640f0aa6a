/*
 * history_load: several threads work on few keys of a running serverk at once, note when each call
 * began and ended and what it answered, and then have every key's history judged. The daemon may be
 * killed and started again meanwhile: writes of unknown fate are judged as such. Now and then a
 * thread changes the priority of all. Half of the threads read as MQKV_DIRECT says, the others by
 * message.
 *
 *     history_load QUEUE THREADS KEYS OPERATIONS SEED [FILE]
 *
 * FILE gets the history, one JSON object a line (history_note.h), for another judge.
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

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "tests/history/history_note.h"

#define OPERATIONS_A_KEY 300u

struct history_run {
    struct clientk *client;
    struct clientk *by_message; /* reads nothing in place; every second thread reads through it */
    uint32_t keys;
    uint64_t operations_a_thread;
    uint64_t seed;
    _Atomic uint32_t *used; /* operations of each key so far */
};

struct history_worker {
    struct history_run *load;
    uint32_t number;
    pthread_t thread;
    uint64_t *seen; /* the version last seen of each key; 0: none */
    struct history_note *noted;
    size_t count;
    size_t unknown;
    size_t failed;
};

static void key_name(char name[32], const struct history_run *load, uint32_t key)
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

/* Makes the call that the note describes and fills its answer in. */
static void perform(struct clientk *client, struct kv_slice key, struct history_note *note,
                    struct clientk_result *result)
{
    static const enum clientk_opcode opcodes[] = {[NOTE_GET] = CLIENTK_GET,
                                                  [NOTE_PUT] = CLIENTK_PUT,
                                                  [NOTE_DELETE] = CLIENTK_DELETE,
                                                  [NOTE_ADD] = CLIENTK_ADD,
                                                  [NOTE_EXCHANGE] = CLIENTK_EXCHANGE};
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRId64, note->input);
    bool has_value = note->call == NOTE_PUT || note->call == NOTE_EXCHANGE;
    struct clientk_operation operation = {
        .opcode = opcodes[note->call],
        .key = key,
        .value = kv_slice(text, has_value ? (size_t)size : 0),
        .write = {.if_absent = note->condition == NOTE_IF_ABSENT,
                  .if_present = note->condition == NOTE_IF_PRESENT,
                  .if_version = note->condition == NOTE_IF_VERSION ? note->if_version : 0},
        .delta = note->input};

    enum kv_status status = clientk_execute(client, &operation, 1, result);
    note->status = status == KV_OK ? result->status : status;
    if (note->status != KV_OK)
        return;
    note->found = note->call == NOTE_GET || (note->call == NOTE_EXCHANGE && result->found);
    if (note->found)
        note->output = value_number(&result->value);
    else if (note->call == NOTE_ADD)
        note->output = result->number;
    note->version = result->value.version;
}

/* Keeps the note if it says something of the key. */
static void keep(struct history_worker *worker, struct history_note *note)
{
    switch (note->status) {
    case KV_OK:
        worker->seen[note->key] = note->call == NOTE_DELETE ? 0 : note->version;
        break;
    case KV_NOT_FOUND:
    case KV_EXISTS:
    case KV_VERSION_MISMATCH:
        worker->seen[note->key] = 0;
        break;
    case KV_TIMEOUT:
    case KV_OUTCOME_UNKNOWN:
        if (note->call == NOTE_GET)
            return;
        note->status = KV_OUTCOME_UNKNOWN;
        worker->unknown++;
        break;
    default: /* surely not executed */
        worker->failed++;
        return;
    }
    worker->noted[worker->count++] = *note;
}

/* What to do next with a key. A condition on the version needs one that was seen. */
static void choose(struct random_state *random, uint64_t seen, struct history_note *note)
{
    static const struct {
        enum note_call call;
        enum note_condition condition;
    } mix[] = {
        {NOTE_GET, NOTE_ALWAYS},        {NOTE_GET, NOTE_ALWAYS},     {NOTE_GET, NOTE_ALWAYS},
        {NOTE_PUT, NOTE_ALWAYS},        {NOTE_PUT, NOTE_IF_ABSENT},  {NOTE_PUT, NOTE_IF_PRESENT},
        {NOTE_PUT, NOTE_IF_VERSION},    {NOTE_ADD, NOTE_ALWAYS},     {NOTE_DELETE, NOTE_ALWAYS},
        {NOTE_DELETE, NOTE_IF_VERSION}, {NOTE_EXCHANGE, NOTE_ALWAYS}};
    size_t chosen = (size_t)random_below(random, sizeof mix / sizeof *mix);
    note->call = mix[chosen].call;
    note->condition = mix[chosen].condition;
    note->if_version = seen;
    if (note->condition == NOTE_IF_VERSION && seen == 0)
        note->condition = NOTE_ALWAYS;
}

static void *work(void *argument)
{
    struct history_worker *worker = argument;
    struct history_run *load = worker->load;
    struct clientk_result result = {.status = KV_OK};
    struct random_state random;

    random_seed(&random, load->seed * 1000003u + worker->number);
    for (uint64_t i = 0; i < load->operations_a_thread; i++) {
        char name[32];
        struct history_note note = {.client = worker->number,
                                    .key = (uint32_t)random_below(&random, load->keys),
                                    .input = (int64_t)(worker->number * 1000000u + i + 1)};
        choose(&random, worker->seen[note.key], &note);
        if (atomic_fetch_add(&load->used[note.key], 1) >= OPERATIONS_A_KEY)
            continue;
        key_name(name, load, note.key);
        if (random_below(&random, 16) == 0)
            clientk_set_priority(load->client,
                                 (unsigned)random_below(&random, CLIENTK_MAX_PRIORITY + 1));
        note.start_ns = clock_monotonic_ns();
        bool asks = note.call == NOTE_GET && worker->number % 2 == 0;
        perform(asks ? load->by_message : load->client, kv_slice_from_string(name), &note, &result);
        note.end_ns = clock_monotonic_ns();
        keep(worker, &note);
    }
    clientk_value_free(&result.value);
    return NULL;
}

static void print_history(const struct history_operation *operations, size_t count)
{
    static const char *const names[] = {"get",    "put", "put-if-absent", "put-if-present",
                                        "delete", "add", "exchange"};
    for (size_t i = 0; i < count; i++)
        printf("  %" PRIu64 " .. %" PRIu64 " %s input %" PRId64 " output %" PRId64 " %s\n",
               operations[i].start_ns, operations[i].end_ns, names[operations[i].kind],
               operations[i].input, operations[i].output, operations[i].succeeded ? "ok" : "no");
}

/* Judges one key's operations out of all that were noted. */
static enum history_verdict judge(const struct history_worker *workers, size_t threads,
                                  uint32_t key)
{
    struct history_operation own[HISTORY_MAX_OPERATIONS];
    size_t count = 0;

    for (size_t w = 0; w < threads; w++)
        for (size_t i = 0; i < workers[w].count; i++)
            if (workers[w].noted[i].key == key && count < HISTORY_MAX_OPERATIONS)
                count += history_note_operation(&workers[w].noted[i], &own[count]);
    enum history_verdict verdict = history_check(own, count, HISTORY_ABSENT);
    if (verdict == HISTORY_VIOLATION) {
        printf("key %" PRIu32 " is not linearizable:\n", key);
        print_history(own, count);
    }
    return verdict;
}

static int judge_all(const struct history_run *load, const struct history_worker *workers,
                     size_t threads)
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

/* Writes what all threads noted. */
static void write_json(const char *path, const struct history_worker *workers, size_t threads)
{
    FILE *file = fopen(path, "we");
    if (!file)
        err(3, "%s", path);
    for (size_t w = 0; w < threads; w++)
        for (size_t i = 0; i < workers[w].count; i++)
            history_note_write_json(file, &workers[w].noted[i]);
    if (fclose(file) != 0)
        err(3, "%s", path);
}

int main(int argc, char **argv)
{
    uint64_t threads, keys, operations, seed;
    struct kv_error error = {0};

    if ((argc != 6 && argc != 7) || !parse_u64(argv[2], 1, 256, &threads) ||
        !parse_u64(argv[3], 1, 100000, &keys) || !parse_u64(argv[4], 1, 100000000, &operations) ||
        !parse_u64(argv[5], 0, UINT32_MAX, &seed))
        errx(2, "usage: history_load QUEUE THREADS KEYS OPERATIONS SEED [FILE]");
    struct history_run load = {.keys = (uint32_t)keys,
                               .operations_a_thread = operations / threads + 1,
                               .seed = seed,
                               .used = calloc(keys, sizeof *load.used)};
    struct history_worker *workers = calloc(threads, sizeof *workers);
    if (!load.used || !workers)
        errx(3, "out of memory");
    struct clientk_options options = {.queue = argv[1], .timeout_ms = 10000};
    if (clientk_open(&options, &load.client, &error) != KV_OK)
        errx(3, "%s", error.text);
    options.direct = CLIENTK_DIRECT_OFF;
    if (clientk_open(&options, &load.by_message, &error) != KV_OK)
        errx(3, "%s", error.text);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i] = (struct history_worker){.load = &load, .number = i + 1};
        workers[i].noted = calloc(load.operations_a_thread, sizeof *workers[i].noted);
        workers[i].seen = calloc(keys, sizeof *workers[i].seen);
        if (!workers[i].noted || !workers[i].seen ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(3, "cannot start a thread");
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    struct clientk_info info;
    clientk_info(load.client, &info);
    printf("%" PRIu64 " reads without a message, %" PRIu64 " asked for after all\n",
           info.direct_reads, info.direct_asks);
    clientk_close(load.client);
    clientk_close(load.by_message);
    if (argc == 7)
        write_json(argv[6], workers, threads);
    int status = judge_all(&load, workers, threads);
    for (size_t i = 0; i < threads; i++) {
        free(workers[i].noted);
        free(workers[i].seen);
    }
    free(workers);
    free(load.used);
    return status;
}
