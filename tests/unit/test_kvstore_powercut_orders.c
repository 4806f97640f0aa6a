/*
 * The power is cut before each call of the file layer that a short life of a store makes, and the
 * store opened from what a disk may then hold: not from one such state, chosen at random with torn
 * sectors, as test_kvstore_powercut does for long lives, but from all of them, or so many. What was
 * acknowledged as durable is there; what is there was written; and every state opens.
 */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/report/log.h"
#include "common/numbers/random.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"
#include "tests/support/powercut.h"
#include "tests/support/skip.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/write_journal.h"
#include "tests/support/test_suite.h"

/* $MQKV_POWERCUT_STATES: how many states of one moment are tried; all of them if there are no
 * more. */
#ifdef MQKV_SANITIZER /* each is looked at by a process of its own, whose making is slow then */
#define STATES 1u
#else
#define STATES 6u
#endif
#define KEYS            6u
#define VALUE_MAX_BYTES 9000u

static char dir[STORE_DIR_BYTES];
static char cut_dir[STORE_DIR_BYTES];
static struct random_state randomness;
static pthread_mutex_t cut_mutex = PTHREAD_MUTEX_INITIALIZER; /* covers what follows */
static unsigned moments;
static uint64_t states_tried;
static char failure[512];
static bool store_exists; /* for certain, that is: kvstore_open has returned */

static struct kv_slice key_text(unsigned key, char text[16])
{
    snprintf(text, 16, "key-%02u", key);
    return kv_slice_from_string(text);
}

static struct kv_slice value_of(uint64_t token, uint8_t buffer[VALUE_MAX_BYTES])
{
    size_t size = token % 3 == 0 ? VALUE_MAX_BYTES / 8 * 8 : token % 3 == 1 ? 8 : 600;
    for (size_t at = 0; at < size; at += sizeof token)
        memcpy(buffer + at, &token, sizeof token);
    return kv_slice(buffer, size);
}

/* In a process of its own: the file layer of this one waits. Ends with 0, or says what is wrong. */
static int judge(bool must_exist)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore *store;
    struct kv_error error = {0};
    static uint8_t value[VALUE_MAX_BYTES], expected[VALUE_MAX_BYTES];
    fileio = &fileio_system;
    enum kv_status status = kvstore_open(cut_dir, &options, &store, &error);
    if (status == KV_NOT_FOUND && !must_exist)
        return 0;
    if (status != KV_OK) {
        printf("open: %s", error.text);
        return 1;
    }
    for (unsigned key = 0; key < KEYS; key++) {
        char text[16];
        uint64_t token = 0;
        struct kvstore_entry entry = {0};
        status = kvstore_get(store, key_text(key, text), value, sizeof value, &entry);
        memcpy(&token, value, sizeof token);
        const char *wrong = status == KV_NOT_FOUND ? journal_judge_absent(key)
                            : status != KV_OK      ? kv_status_name(status)
                                              : journal_judge_present(key, token, entry.version);
        if (!wrong && status == KV_OK &&
            !kv_slice_equal(kv_slice(value, entry.value_bytes), value_of(token, expected)))
            wrong = "the value is none that was written";
        if (wrong) {
            printf("%s: %s", text, wrong);
            return 1;
        }
    }
    kvstore_close(store, NULL);
    return 0;
}

static void try_state(uint64_t state, bool must_exist)
{
    char text[300] = "";
    int ends[2], status;
    store_dir_remove(cut_dir);
    store_dir_make(cut_dir);
    powercut_restore_state(cut_dir, state);
    journal_end_cut(); /* writes to a mapping went on until then */
    if (pipe(ends) != 0)
        abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        int result = judge(must_exist);
        fflush(stdout);
        _exit(result);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    if (child < 0 || got < 0 || waitpid(child, &status, 0) != child)
        abort();
    states_tried++;
    if (status != 0 && failure[0] == '\0')
        snprintf(failure, sizeof failure, "moment %u, state %llu: %s (%#x)", moments,
                 (unsigned long long)state, text, (unsigned)status);
}

/* Some of the states, or all, of this moment. */
static void before_call(void *context)
{
    (void)context;
    const char *wanted = getenv("MQKV_POWERCUT_STATES");
    uint64_t most = wanted ? strtoull(wanted, NULL, 0) : STATES;
    pthread_mutex_lock(&cut_mutex);
    bool must_exist = store_exists;
    journal_begin_cut();
    powercut_cut();
    uint64_t states = powercut_states();
    moments++;
    for (uint64_t i = 0; i < (states < most ? states : most) && failure[0] == '\0'; i++)
        try_state(states <= most ? i : random_below(&randomness, states), must_exist);
    powercut_go_on();
    pthread_mutex_unlock(&cut_mutex);
}

static void write_key(struct kvstore *store, unsigned key, uint64_t token, bool durable)
{
    static uint8_t buffer[VALUE_MAX_BYTES];
    char text[16];
    struct kvstore_written written;
    enum write_kind kind = token == 0 ? WRITE_DELETE : WRITE_PUT;
    size_t attempt = journal_attempt(key, kind, token);
    enum kv_status status =
        kind == WRITE_DELETE
            ? kvstore_delete(store, key_text(key, text), 0, &written)
            : kvstore_put(store, key_text(key, text), value_of(token, buffer), NULL, &written);
    ck_assert_int_eq(status, KV_OK);
    journal_done(attempt, written.version);
    if (!durable)
        return;
    ck_assert_int_eq(kvstore_wait_durable(store, written.ticket), KV_OK);
    journal_acknowledge(attempt);
}

/* All keys from the first one on, in both data files, which a commit log makes durable with one
 * sync. */
static void write_together(struct kvstore *store, unsigned first_key, uint64_t token)
{
    struct kvstore_ticket tickets[KEYS];
    size_t attempts[KEYS];
    for (unsigned key = first_key; key < KEYS; key++) {
        static uint8_t buffer[VALUE_MAX_BYTES];
        char text[16];
        struct kvstore_written written;
        attempts[key] = journal_attempt(key, WRITE_PUT, token);
        ck_assert_int_eq(
            kvstore_put(store, key_text(key, text), value_of(token++, buffer), NULL, &written),
            KV_OK);
        journal_done(attempts[key], written.version);
        tickets[key] = written.ticket;
    }
    for (unsigned key = first_key; key < KEYS; key++)
        kvstore_request_sync(store, tickets[key]);
    for (unsigned key = first_key; key < KEYS; key++) {
        ck_assert_int_eq(kvstore_wait_durable(store, tickets[key]), KV_OK);
        journal_acknowledge(attempts[key]);
    }
}

static struct kvstore *open_it(enum kvstore_durability durability, enum kvstore_io io)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 2,
                                      .durability = durability,
                                      .io = io,
                                      .sync_interval_ms = 5,
                                      .compact_dead_percent = 100};
    struct kvstore *store = must_open(dir, &options);
    pthread_mutex_lock(&cut_mutex);
    store_exists = true;
    pthread_mutex_unlock(&cut_mutex);
    return store;
}

/* Writes, deletes, compacts, closes, and goes on after the checkpoint. */
static void lead_life(enum kvstore_durability durability, enum kvstore_io io)
{
    uint64_t token = 1;
    struct kvstore *store = open_it(durability, io);
    for (unsigned key = 0; key < KEYS; key++)
        write_key(store, key, token++, durability == KVSTORE_SYNC_ALWAYS && key % 2 == 0);
    if (durability == KVSTORE_SYNC_ALWAYS) {
        write_together(store, 0, token);
        write_together(store, 3, token + KEYS);
        token += (uint64_t)2 * KEYS;
    }
    write_key(store, 1, 0, true);
    write_key(store, 2, token++, false);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    write_key(store, 3, token++, durability != KVSTORE_SYNC_NONE);
    write_key(store, 4, token++, false);
    ck_assert_int_eq(kvstore_compact(store, 1, NULL), KV_OK);
    must_close(store);
    journal_acknowledge_done();
    store = open_it(durability, io);
    write_key(store, 5, token++, false);
    write_key(store, 0, token++, true);
    must_close(store);
}

/* With a mapping, and by calls; KVSTORE_IO_DIRECT writes as KVSTORE_IO_PREAD does. */
#define WRITING_WAYS 2

START_TEST(every_state_of_every_moment_opens_with_what_was_acknowledged)
{
#ifdef __SANITIZE_THREAD__
    SKIP_TEST("the thread sanitizer forbids threads in the child of a process with threads");
#endif
    log_set_level(LOG_LEVEL_ERROR);
    random_seed(&randomness, 1 + (uint64_t)_i);
    store_dir_make(dir);
    store_dir_make(cut_dir);
    journal_clear();
    powercut_install(dir, 1 + (uint64_t)_i);
    powercut_set_hook(before_call, NULL);
    lead_life((enum kvstore_durability)(_i / WRITING_WAYS), (enum kvstore_io)(_i % WRITING_WAYS));
    powercut_clear();
    ck_assert_msg(failure[0] == '\0', "%s", failure);
    ck_assert_uint_gt(moments, 40);
    ck_assert_uint_ge(states_tried, moments);
    printf("# %" PRIu64 " states of the disk at %u moments\n", states_tried, moments);
    store_dir_remove(dir);
    store_dir_remove(cut_dir);
}
END_TEST

TEST_SUITE(kvstore_powercut_orders)
{
    TCase *tests = tcase_create("orders");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, every_state_of_every_moment_opens_with_what_was_acknowledged, 0,
                        (KVSTORE_SYNC_ALWAYS + 1) * WRITING_WAYS);
    suite_add_tcase(suite, tests);
}
