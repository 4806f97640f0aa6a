/*
 * takeover_kills: kill -9 of a program that writes to a store, at any instruction, many times, with
 * the index in shared memory. The next opening takes the index over, file by file; what it has is
 * compared item by item with what the logs say. Then the next program goes on from there.
 *
 *   takeover_kills DIR KILLS SEED      DIR: a directory to make the store in. Exit status 0, or 1:
 *                                      something differs
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "kvstore/shared/shared_store.h"
#include "mqkv/kvstore.h"
#include "tests/support/store_variants.h"
#include "tests/support/index_facts.h"

#define DATAFILES   4u
#define KEYS        30000u
#define LIFE_MAX_US 20000u
#define STORE_LIVES 250u /* then a new store: this one has become large */
#define VALUE_BYTES 60u

static char dir[4096];
static unsigned life;
static uint64_t *ready; /* shared: the program has opened the store */

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "takeover_kills: life %u: %s; kept: %s\n", life, what, dir);
    exit(1);
}

static struct kvstore *open_it(struct random_state *random)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = DATAFILES,
                                      .direct = KVSTORE_DIRECT_OWNER,
                                      .locking = random_below(random, 2) ? optimistic_if_there()
                                                                         : KVSTORE_FILE_RWLOCK,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .compact_min_bytes = 65536,
                                      .compact_dead_percent = random_below(random, 2) ? 30 : 100};
    struct kvstore *store;
    struct kv_error error = {0};
    if (kvstore_open(dir, &options, &store, &error) == KV_OK)
        return store;
    require(false, error.text);
    return NULL;
}

static void write_once(struct kvstore *store, struct random_state *random, uint64_t range)
{
    char key[32], value[VALUE_BYTES] = {0};
    struct kvstore_put_options options = {0};
    int size = snprintf(key, sizeof key, "key %u", (unsigned)random_below(random, range));
    struct kv_slice slice = kv_slice(key, (size_t)size);
    enum kv_status status;
    if (random_below(random, 4) == 0) {
        status = kvstore_delete(store, slice, 0, NULL);
    } else {
        if (random_below(random, 8) == 0)
            options.expiry_ms = clock_realtime_ms() + 100000000;
        status = kvstore_put(store, slice, kv_slice(value, random_below(random, VALUE_BYTES)),
                             &options, NULL);
    }
    if (status != KV_OK && status != KV_NOT_FOUND)
        _exit(3);
}

static void live(uint64_t seed)
{
    struct random_state random;
    random_seed(&random, seed);
    struct kvstore *store = open_it(&random);
    uint64_t range = UINT64_C(1) << random_below(&random, 15);
    __atomic_store_n(ready, 1, __ATOMIC_RELEASE);
    for (;;)
        write_once(store, &random, range < KEYS ? range : KEYS);
}

static void take(struct index_facts *facts, struct kvstore *store)
{
    index_facts_take(facts, store);
    kvstore_close(store, NULL);
}

/* In a process of its own, which leaves the store as one that is killed does. Exit status: how many
 * files were taken over. */
static void check(struct random_state *random)
{
    const struct kvstore_options reading = {.read_only = true};
    struct kvstore *read_only;
    struct kv_error error = {0};
    struct index_facts rebuilt, found;
    if (kvstore_open(dir, &reading, &read_only, &error) != KV_OK)
        require(false, error.text);
    take(&rebuilt, read_only);
    struct kvstore *store = open_it(random);
    struct kvstore_direct_facts facts;
    kvstore_direct_facts(store, &facts);
    index_facts_take(&found, store);
    for (uint32_t number = 0; number < DATAFILES; number++) {
        struct kvstore_file_statistics file;
        kvstore_file_statistics(store, number, &file);
        if (!file.taken_over) /* versions go on higher after a look at the log */
            found.words[number].max_version = rebuilt.words[number].max_version;
    }
    const char *difference = index_facts_difference(&rebuilt, &found);
    require(!difference, difference);
    _exit((int)(100 + facts.taken_over_files));
}

static unsigned check_in_a_process(struct random_state *random)
{
    uint64_t seed = random_next(random);
    int status;
    pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        struct random_state own;
        random_seed(&own, seed);
        check(&own);
    }
    require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) >= 100,
            "the check failed");
    return (unsigned)WEXITSTATUS(status) - 100;
}

/* True: it was killed after it had opened the store. */
static bool kill_one(struct random_state *random)
{
    uint64_t seed = random_next(random);
    uint64_t wait_us = random_below(random, LIFE_MAX_US);
    bool in_open = random_below(random, 10) == 0; /* it need not have come far */
    int status;
    *ready = 0;
    pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0)
        live(seed);
    while (!in_open && !__atomic_load_n(ready, __ATOMIC_ACQUIRE) &&
           waitpid(child, &status, WNOHANG) == 0)
        usleep(100);
    usleep((useconds_t)wait_us);
    bool opened = __atomic_load_n(ready, __ATOMIC_ACQUIRE);
    kill(child, SIGKILL);
    require(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "the program ended");
    return opened;
}

static void begin_store(const char *parent, struct random_state *random)
{
    snprintf(dir, sizeof dir, "%s/takeover-%u", parent, life);
    require(mkdir(dir, 0700) == 0, strerror(errno));
    kvstore_close(open_it(random), NULL);
}

/* The index goes with a store that is closed. */
static bool index_is_left(const struct stat *place)
{
    struct shared_store_name name = shared_store_name(place->st_dev, place->st_ino);
    int object = shm_open(name.text, O_RDONLY | O_CLOEXEC, 0);
    if (object >= 0)
        close(object);
    return object >= 0;
}

static void remove_store(struct random_state *random)
{
    char command[5000];
    struct stat place;
    require(stat(dir, &place) == 0, strerror(errno));
    require(kvstore_close(open_it(random), NULL) == KV_OK, "close");
    require(!index_is_left(&place), "its index is left in shared memory");
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    require(system(command) == 0, dir);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: takeover_kills DIR KILLS SEED\n");
        return 2;
    }
    struct random_state random;
    random_seed(&random, strtoull(argv[3], NULL, 0));
    unsigned wanted = (unsigned)strtoul(argv[2], NULL, 0);
    unsigned files = 0, opened = 0;
    log_set_level(LOG_LEVEL_ERROR);
    ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(ready != MAP_FAILED, "mmap");
    for (life = 0; life < wanted; life++) {
        if (life % STORE_LIVES == 0)
            begin_store(argv[1], &random);
        bool whole = kill_one(&random);
        unsigned taken = check_in_a_process(&random);
        opened += whole;
        files += whole ? taken : 0;
        if (life % STORE_LIVES == STORE_LIVES - 1 || life == wanted - 1)
            remove_store(&random);
    }
    printf(
        "%u kills, %u of them while it wrote: %u of %u files taken over, all as their logs say\n",
        wanted, opened, files, opened * DATAFILES);
    /* One file at most is being written to when the program is killed. */
    if (files < opened * (DATAFILES - 1)) {
        fprintf(stderr, "takeover_kills: too few\n");
        return 1;
    }
    return 0;
}
