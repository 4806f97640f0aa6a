/*
 * crash_loop: kill -9 of the daemon under load, again and again, with an account of every
 * acknowledged write kept outside of it.
 *
 *     crash_loop SERVERK KVCHECK DIR QUEUE SYNC ROUNDS SEED [SERVERK-OPTION...]
 *
 * Each key has one writer, which writes the numbers 1, 2, 3 ... to it (a multiple of DELETE_EVERY
 * deletes it) and keeps two of them beside: the last attempted and the last acknowledged. After
 * each kill the store is checked by kvcheck, the daemon is started again, and every key must hold a
 * number between the two, whole, with the bytes that belong to it. SYNC is the daemon's --sync, or
 * "mixed" for another one each round.
 *
 * Exit status: 0 nothing was lost; 1 something was (told on stdout); 2 usage; 3 could not run.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"

#define MAX_OPTIONS   16 /* of serverk, on the command line */
#define THREADS       6u
#define KEYS_A_THREAD 64u
#define DELETE_EVERY  7u
#define BIG_EVERY     97u /* one write in so many is too big for a message */
#define SMALL_BYTES   600u
#define BIG_BYTES     20000u
#define MAX_RUN_MS    400u

struct account {
    uint64_t attempted;
    uint64_t acknowledged;
};

struct loop {
    const char *serverk, *kvcheck, *dir, *queue, *sync;
    char **options; /* of serverk, beside these */
    int option_count;
    uint64_t rounds;
    struct random_state random;
    pid_t daemon;
    struct clientk *client;
    _Atomic bool stop;
    struct account accounts[THREADS][KEYS_A_THREAD];
    _Atomic uint64_t acknowledged, unknown;
};

struct loop_writer {
    struct loop *loop;
    uint32_t number;
    pthread_t thread;
};

/* The key's name and the value that belongs to a number: its size and bytes follow from both. */
static struct kv_slice key_name(char name[32], uint32_t thread, uint32_t key)
{
    return kv_slice(name, (size_t)snprintf(name, 32, "crash.%" PRIu32 ".%" PRIu32, thread, key));
}

static size_t fill_value(char *value, uint32_t thread, uint32_t key, uint64_t number)
{
    struct random_state random;
    random_seed(&random, number * 4096 + thread * 64 + key);
    size_t size = 24 + random_below(&random, number % BIG_EVERY ? SMALL_BYTES : BIG_BYTES);
    int head = snprintf(value, 24, "%" PRIu64 ":", number);
    for (size_t i = (size_t)head; i < size; i++)
        value[i] = (char)random_next(&random);
    return size;
}

static pid_t fork_child(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        err(3, "fork");
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void start_daemon(struct loop *loop)
{
    static const char *const levels[] = {"none", "interval:20", "always"};
    const char *sync =
        strcmp(loop->sync, "mixed") == 0 ? levels[random_below(&loop->random, 3)] : loop->sync;
    loop->daemon = fork_child();
    if (loop->daemon == 0) {
        const char *arguments[7 + MAX_OPTIONS + 1] = {loop->serverk, "-m",     loop->queue, "-f",
                                                      loop->dir,     "--sync", sync};
        for (int i = 0; i < loop->option_count; i++)
            arguments[7 + i] = loop->options[i];
        execv(loop->serverk, (char *const *)(uintptr_t)arguments);
        err(127, "%s", loop->serverk);
    }
}

static void kill_daemon(struct loop *loop)
{
    kill(loop->daemon, SIGKILL);
    waitpid(loop->daemon, NULL, 0);
    loop->daemon = 0;
}

/* A store that was killed must look sound to kvcheck too: a torn tail is no damage. */
static bool check_files(const struct loop *loop)
{
    int status;
    pid_t pid = fork_child();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(127);
        execl(loop->kvcheck, loop->kvcheck, loop->dir, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    printf("kvcheck found damage (status %d)\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return false;
}

static void write_next(struct loop_writer *writer, uint32_t key, char *value)
{
    struct loop *loop = writer->loop;
    struct account *account = &loop->accounts[writer->number][key];
    uint64_t number = account->attempted + 1;
    char name[32];
    struct kv_slice slice = key_name(name, writer->number, key);
    enum kv_status status;

    account->attempted = number;
    if (number % DELETE_EVERY == 0)
        status = clientk_delete(loop->client, slice, NULL, NULL);
    else
        status = clientk_put(loop->client, slice,
                             kv_slice(value, fill_value(value, writer->number, key, number)), NULL,
                             NULL);
    if (status == KV_OK || (status == KV_NOT_FOUND && number % DELETE_EVERY == 0)) {
        account->acknowledged = number;
        atomic_fetch_add(&loop->acknowledged, 1);
    } else {
        atomic_fetch_add(&loop->unknown, 1);
    }
}

static void *write_until_stopped(void *argument)
{
    struct loop_writer *writer = argument;
    struct random_state random;
    char *value = malloc(BIG_BYTES + 64);

    if (!value)
        err(3, "malloc");
    random_seed(&random, clock_monotonic_ns() + writer->number);
    while (!atomic_load(&writer->loop->stop))
        write_next(writer, (uint32_t)random_below(&random, KEYS_A_THREAD), value);
    free(value);
    return NULL;
}

/* True if the key may be absent: a delete lies between the two numbers, or nothing was
 * acknowledged yet. */
static bool may_be_absent(const struct account *account)
{
    return account->acknowledged == 0 ||
           account->attempted / DELETE_EVERY * DELETE_EVERY >= account->acknowledged;
}

static bool verify_key(struct loop *loop, uint32_t thread, uint32_t key, struct clientk_value *got,
                       char *expected)
{
    const struct account *account = &loop->accounts[thread][key];
    char name[32];
    enum kv_status status = clientk_get(loop->client, key_name(name, thread, key), got);

    if (status == KV_NOT_FOUND && may_be_absent(account))
        return true;
    if (status != KV_OK) {
        printf("%s: %s; acknowledged %" PRIu64 ", attempted %" PRIu64 "\n", name,
               kv_status_text(status), account->acknowledged, account->attempted);
        return false;
    }
    uint64_t number = strtoull(got->data, NULL, 10);
    if (number < account->acknowledged || number > account->attempted) {
        printf("%s: holds %" PRIu64 "; acknowledged %" PRIu64 ", attempted %" PRIu64 "\n", name,
               number, account->acknowledged, account->attempted);
        return false;
    }
    size_t size = fill_value(expected, thread, key, number);
    if (size != got->size || memcmp(expected, got->data, size) != 0) {
        printf("%s: the bytes are not those of number %" PRIu64 "\n", name, number);
        return false;
    }
    return true;
}

/* Reads every key; what is found is from then on the last acknowledged. */
static bool verify_all(struct loop *loop)
{
    struct clientk_value got = {0};
    char *expected = malloc(BIG_BYTES + 64);
    bool sound = true;

    if (!expected)
        err(3, "malloc");
    for (uint32_t thread = 0; thread < THREADS; thread++)
        for (uint32_t key = 0; key < KEYS_A_THREAD; key++)
            sound = verify_key(loop, thread, key, &got, expected) && sound;
    clientk_value_free(&got);
    free(expected);
    return sound;
}

static bool one_round(struct loop *loop)
{
    struct loop_writer writers[THREADS];

    atomic_store(&loop->stop, false);
    for (uint32_t i = 0; i < THREADS; i++) {
        writers[i] = (struct loop_writer){.loop = loop, .number = i};
        if (pthread_create(&writers[i].thread, NULL, write_until_stopped, &writers[i]) != 0)
            errx(3, "cannot start a thread");
    }
    clock_sleep_ms(20 + random_below(&loop->random, MAX_RUN_MS));
    kill_daemon(loop);
    atomic_store(&loop->stop, true);
    bool sound = check_files(loop);
    start_daemon(loop);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(writers[i].thread, NULL);
    return verify_all(loop) && sound;
}

static bool run_rounds(struct loop *loop)
{
    struct kv_error error = {0};
    bool sound = true;

    start_daemon(loop);
    if (clientk_open(&(struct clientk_options){.queue = loop->queue, .timeout_ms = 20000},
                     &loop->client, &error) != KV_OK) {
        kill_daemon(loop);
        errx(3, "%s", error.text);
    }
    for (uint64_t i = 0; i < loop->rounds && sound; i++) {
        sound = one_round(loop);
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rround %" PRIu64 " of %" PRIu64 ": %" PRIu64 " writes acknowledged",
                    i + 1, loop->rounds, atomic_load(&loop->acknowledged));
    }
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    clientk_close(loop->client);
    kill(loop->daemon, SIGTERM);
    waitpid(loop->daemon, NULL, 0);
    return sound;
}

int main(int argc, char **argv)
{
    static struct loop loop;
    uint64_t seed;

    if (argc < 8 || argc > 8 + MAX_OPTIONS || !parse_u64(argv[6], 1, 1000000, &loop.rounds) ||
        !parse_u64(argv[7], 0, UINT64_MAX, &seed))
        errx(2, "usage: crash_loop SERVERK KVCHECK DIR QUEUE SYNC ROUNDS SEED [SERVERK-OPTION...]");
    loop.serverk = argv[1];
    loop.kvcheck = argv[2];
    loop.dir = argv[3];
    loop.queue = argv[4];
    loop.sync = argv[5];
    loop.options = argv + 8;
    loop.option_count = argc - 8;
    random_seed(&loop.random, seed);
    bool sound = run_rounds(&loop);
    printf("%" PRIu64 " kills at --sync %s: %" PRIu64 " writes acknowledged, %" PRIu64
           " of unknown fate, %s\n",
           loop.rounds, loop.sync, atomic_load(&loop.acknowledged), atomic_load(&loop.unknown),
           sound ? "nothing lost" : "DATA LOST");
    return sound ? 0 : 1;
}
