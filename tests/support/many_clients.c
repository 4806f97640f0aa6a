/*
 * many_clients: so many client processes at once, each with a handle of its own.
 *
 *     many_clients NAME PROCESSES SECONDS
 *
 * All connect, and wait for one another; then each puts and gets a key of its own for SECONDS (0:
 * once). Prints one line: processes that were connected at the same time, operations of all, those
 * of the slowest and of the fastest process, and wrong or failed operations.
 */
#include <err.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/text/parse.h"
#include "common/time/clock.h"
#include "mqkv/clientk.h"

#define MOST_PROCESSES 4000u
#define TIMEOUT_MS     60000u

/* Shared by all processes. */
struct board {
    atomic_uint connected, failed;
    atomic_ulong wrong;
    atomic_ulong operations[MOST_PROCESSES];
};

static struct board *board;
static int gate[2]; /* a pipe; the end of the file lets all begin */

static void count(atomic_ulong *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Puts the key and gets it back. */
static bool round_trip(struct clientk *client, struct kv_slice key, uint64_t number,
                       struct clientk_value *value)
{
    struct kv_slice written = kv_slice(&number, sizeof number);
    return clientk_put(client, key, written, NULL, NULL) == KV_OK &&
           clientk_get(client, key, value) == KV_OK && value->size == sizeof number &&
           memcmp(value->data, &number, sizeof number) == 0;
}

static void work(struct clientk *client, unsigned process, uint64_t run_ms)
{
    char key[32];
    struct clientk_value value = {0};
    snprintf(key, sizeof key, "process %u", process);
    uint64_t until_ms = clock_monotonic_coarse_ms() + run_ms;
    uint64_t number = 0;
    do {
        if (!round_trip(client, kv_slice_from_string(key), number++, &value))
            count(&board->wrong);
        atomic_fetch_add_explicit(&board->operations[process], 2, memory_order_relaxed);
    } while (clock_monotonic_coarse_ms() < until_ms);
    clientk_value_free(&value);
}

/* The others may come and go: each waits until all have tried to connect. */
static int be_client(const char *name, unsigned process, uint64_t run_ms)
{
    struct clientk_options options = {.queue = name, .timeout_ms = TIMEOUT_MS};
    struct clientk *client;
    struct kv_error error;
    if (clientk_open(&options, &client, &error) != KV_OK) {
        if (atomic_fetch_add(&board->failed, 1) == 0)
            warnx("%s", error.text);
        return 1;
    }
    atomic_fetch_add(&board->connected, 1);
    char nothing;
    close(gate[1]);
    while (read(gate[0], &nothing, 1) != 0)
        ;
    work(client, process, run_ms);
    clientk_close(client);
    return 0;
}

static void start_all(const char *name, unsigned processes, uint64_t run_ms)
{
    for (unsigned i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0)
            err(1, "fork");
        if (child == 0)
            _exit(be_client(name, i, run_ms));
    }
    while (atomic_load(&board->connected) + atomic_load(&board->failed) < processes)
        clock_sleep_ms(2);
    close(gate[1]);
}

int main(int argc, char **argv)
{
    uint64_t processes, seconds;
    if (argc != 4 || !parse_u64(argv[2], 1, MOST_PROCESSES, &processes) ||
        !parse_u64(argv[3], 0, 3600, &seconds))
        errx(2, "usage: many_clients NAME PROCESSES SECONDS");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || pipe(gate) != 0)
        err(1, "cannot begin");
    start_all(argv[1], (unsigned)processes, seconds * 1000);
    while (wait(NULL) > 0)
        ;
    unsigned long all = 0, slowest = ULONG_MAX, fastest = 0;
    for (unsigned i = 0; i < processes; i++) {
        unsigned long own = atomic_load(&board->operations[i]);
        all += own;
        slowest = own < slowest ? own : slowest;
        fastest = own > fastest ? own : fastest;
    }
    printf("%u %lu %lu %lu %lu\n", atomic_load(&board->connected), all, slowest, fastest,
           atomic_load(&board->wrong));
    return 0;
}
