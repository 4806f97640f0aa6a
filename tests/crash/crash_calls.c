/*
 * crash_calls: kill -9 of a program that writes to a store at a system call, or some instructions
 * after one, of any of its threads: the Nth of all, chosen by a seed, so that every place where the
 * engine can be stopped is met, and not only those in which it spends its time. What kvstore has
 * acknowledged must be found by the next open, and nothing else but the write that was under way,
 * of a transaction all or nothing, and nothing of one that is refused when most of it was written.
 * The same store then goes on.
 *
 *   crash_calls DIR KILLS SEED      DIR: a directory to make stores in. Exit status 0, 1: wrong,
 *                                   77: the system has no ptrace for us
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/numbers/random.h"
#include "mqkv/kvstore.h"

#define WRITERS           2u
#define KEYS              12u /* of a writer, which no other writes to */
#define VALUE_MAX_BYTES   20000u
#define LIVES_OF_STORE    40u
#define DATAFILES         2u
#define MAX_CALL_LOG2     11u /* of beginnings and ends of calls in a life: the last that is hit */
#define MAKING_CALLS_LOG2 15u /* the same of one that makes the store */
#define MAX_STEPS_LOG2    13u /* instructions after it */
#define STEP_MAX_NS       20000000u
#define SESSIONS          3u  /* opens and closes of a life, at most */
#define WRITES            60u /* of a writer in a session */
#define TRANSACTION_KEYS  6u  /* at most */

#define REFUSED_PREFIX "refused "

/* What a key should hold. Shared with the process that is killed. */
struct state {
    atomic_uint_fast64_t token; /* 0: not there */
    atomic_uint_fast64_t pending;
    atomic_bool is_pending;
    atomic_uint_fast64_t version; /* the last that was told */
};

struct crash_shared {
    struct state keys[WRITERS][KEYS];
    atomic_uint transacting[WRITERS]; /* the keys of a transaction that is under way: bits */
    atomic_uint_fast64_t next_token;
    atomic_uint_fast64_t writes;
    char failure[256];
};

static struct crash_shared *shared;
static char dir[4096];
static uint64_t life_seed;
static unsigned halves_could_be; /* transactions that were under way at a kill */
static unsigned life;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "crash_calls: life %u: %s: %s\n", life, what, strerror(errno));
    exit(1);
}

static struct kv_slice key_of(unsigned writer, unsigned key, char text[32])
{
    snprintf(text, 32, "writer %u key %u", writer, key);
    return kv_slice_from_string(text);
}

/* Follows from the token alone. */
static struct kv_slice value_of(uint64_t token, uint8_t buffer[VALUE_MAX_BYTES])
{
    static const size_t sizes[] = {8, 8, 40, 100, 1000, 4096, 17000, VALUE_MAX_BYTES};
    struct random_state random;
    random_seed(&random, token);
    size_t size = sizes[random_below(&random, sizeof sizes / sizeof sizes[0])];
    for (size_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word = at == 0 ? token : random_next(&random);
        memcpy(buffer + at, &word, sizeof word);
    }
    return kv_slice(buffer, size / 8 * 8);
}

/* The process that is killed ------------------------------------------------------------------- */

struct calls_writer {
    struct kvstore *store;
    unsigned number;
    uint64_t seed;
};

static void note_failure(const char *what, enum kv_status status)
{
    snprintf(shared->failure, sizeof shared->failure, "%s: %s", what, kv_status_name(status));
}

static void write_once(const struct calls_writer *writer, struct random_state *random)
{
    uint8_t buffer[VALUE_MAX_BYTES];
    char text[32];
    unsigned key = (unsigned)random_below(random, KEYS);
    struct state *state = &shared->keys[writer->number][key];
    bool deletes = random_below(random, 4) == 0;
    uint64_t token = deletes ? 0 : atomic_fetch_add(&shared->next_token, 1);
    atomic_store(&state->pending, token);
    atomic_store(&state->is_pending, true);
    struct kvstore_written written = {0};
    enum kv_status status =
        deletes ? kvstore_delete(writer->store, key_of(writer->number, key, text), 0, &written)
                : kvstore_put(writer->store, key_of(writer->number, key, text),
                              value_of(token, buffer), NULL, &written);
    if (status != KV_OK && !(deletes && status == KV_NOT_FOUND))
        note_failure("write", status);
    if (status == KV_OK && written.version <= atomic_load(&state->version))
        note_failure("a version was given twice", status);
    if (status == KV_OK)
        atomic_store(&state->version, written.version);
    atomic_store(&state->token, token);
    atomic_store(&state->is_pending, false);
    atomic_fetch_add(&shared->writes, 1);
    if (random_below(random, 10) == 0 && status == KV_OK &&
        kvstore_wait_durable(writer->store, written.ticket) != KV_OK)
        note_failure("wait_durable", KV_NOT_DURABLE);
}

/* A transaction -------------------------------------------------------------------------------- */

struct calls_transaction {
    struct kvstore_step steps[TRANSACTION_KEYS + 2];
    struct kvstore_step_result results[TRANSACTION_KEYS + 2];
    char texts[TRANSACTION_KEYS][32];
    uint8_t values[TRANSACTION_KEYS][VALUE_MAX_BYTES];
    uint64_t tokens[TRANSACTION_KEYS];
    unsigned keys[TRANSACTION_KEYS];
    uint32_t count;
    unsigned mask;
};

static void add_key(const struct calls_writer *writer, struct random_state *random,
                    struct calls_transaction *transaction)
{
    unsigned key = (unsigned)random_below(random, KEYS);
    if ((transaction->mask >> key & 1) != 0)
        return;
    uint32_t at = transaction->count++;
    bool deletes = random_below(random, 4) == 0;
    uint64_t token = deletes ? 0 : atomic_fetch_add(&shared->next_token, 1);
    transaction->mask |= 1u << key;
    transaction->keys[at] = key;
    transaction->tokens[at] = token;
    transaction->steps[at] =
        (struct kvstore_step){.kind = deletes ? KVSTORE_STEP_DELETE : KVSTORE_STEP_PUT,
                              .key = key_of(writer->number, key, transaction->texts[at])};
    if (!deletes)
        transaction->steps[at].value = value_of(token, transaction->values[at]);
}

/* Two keys where the quota is one: the second one is refused when it is appended. */
static void refuse(const struct calls_writer *writer, struct calls_transaction *transaction)
{
    static const char *const texts[] = {REFUSED_PREFIX "a", REFUSED_PREFIX "b"};
    uint32_t count = transaction->count;
    for (uint32_t i = 0; i < 2; i++)
        transaction->steps[count++] =
            (struct kvstore_step){.kind = KVSTORE_STEP_PUT, .key = kv_slice_from_string(texts[i])};
    struct kvstore_transaction asked = {.then = transaction->steps, .then_count = count};
    enum kv_status status = kvstore_transact(writer->store, &asked, transaction->results, NULL);
    if (status != KV_QUOTA)
        note_failure("a transaction beyond a quota", status);
}

static void note_written(const struct calls_writer *writer,
                         const struct calls_transaction *transaction)
{
    for (uint32_t i = 0; i < transaction->count; i++) {
        struct state *state = &shared->keys[writer->number][transaction->keys[i]];
        const struct kvstore_step_result *result = &transaction->results[i];
        if (result->status == KV_OK && result->written.version <= atomic_load(&state->version))
            note_failure("a version was given twice by a transaction", KV_OK);
        if (result->status == KV_OK)
            atomic_store(&state->version, result->written.version);
        atomic_store(&state->token, transaction->tokens[i]);
        atomic_store(&state->is_pending, false);
    }
    atomic_store(&shared->transacting[writer->number], 0);
}

static void commit(const struct calls_writer *writer, struct random_state *random,
                   struct calls_transaction *transaction)
{
    for (uint32_t i = 0; i < transaction->count; i++) {
        struct state *state = &shared->keys[writer->number][transaction->keys[i]];
        atomic_store(&state->pending, transaction->tokens[i]);
        atomic_store(&state->is_pending, true);
    }
    atomic_store(&shared->transacting[writer->number], transaction->mask);
    struct kvstore_transaction asked = {.then = transaction->steps,
                                        .then_count = transaction->count};
    enum kv_status status = kvstore_transact(writer->store, &asked, transaction->results, NULL);
    if (status != KV_OK)
        note_failure("transaction", status);
    note_written(writer, transaction);
    struct kvstore_ticket ticket = transaction->results[0].written.ticket;
    if (random_below(random, 10) == 0 && kvstore_wait_durable(writer->store, ticket) != KV_OK)
        note_failure("wait_durable", KV_NOT_DURABLE);
}

static void transact_once(const struct calls_writer *writer, struct random_state *random)
{
    struct calls_transaction *transaction = calloc(1, sizeof *transaction);
    if (!transaction)
        _exit(3);
    for (unsigned i = 0; i < TRANSACTION_KEYS; i++)
        add_key(writer, random, transaction);
    if (random_below(random, 4) == 0)
        refuse(writer, transaction);
    else
        commit(writer, random, transaction);
    atomic_fetch_add(&shared->writes, 1);
    free(transaction);
}

static void *write_many(void *argument)
{
    const struct calls_writer *writer = argument;
    struct random_state random;
    random_seed(&random, writer->seed);
    for (uint64_t left = random_below(&random, WRITES); left > 0; left--)
        if (random_below(&random, 2) == 0)
            transact_once(writer, &random);
        else
            write_once(writer, &random);
    return NULL;
}

static void run_session(struct random_state *random)
{
    const struct kvstore_quota quota = {.prefix = kv_slice_from_string(REFUSED_PREFIX),
                                        .max_keys = 1};
    struct kvstore_options options = {
        .create = true,
        .datafiles = DATAFILES,
        .io = (enum kvstore_io)random_below(random, KVSTORE_IO_COUNT),
        .direct = random_below(random, 4) == 0 ? KVSTORE_DIRECT_OFF : KVSTORE_DIRECT_OWNER,
        .durability = (enum kvstore_durability)random_below(random, KVSTORE_SYNC_ALWAYS + 1),
        .sync_interval_ms = 1 + (uint32_t)random_below(random, 20),
        .sweep_interval_ms = 5,
        .compact_min_bytes = 8192,
        .compact_dead_percent = random_below(random, 2) == 0 ? 20 : 100,
        .quota_count = 1,
        .quotas = &quota};
    struct kv_error error = {0};
    struct calls_writer writers[WRITERS];
    pthread_t threads[WRITERS];
    struct kvstore *store;
    enum kv_status status = kvstore_open(dir, &options, &store, &error);
    if (status == KV_UNSUPPORTED) { /* the file system has no reads past the page cache */
        options.io = KVSTORE_IO_PREAD;
        status = kvstore_open(dir, &options, &store, &error);
    }
    if (status != KV_OK) {
        snprintf(shared->failure, sizeof shared->failure, "open: %.200s", error.text);
        return;
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct calls_writer){store, i, random_next(random)};
        if (pthread_create(&threads[i], NULL, write_many, &writers[i]) != 0)
            _exit(3);
    }
    for (uint64_t left = random_below(random, 4); left > 0; left--)
        if (kvstore_compact(store, (uint32_t)random_below(random, DATAFILES), &error) != KV_OK)
            snprintf(shared->failure, sizeof shared->failure, "compact: %.200s", error.text);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    if (kvstore_close(store, &error) != KV_OK)
        snprintf(shared->failure, sizeof shared->failure, "close: %.200s", error.text);
}

static void live(void)
{
    struct random_state random;
    random_seed(&random, life_seed);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    raise(SIGSTOP);
    for (uint64_t left = 1 + random_below(&random, SESSIONS); left > 0; left--)
        run_session(&random);
    _exit(0);
}

/* Killing it ----------------------------------------------------------------------------------- */

static uint64_t up_to_log2(struct random_state *random, unsigned most)
{
    return random_below(random, UINT64_C(1) << random_below(random, most + 1));
}

/* False: it does not stop again, but waits in a call for other threads. */
static bool stops_again(pid_t thread)
{
    int status;
    uint64_t end_ns = clock_monotonic_ns() + STEP_MAX_NS;
    do {
        pid_t found = waitpid(thread, &status, __WALL | WNOHANG);
        if (found != 0)
            return found == thread && WIFSTOPPED(status);
        sched_yield();
    } while (clock_monotonic_ns() < end_ns);
    return false;
}

/* Lets the thread that is stopped make so many steps, or as many as it can alone. */
static void step(pid_t thread, uint64_t steps)
{
    for (; steps > 0; steps--)
        if (ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL) != 0 || !stops_again(thread))
            break;
}

/* Lets it run to the call, some instructions further, and kills it. False: it ended before. */
static bool run_to(pid_t child, uint64_t calls, uint64_t steps)
{
    const long watched = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    int status;
    require(waitpid(child, &status, 0) == child, "waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        exit(77);
    require(WIFSTOPPED(status) && ptrace(PTRACE_SETOPTIONS, child, NULL, watched) == 0, "ptrace");
    for (pid_t thread = child;;) {
        int signal_number = 0;
        if (WIFSTOPPED(status)) {
            bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
            if (at_call && calls-- == 0) {
                step(thread, steps);
                kill(child, SIGKILL);
            } else if (!at_call && WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
                signal_number = WSTOPSIG(status);
            }
            ptrace(PTRACE_SYSCALL, thread, NULL, signal_number);
        } else if (thread == child) {
            return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        }
        thread = waitpid(-1, &status, __WALL);
        require(thread > 0, "waitpid");
    }
}

/* What is left --------------------------------------------------------------------------------- */

static void wrong(unsigned writer, unsigned key, const char *what)
{
    fprintf(stderr, "crash_calls: life %u (seed %llu): writer %u key %u: %s; kept: %s\n", life,
            (unsigned long long)life_seed, writer, key, what, dir);
    exit(1);
}

/* What is left of a transaction that was under way. */
struct torn_tail_found {
    bool done, undone; /* some of its writes */
};

/* A write that was under way has happened or not; from now on that is so. */
static void check_key(struct kvstore *store, unsigned writer, unsigned key,
                      struct torn_tail_found *torn_tail)
{
    static uint8_t value[VALUE_MAX_BYTES], expected[VALUE_MAX_BYTES];
    struct state *state = &shared->keys[writer][key];
    struct kvstore_entry entry = {0};
    char text[32];
    uint64_t found = 0;
    enum kv_status status =
        kvstore_get(store, key_of(writer, key, text), value, sizeof value, &entry);
    if (status != KV_OK && status != KV_NOT_FOUND)
        wrong(writer, key, kv_status_name(status));
    if (status == KV_OK) {
        memcpy(&found, value, sizeof found);
        if (!kv_slice_equal(kv_slice(value, entry.value_bytes), value_of(found, expected)))
            wrong(writer, key, "a value that was never written");
    }
    bool pending = atomic_load(&state->is_pending) && found == atomic_load(&state->pending);
    if (found != atomic_load(&state->token) && !pending)
        wrong(writer, key,
              found == 0 ? "an acknowledged put is gone" : "another value than the last");
    if (atomic_load(&state->is_pending) &&
        atomic_load(&state->pending) != atomic_load(&state->token) &&
        (atomic_load(&shared->transacting[writer]) >> key & 1) != 0)
        *(pending ? &torn_tail->done : &torn_tail->undone) = true;
    atomic_store(&state->token, found);
    atomic_store(&state->is_pending, false);
    if (entry.version > atomic_load(&state->version))
        atomic_store(&state->version, entry.version);
}

static void check_writer(struct kvstore *store, unsigned writer)
{
    struct torn_tail_found torn_tail = {0};
    for (unsigned key = 0; key < KEYS; key++)
        check_key(store, writer, key, &torn_tail);
    if (torn_tail.done && torn_tail.undone)
        wrong(writer, 0, "a part of a transaction");
    halves_could_be += torn_tail.done || torn_tail.undone;
    atomic_store(&shared->transacting[writer], 0);
}

static void check_store(void)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore *store;
    struct kv_error error = {0};
    enum kv_status status = kvstore_open(dir, &options, &store, &error);
    if (status == KV_NOT_FOUND && atomic_load(&shared->writes) == 0)
        return; /* killed while it was made */
    if (status != KV_OK)
        wrong(0, 0, error.text);
    for (unsigned writer = 0; writer < WRITERS; writer++)
        check_writer(store, writer);
    if (kvstore_get(store, kv_slice_from_string(REFUSED_PREFIX "a"), NULL, 0, NULL) !=
            KV_NOT_FOUND ||
        kvstore_get(store, kv_slice_from_string(REFUSED_PREFIX "b"), NULL, 0, NULL) != KV_NOT_FOUND)
        wrong(0, 0, "a part of a transaction that was refused");
    kvstore_close(store, NULL);
}

/* Making a store takes 12,000 calls, in which a directory is looked through: it is left to be made
 * by the first life in one of a few. */
static bool begin_store(const char *parent)
{
    struct kvstore_options options = {.create = true, .datafiles = DATAFILES};
    struct kvstore *store;
    struct kv_error error = {0};
    snprintf(dir, sizeof dir, "%s/store-%u", parent, life);
    require(mkdir(dir, 0700) == 0, dir);
    memset(shared, 0, sizeof *shared);
    atomic_store(&shared->next_token, 1);
    if (life / LIVES_OF_STORE % 4 == 3)
        return false;
    if (kvstore_open(dir, &options, &store, &error) != KV_OK)
        wrong(0, 0, error.text);
    kvstore_close(store, NULL);
    return true;
}

/* What the last one has left in shared memory goes with an opening. */
static void remove_store(void)
{
    char command[5000];
    struct kvstore *store;
    if (kvstore_open(dir, NULL, &store, NULL) == KV_OK)
        kvstore_close(store, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    require(system(command) == 0, dir);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: crash_calls DIR KILLS SEED\n");
        return 2;
    }
    struct random_state random;
    random_seed(&random, strtoull(argv[3], NULL, 0));
    unsigned kills = 0, wanted = (unsigned)strtoul(argv[2], NULL, 0);
    uint64_t writes = 0;
    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED, "mmap");
    for (life = 0; kills < wanted; life++) {
        bool is_made = life % LIVES_OF_STORE != 0 || begin_store(argv[1]);
        life_seed = random_next(&random);
        uint64_t calls = is_made ? up_to_log2(&random, MAX_CALL_LOG2)
                                 : random_below(&random, UINT64_C(1) << MAKING_CALLS_LOG2);
        uint64_t steps = up_to_log2(&random, MAX_STEPS_LOG2);
        pid_t child = fork();
        require(child >= 0, "fork");
        if (child == 0)
            live();
        kills += run_to(child, calls, steps);
        if (shared->failure[0] != '\0')
            wrong(0, 0, shared->failure);
        check_store();
        if (life % LIVES_OF_STORE == LIVES_OF_STORE - 1 || kills == wanted) {
            writes += atomic_load(&shared->writes);
            remove_store();
        }
    }
    printf("%u kills at a system call or some instructions after it, %llu writes acknowledged, "
           "%u transactions under way\n",
           kills, (unsigned long long)writes, halves_could_be);
    return 0;
}
