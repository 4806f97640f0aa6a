/*
 * transaction_load: some clients work on a few keys of a running serverk at once, with
 * transactions, single operations, batches, reads of several keys at one moment and atomic scans,
 * and note what each call was answered (transaction_note.h). The daemon may be killed and started
 * again meanwhile.
 *
 *     transaction_load MODE QUEUE FILES CLIENTS KEYS OPERATIONS ROUNDS SEED NOTES
 *
 * MODE mixed: every operation, and in each round new keys: many short histories. MODE lists: values
 * only grow, by a number that is appended nowhere else; a key of the KEYS that has been appended to
 * for some time makes room for another: one long history. FILES: how many data files the store has;
 * only of one a scan is one moment. OPERATIONS: of each client in each round. NOTES: the file.
 *
 * Of four clients one reads nothing in place, one has a handle of its own, two share theirs.
 * Exit status: 0; 2 usage; 3 the load could not run, or a third of its calls failed.
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
#include "tests/history/transaction_note.h"

#define MAX_KEYS      8u   /* at a time */
#define MAX_STEPS     4u   /* of a list */
#define APPENDS_A_KEY 60u  /* until it makes room */
#define LOOKS         200u /* in place, until something is new */
#define FILLERS       4u   /* large steps behind a list, now and then */
#define FILLER_BYTES  32768u

struct transaction_load {
    const char *queue;
    bool lists;
    uint64_t files, clients, keys, operations, rounds, seed;
    struct clientk *shared;
    pthread_barrier_t round;
    atomic_uint appends[MAX_KEYS]; /* lists: to each of the keys, and to those before it */
};

/* What a client saw of a key last. */
struct seen_entry {
    bool known;
    struct clientk_value value; /* version 0: absent */
};

struct transaction_worker {
    struct transaction_load *run;
    uint32_t number, round;
    pthread_t thread;
    struct clientk *client;
    FILE *file;
    char *notes;
    size_t notes_bytes;
    struct random_state random;
    uint32_t fillers;                  /* of the transaction under way: 0 none, 1 puts, 2 gets */
    uint64_t written;                  /* how many values, each of which is another one */
    uint32_t generation[MAX_KEYS];     /* of keys, one for each slot */
    char names[MAX_KEYS][48];          /* of the call under way */
    char texts[2 * MAX_STEPS + 1][32]; /* values of the call under way */
    struct seen_entry seen[MAX_KEYS];
    struct clientk_result results[MAX_KEYS + FILLERS];
    size_t noted, unknown, failed;
};

static bool one_in(struct transaction_worker *worker, uint64_t count)
{
    return random_below(&worker->random, count) == 0;
}

static uint32_t up_to(struct transaction_worker *worker, uint64_t most)
{
    return (uint32_t)random_below(&worker->random, most + 1);
}

/* Keys ----------------------------------------------------------------------------------------- */

/* Gives each slot the key that it has now; forgets what was seen of the one before. */
static void name_keys(struct transaction_worker *worker)
{
    struct transaction_load *run = worker->run;
    for (uint32_t slot = 0; slot < run->keys; slot++) {
        uint32_t generation =
            run->lists ? atomic_load(&run->appends[slot]) / APPENDS_A_KEY : worker->round;
        if (worker->generation[slot] != generation)
            worker->seen[slot].known = false;
        worker->generation[slot] = generation;
        snprintf(worker->names[slot], sizeof worker->names[slot],
                 "x%" PRIu64 ".%" PRIu32 ".%" PRIu32, run->seed, generation, slot);
    }
}

static struct kv_slice key_of(const struct transaction_worker *worker, uint32_t slot)
{
    return kv_slice_from_string(worker->names[slot]);
}

static uint32_t slot_of(const struct transaction_worker *worker, struct kv_slice key)
{
    uint32_t slot = 0;
    while (key.data != worker->names[slot])
        slot++;
    return slot;
}

static void shuffle_slots(struct transaction_worker *worker, uint32_t *slots)
{
    for (uint32_t i = 0; i < worker->run->keys; i++) {
        uint32_t at = up_to(worker, i);
        slots[i] = slots[at];
        slots[at] = i;
    }
}

static void see(struct transaction_worker *worker, uint32_t slot,
                const struct clientk_result *result)
{
    struct seen_entry *seen = &worker->seen[slot];
    seen->known = result->status == KV_OK || result->status == KV_NOT_FOUND;
    seen->value.version = 0;
    if (result->status != KV_OK)
        return;
    if (result->value.size + 1 > seen->value.capacity) {
        seen->value.capacity = 2 * result->value.size + 16;
        seen->value.data = realloc(seen->value.data, seen->value.capacity);
        if (!seen->value.data)
            errx(3, "out of memory");
    }
    if (result->value.size > 0)
        memcpy(seen->value.data, result->value.data, result->value.size);
    seen->value.size = result->value.size;
    seen->value.version = result->value.version;
}

/* Notes ---------------------------------------------------------------------------------------- */

static void note(struct transaction_worker *worker, struct transaction_note *note, bool tells)
{
    note->client = worker->number;
    note->round = worker->run->lists ? 0 : worker->round;
    if (!tells) {
        worker->failed++;
        return;
    }
    worker->noted++;
    worker->unknown += note->told.outcome == CLIENTK_UNKNOWN;
    transaction_note_write(worker->file, note);
}

/* Notes what single operations gave, all of which were under way from start_ns to end_ns. */
static void note_singles(struct transaction_worker *worker, const char *call,
                         const struct clientk_operation *operations, size_t count,
                         uint64_t start_ns, uint64_t end_ns)
{
    for (size_t i = 0; i < count; i++) {
        struct transaction_note single = {.call = call, .start_ns = start_ns, .end_ns = end_ns};
        struct clientk_guard guard;
        struct clientk_operation steps[2];
        struct clientk_result results[2];
        const struct clientk_result *result = &worker->results[i];
        if (operations[i].opcode == CLIENTK_GET)
            see(worker, slot_of(worker, operations[i].key), result);
        note(worker, &single,
             transaction_note_single(&single, &operations[i], result, &guard, steps, results));
    }
}

/* What to ask for ------------------------------------------------------------------------------ */

/* A write or read of the key of a slot, whose text, if it has one, goes to `text` (32 bytes). */
static struct clientk_operation choose_step(struct transaction_worker *worker, uint32_t slot,
                                            char *text)
{
    static const enum clientk_opcode mix[] = {
        CLIENTK_GET, CLIENTK_GET,    CLIENTK_PUT,    CLIENTK_PUT,   CLIENTK_ADD,
        CLIENTK_ADD, CLIENTK_DELETE, CLIENTK_APPEND, CLIENTK_TOUCH, CLIENTK_EXISTS};
    struct clientk_operation step = {.opcode = mix[up_to(worker, sizeof mix / sizeof *mix - 1)],
                                     .key = key_of(worker, slot)};
    uint64_t number = worker->number * 1000000ull + ++worker->written;
    if (worker->run->lists)
        step.opcode = one_in(worker, 3) ? CLIENTK_GET : CLIENTK_APPEND;
    switch (step.opcode) {
    case CLIENTK_ADD:
        step.delta = (int64_t)up_to(worker, 4000000) - 3000000;
        step.add.has_min = one_in(worker, 2);
        return step;
    case CLIENTK_PUT:
        snprintf(text, 32, "%" PRIu64, number);
        break;
    case CLIENTK_APPEND:
        snprintf(text, 32, worker->run->lists ? " %" PRIu64 : "%" PRIu64,
                 worker->run->lists ? number : number % 10);
        atomic_fetch_add(&worker->run->appends[slot], 1);
        break;
    default:
        return step;
    }
    step.value = kv_slice_from_string(text);
    return step;
}

/* A guard on the key of a slot: often one that holds if nobody has written meanwhile. */
static struct clientk_guard choose_guard(struct transaction_worker *worker, uint32_t slot)
{
    const struct seen_entry *seen = &worker->seen[slot];
    struct clientk_guard guard = {.key = key_of(worker, slot)};
    if (!seen->known || one_in(worker, 4)) {
        guard.kind = one_in(worker, 2) ? CLIENTK_GUARD_PRESENT : CLIENTK_GUARD_ABSENT;
    } else if (seen->value.version > 0 && one_in(worker, 3)) {
        guard.kind = CLIENTK_GUARD_VALUE;
        guard.value = kv_slice(seen->value.data, seen->value.size);
    } else {
        guard.kind = CLIENTK_GUARD_VERSION;
        guard.version = seen->value.version;
    }
    return guard;
}

/* A condition for a single write, if it is one that takes it. */
static void add_condition(struct transaction_worker *worker, uint32_t slot,
                          struct clientk_operation *operation)
{
    const struct seen_entry *seen = &worker->seen[slot];
    uint64_t version = seen->known ? seen->value.version : 0;
    if (operation->opcode == CLIENTK_DELETE && one_in(worker, 2))
        operation->write.if_version = version;
    if (operation->opcode != CLIENTK_PUT)
        return;
    switch (up_to(worker, 4)) {
    case 0:
        operation->opcode = CLIENTK_EXCHANGE;
        break;
    case 1:
        operation->write.if_absent = true;
        break;
    case 2:
        operation->write.if_present = true;
        break;
    case 3:
        operation->write.if_version = version;
        break;
    }
}

/* Makes a list longer by steps that are in no history, but take their time: whoever comes between
 * the steps of a transaction does so while it reads or writes these. */
static size_t add_fillers(struct transaction_worker *worker, struct clientk_operation *list,
                          size_t count)
{
    static const char *const names[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"};
    static const char bytes[FILLER_BYTES];
    if (worker->fillers == 0)
        return count;
    for (uint32_t i = 0; i < FILLERS; i++)
        list[count + i] = (struct clientk_operation){
            .opcode = worker->fillers % 2 ? CLIENTK_PUT : CLIENTK_GET,
            .key = kv_slice_from_string(names[(worker->number + 2 * i) % 8]),
            .value = kv_slice(bytes, worker->fillers % 2 ? sizeof bytes : 0)};
    return count + FILLERS;
}

/* Calls ---------------------------------------------------------------------------------------- */

static void call_together(struct transaction_worker *worker)
{
    uint32_t slots[MAX_KEYS] = {0};
    struct kv_slice keys[MAX_KEYS];
    struct clientk_operation reads[MAX_KEYS] = {{0}};
    size_t count = 2 + up_to(worker, worker->run->keys - 2);
    bool fills = one_in(worker, 4); /* in the middle, in place of a key */
    shuffle_slots(worker, slots);
    for (size_t i = 0; i < count; i++) {
        keys[i] = fills && i == count / 2 ? kv_slice_from_string("f0") : key_of(worker, slots[i]);
        reads[i] = (struct clientk_operation){.opcode = CLIENTK_GET, .key = keys[i]};
    }
    struct clientk_transacted told = {.outcome = CLIENTK_DONE, .results = count};
    struct transaction_note together = {.call = "together",
                                        .start_ns = clock_monotonic_ns(),
                                        .asked = {.then = reads, .then_count = count},
                                        .results = worker->results};
    enum kv_status status = clientk_get_together(worker->client, keys, count, worker->results);
    together.end_ns = clock_monotonic_ns();
    for (size_t i = 0; i < count && status == KV_OK; i++)
        if (!fills || i != count / 2)
            see(worker, slots[i], &worker->results[i]);
    note(worker, &together, transaction_note_outcome(&together, status, &told));
}

static void call_transact(struct transaction_worker *worker)
{
    uint32_t slots[MAX_KEYS] = {0};
    struct clientk_guard guards[2];
    struct clientk_value known[2] = {{0}};
    struct clientk_operation then[MAX_STEPS + FILLERS], otherwise[2 + FILLERS];
    uint64_t keys = worker->run->keys;
    struct clientk_transacted told;
    struct transaction_note transact = {.call = "transact",
                                        .results = worker->results,
                                        .known = known,
                                        .asked = {.guards = guards,
                                                  .guard_count = up_to(worker, 2),
                                                  .then = then,
                                                  .then_count = 1 + up_to(worker, 2),
                                                  .otherwise = otherwise,
                                                  .otherwise_count = up_to(worker, 1)}};
    shuffle_slots(worker, slots);
    for (size_t i = 0; i < transact.asked.guard_count; i++) {
        guards[i] = choose_guard(worker, slots[i]);
        known[i] = worker->seen[slots[i]].value;
    }
    uint32_t from = up_to(worker, keys - 1); /* of no list a key twice */
    for (size_t i = 0; i < transact.asked.then_count; i++)
        then[i] = choose_step(worker, slots[(from + i) % keys], worker->texts[i]);
    for (size_t i = 0; i < transact.asked.otherwise_count; i++)
        otherwise[i] = choose_step(worker, slots[(from + i) % keys], worker->texts[MAX_STEPS + i]);
    worker->fillers = one_in(worker, 8) ? 1 + up_to(worker, 1) : 0;
    transact.asked.then_count = add_fillers(worker, then, transact.asked.then_count);
    transact.asked.otherwise_count = add_fillers(worker, otherwise, transact.asked.otherwise_count);
    transact.start_ns = clock_monotonic_ns();
    enum kv_status status =
        clientk_transact(worker->client, &transact.asked, worker->results, &told);
    transact.end_ns = clock_monotonic_ns();
    note(worker, &transact, transaction_note_outcome(&transact, status, &told));
}

/* Whether a read found anything but what was seen before. */
static bool is_new(const struct transaction_worker *worker,
                   const struct clientk_operation *operation, const struct clientk_result *result)
{
    const struct seen_entry *seen = &worker->seen[slot_of(worker, operation->key)];
    uint64_t version = result->status == KV_OK ? result->value.version : 0;
    return !seen->known || version != seen->value.version;
}

/* Reads as a batch, again and again while nothing changes, and notes what was new. */
static void call_looks(struct transaction_worker *worker, const struct clientk_operation *reads,
                       size_t count)
{
    bool news = false;
    unsigned left = worker->number % 4 == 0 ? 1 : LOOKS; /* by message it takes too long */
    while (!news && left-- > 0) {
        uint64_t start_ns = clock_monotonic_ns();
        clientk_execute(worker->client, reads, count, worker->results);
        uint64_t end_ns = clock_monotonic_ns();
        for (size_t i = 0; i < count; i++)
            news |= is_new(worker, &reads[i], &worker->results[i]);
        if (news)
            note_singles(worker, "batch", reads, count, start_ns, end_ns);
    }
}

static void call_singles(struct transaction_worker *worker, const char *call, size_t count)
{
    uint32_t slots[MAX_KEYS] = {0};
    struct clientk_operation operations[MAX_STEPS];
    bool reads = one_in(worker, 2);
    shuffle_slots(worker, slots);
    for (size_t i = 0; i < count; i++) {
        operations[i] = choose_step(worker, slots[i], worker->texts[i]);
        if (reads)
            operations[i] =
                (struct clientk_operation){.opcode = CLIENTK_GET, .key = operations[i].key};
        else
            add_condition(worker, slots[i], &operations[i]);
    }
    if (reads && count > 1) {
        call_looks(worker, operations, count);
        return;
    }
    uint64_t start_ns = clock_monotonic_ns();
    clientk_execute(worker->client, operations, count, worker->results);
    note_singles(worker, call, operations, count, start_ns, clock_monotonic_ns());
}

static bool take_scanned(void *context, const struct clientk_entry *entry)
{
    struct transaction_worker *worker = context;
    uint32_t slot = 0;
    while (slot < worker->run->keys &&
           (strlen(worker->names[slot]) != entry->key.size ||
            memcmp(worker->names[slot], entry->key.data, entry->key.size) != 0))
        slot++;
    if (slot == worker->run->keys)
        return true; /* of another generation */
    see(worker, slot,
        &(struct clientk_result){.value = {.data = (void *)(uintptr_t)entry->value.data,
                                           .size = entry->value.size,
                                           .version = entry->version}});
    return true;
}

/* The results of a scan are what was seen by it; it sees all of a data file at one moment. */
static void call_scan(struct transaction_worker *worker)
{
    struct transaction_load *run = worker->run;
    struct clientk_operation reads[MAX_KEYS] = {{0}};
    struct clientk_result results[MAX_KEYS] = {{0}};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "x%" PRIu64 ".", run->seed);
    for (uint32_t i = 0; i < run->keys; i++) {
        reads[i] = (struct clientk_operation){.opcode = CLIENTK_GET, .key = key_of(worker, i)};
        see(worker, i, &(struct clientk_result){.status = KV_NOT_FOUND});
    }
    struct clientk_transacted told = {.outcome = CLIENTK_DONE, .results = run->keys};
    struct transaction_note scan = {.call = "scan",
                                    .start_ns = clock_monotonic_ns(),
                                    .results = results,
                                    .asked = {.then = reads, .then_count = run->keys}};
    enum kv_status status = clientk_scan_atomic(worker->client, kv_slice_from_string(prefix), false,
                                                take_scanned, worker);
    scan.end_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < run->keys; i++) {
        results[i].value = worker->seen[i].value;
        results[i].status = results[i].value.version > 0 ? KV_OK : KV_NOT_FOUND;
        worker->seen[i].known = status == KV_OK;
    }
    size_t apart = run->files == 1 ? 1 : run->keys; /* as one read, or each key by itself */
    for (size_t i = 0; i < apart; i++) {
        scan.asked =
            (struct clientk_transaction){.then = reads + i, .then_count = run->keys / apart};
        scan.results = results + i;
        told.results = scan.asked.then_count;
        note(worker, &scan, transaction_note_outcome(&scan, status, &told));
    }
}

/* The run -------------------------------------------------------------------------------------- */

static void call_something(struct transaction_worker *worker)
{
    name_keys(worker);
    switch (up_to(worker, 19)) {
    case 0:
    case 1:
    case 2:
        call_together(worker);
        break;
    case 3:
        call_scan(worker);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        call_singles(worker, "single", 1);
        break;
    case 8:
    case 9:
    case 10:
        call_singles(worker, "batch", 2 + up_to(worker, 1));
        break;
    default:
        call_transact(worker);
    }
}

static void *work_on_keys(void *argument)
{
    struct transaction_worker *worker = argument;
    struct transaction_load *run = worker->run;
    random_seed(&worker->random, run->seed * 1000003u + worker->number);
    for (uint32_t round = 0; round < run->rounds; round++) {
        worker->round = round;
        pthread_barrier_wait(&run->round);
        for (uint64_t i = 0; i < run->operations; i++)
            call_something(worker);
    }
    return NULL;
}

static struct clientk *open_handle(const struct transaction_load *run, enum clientk_direct direct)
{
    struct kv_error error = {0};
    struct clientk *client;
    struct clientk_options options = {.queue = run->queue, .timeout_ms = 20000, .direct = direct};
    if (clientk_open(&options, &client, &error) != KV_OK)
        errx(3, "%s", error.text);
    return client;
}

static void start_worker(struct transaction_load *run, struct transaction_worker *worker,
                         uint32_t number)
{
    *worker = (struct transaction_worker){.run = run, .number = number};
    worker->client = number % 4 >= 2   ? run->shared
                     : number % 4 == 1 ? open_handle(run, CLIENTK_DIRECT_AUTO)
                                       : open_handle(run, CLIENTK_DIRECT_OFF);
    worker->file = open_memstream(&worker->notes, &worker->notes_bytes);
    if (!worker->file || pthread_create(&worker->thread, NULL, work_on_keys, worker) != 0)
        errx(3, "cannot start a client");
}

/* Waits for its end, writes what it noted to the file, and adds its counts to those of *sum. */
static void end_worker(struct transaction_worker *worker, FILE *file,
                       struct transaction_worker *sum)
{
    pthread_join(worker->thread, NULL);
    if (fclose(worker->file) != 0)
        errx(3, "out of memory");
    fwrite(worker->notes, 1, worker->notes_bytes, file);
    if (worker->client != worker->run->shared)
        clientk_close(worker->client);
    sum->noted += worker->noted;
    sum->unknown += worker->unknown;
    sum->failed += worker->failed;
    for (uint32_t i = 0; i < MAX_KEYS + FILLERS; i++)
        clientk_value_free(&worker->results[i].value);
    for (uint32_t i = 0; i < MAX_KEYS; i++)
        free(worker->seen[i].value.data);
    free(worker->notes);
}

int main(int argc, char **argv)
{
    struct transaction_load run = {0};
    if (argc != 10 || (strcmp(argv[1], "mixed") != 0 && strcmp(argv[1], "lists") != 0) ||
        !parse_u64(argv[3], 1, 10000, &run.files) || !parse_u64(argv[4], 1, 64, &run.clients) ||
        !parse_u64(argv[5], 3, MAX_KEYS, &run.keys) ||
        !parse_u64(argv[6], 1, 1000000, &run.operations) ||
        !parse_u64(argv[7], 1, 1000000, &run.rounds) ||
        !parse_u64(argv[8], 0, UINT32_MAX, &run.seed))
        errx(2, "usage: transaction_load mixed|lists QUEUE FILES CLIENTS KEYS OPERATIONS ROUNDS "
                "SEED NOTES");
    run.queue = argv[2];
    run.lists = strcmp(argv[1], "lists") == 0;
    run.shared = open_handle(&run, CLIENTK_DIRECT_AUTO);
    struct transaction_worker *workers = calloc(run.clients, sizeof *workers), sum = {0};
    FILE *file = fopen(argv[9], "we");
    if (!workers || !file || pthread_barrier_init(&run.round, NULL, (unsigned)run.clients) != 0)
        err(3, "%s", argv[9]);
    for (uint32_t i = 0; i < run.clients; i++)
        start_worker(&run, &workers[i], i);
    for (uint32_t i = 0; i < run.clients; i++)
        end_worker(&workers[i], file, &sum);
    clientk_close(run.shared);
    free(workers);
    if (fclose(file) != 0)
        err(3, "%s", argv[9]);
    printf("%zu calls noted, %zu of unknown fate, %zu not executed\n", sum.noted, sum.unknown,
           sum.failed);
    return sum.failed > sum.noted / 2 ? 3 : 0;
}
