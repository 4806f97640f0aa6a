/* fork: a process forked while others write sees the store as it was at one moment, and goes on
 * doing so while they write on and files are compacted. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/store_variants.h"
#include "tests/support/skip.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEYS      200
#define FORKS     3
#define DATAFILES 3

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;
static atomic_int rounds;
static atomic_bool stop;

/* Writes the number of the round to all keys, one after the other: at any moment the keys up to
 * some one hold a number, and the rest the number before it. */
static void *write_rounds(void *unused)
{
    for (int round = 1; !atomic_load(&stop); round++) {
        char text[32];
        snprintf(text, sizeof text, "%d", round);
        for (int i = 0; i < KEYS; i++)
            must_put(store, numbered("key", i), text);
        atomic_store(&rounds, round);
    }
    return unused;
}

/* By the child: 0 if what it reads is of one moment. */
static int judge_snapshot(void)
{
    char value[32] = "";
    int last = 0;
    for (int i = 0; i < KEYS; i++) {
        struct kvstore_entry entry;
        if (kvstore_get(store, kv_slice_from_string(numbered("key", i)), value, sizeof value - 1,
                        &entry) != KV_OK)
            return 1;
        value[entry.value_bytes] = '\0';
        int number = atoi(value);
        if (i > 0 && number != last && number != last - 1)
            return 2;
        if (i > 1 && number > last)
            return 3;
        last = number;
    }
    return 0;
}

static bool count_visit(void *context, const struct kvstore_scanned *entry)
{
    (void)entry;
    ++*(int *)context;
    return true;
}

/* And 0 if a scan shows every entry. */
static int judge_scan(void)
{
    uint64_t cursor = 0;
    int entries = 0;
    do
        if (kvstore_scan(store, &cursor, kv_slice(NULL, 0), 100, count_visit, &entries, NULL) !=
            KV_OK)
            return 4;
    while (cursor != 0);
    return entries == KEYS ? 0 : 5;
}

/* Forks a child that reads when told to; the pipe's end for telling it is *go. */
static pid_t fork_reader(int *go)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    kvstore_fork_begin(store);
    pid_t pid = fork();
    if (pid == 0) {
        char told;
        kvstore_fork_in_child(store);
        close(ends[1]);
        if (read(ends[0], &told, 1) != 1)
            _exit(6);
        int verdict = judge_snapshot();
        _exit(verdict != 0 ? verdict : judge_scan());
    }
    kvstore_fork_end(store);
    close(ends[0]);
    *go = ends[1];
    return pid;
}

START_TEST(a_child_sees_one_moment)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = DATAFILES,
                                      .locking = (enum kvstore_locking)_i,
                                      .sweep_interval_ms = 1,
                                      .compact_dead_percent = 100};
    pthread_t writer;
    store_dir_make(dir);
    store = must_open(dir, &options);
    atomic_store(&stop, false);
    atomic_store(&rounds, 0);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_rounds, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int go, status;
        while (atomic_load(&rounds) <= i)
            clock_sleep_ms(1);
        pid_t child = fork_reader(&go);
        ck_assert_int_gt(child, 0);
        int forked_at = atomic_load(&rounds);
        while (atomic_load(&rounds) < forked_at + 2)
            clock_sleep_ms(1);
        for (uint32_t file = 0; file < DATAFILES; file++)
            ck_assert_int_eq(kvstore_compact(store, file, NULL), KV_OK);
        ck_assert_int_eq(write(go, "x", 1), 1);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
        close(go);
    }
    atomic_store(&stop, true);
    pthread_join(writer, NULL);
    must_close(store);
    store_dir_remove(dir);
}
END_TEST

#define LARGE_BYTES ((size_t)300000)

static char large_value[LARGE_BYTES];

static void put_large(const char *key, char letter)
{
    memset(large_value, letter, LARGE_BYTES);
    ck_assert_int_eq(kvstore_put(store, kv_slice_from_string(key),
                                 kv_slice(large_value, LARGE_BYTES), NULL, NULL),
                     KV_OK);
}

/* By the child: 0 if the key has `letter` alone. */
static int judge_large(const char *key, char letter)
{
    struct kvstore_entry entry;
    if (kvstore_get(store, kv_slice_from_string(key), large_value, LARGE_BYTES, &entry) != KV_OK)
        return 1;
    for (size_t i = 0; i < LARGE_BYTES; i++)
        if (large_value[i] != letter)
            return 2;
    return 0;
}

/* A child reads values whose places the parent, which has replaced and deleted them, would use
 * again; in the log, and in one that was compacted. */
START_TEST(a_child_reads_what_was_replaced)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 1,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .io = (enum kvstore_io)_i,
                                      .compact_dead_percent = 100};
    int status, ends[2];
    store_dir_make(dir);
    store = must_open(dir, &options);
    put_large("early", 'a');
    put_large("early", 'b'); /* the place of a is free at the fork */
    put_large("replaced", 'r');
    put_large("deleted", 'd');
    ck_assert_int_eq(pipe(ends), 0);
    kvstore_fork_begin(store);
    pid_t child = fork();
    if (child == 0) {
        char told;
        kvstore_fork_in_child(store);
        close(ends[1]);
        int verdict = read(ends[0], &told, 1) == 1 ? judge_large("early", 'b') : 3;
        verdict = verdict != 0 ? verdict : judge_large("replaced", 'r');
        _exit(verdict != 0 ? verdict : judge_large("deleted", 'd'));
    }
    kvstore_fork_end(store);
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string("deleted"), 0, NULL), KV_OK);
    for (int letter = 'A'; letter < 'G'; letter++) {
        put_large("replaced", (char)letter);
        put_large("other", (char)letter);
    }
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    for (int letter = 'G'; letter < 'M'; letter++)
        put_large("replaced", (char)letter);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
    close(ends[0]);
    close(ends[1]);
    must_close(store);
    store_dir_remove(dir);
}
END_TEST

#define CHILDREN 100

/* Opens, fills and closes stores in the directory, again and again. */
static void *open_and_close(void *own_dir)
{
    struct kvstore_options options = {.create = true, .datafiles = DATAFILES};
    while (!atomic_load(&stop)) {
        struct kvstore *own = must_open(own_dir, &options);
        must_put_numbers(own, 0, KEYS);
        must_close(own);
    }
    return NULL;
}

/* Whatever locks other threads of the parent held at the fork, the child is not kept waiting. */
START_TEST(a_child_opens_stores_of_its_own)
{
#ifdef __SANITIZE_THREAD__
    SKIP_TEST("the thread sanitizer forbids threads in the child of a process with threads");
#endif
#ifdef __SANITIZE_ADDRESS__
    SKIP_TEST("the address sanitizer's allocator may be locked in the child for ever");
#endif
    struct kvstore_options options = {.create = true, .datafiles = DATAFILES};
    char parents_dir[STORE_DIR_BYTES];
    pthread_t parent;
    store_dir_make(parents_dir);
    store_dir_make(dir);
    atomic_store(&stop, false);
    ck_assert_int_eq(pthread_create(&parent, NULL, open_and_close, parents_dir), 0);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            struct kvstore *own = NULL;
            alarm(60);
            if (kvstore_open(dir, &options, &own, NULL) != KV_OK)
                _exit(1);
            _exit(kvstore_close(own, NULL) == KV_OK ? 0 : 2);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
    }
    atomic_store(&stop, true);
    pthread_join(parent, NULL);
    store_dir_remove(parents_dir);
    store_dir_remove(dir);
}
END_TEST

TEST_SUITE(kvstore_fork)
{
    TCase *cases = tcase_create("fork");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, a_child_sees_one_moment, 0, locking_count());
    tcase_add_loop_test(cases, a_child_reads_what_was_replaced, KVSTORE_IO_MMAP,
                        KVSTORE_IO_DIRECT + 1);
    tcase_add_test(cases, a_child_opens_stores_of_its_own);
    suite_add_tcase(suite, cases);
}
