/*
 * The power is cut, at any moment of a store's life, and the store opened from what a disk may then
 * hold: again and again, life after life of the same store. Nothing that was acknowledged may be
 * missing, nothing that was never written may be found, nothing that was lost may come back, and no
 * version may be given twice.
 */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/numbers/random.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"
#include "tests/support/store_variants.h"
#include "tests/support/powercut.h"
#include "tests/support/store_files.h"
#include "tests/support/write_journal.h"
#include "tests/support/test_suite.h"

/* $MQKV_POWERCUT_LIVES and $MQKV_POWERCUT_SEED: for a longer search. */
#define LIVES               72u
#define LIVES_OF_STORE      9u /* then a new store */
#define WRITERS             3u
#define MAX_OPERATIONS_LOG2 8u /* of a writer; few are as likely as many */
#define DATAFILES           3u
#define VALUE_MAX_BYTES     20000u
#define KEY_BYTES           16

static char dir[STORE_DIR_BYTES];     /* of this life */
static char cut_dir[STORE_DIR_BYTES]; /* what the cut left of it */
static struct random_state random_main;
static enum kvstore_durability durability;
static unsigned life;
static uint64_t seed;

static struct kvstore *store; /* while the writers run */
static atomic_bool cut_done;
static atomic_bool life_over;
static atomic_bool store_was_open;     /* the store exists */
static bool store_was_open_before_cut; /* it must be found */
static atomic_uint next_token;

/* The first thing that went wrong in a thread. */
static pthread_mutex_t failure_mutex = PTHREAD_MUTEX_INITIALIZER;
static char failure[1024];

static void note_failure(const char *what, const char *detail)
{
    pthread_mutex_lock(&failure_mutex);
    if (failure[0] == '\0')
        snprintf(failure, sizeof failure, "%s: %s", what, detail);
    pthread_mutex_unlock(&failure_mutex);
}

static void note_version_given_twice(unsigned key, uint64_t version)
{
    char text[96];
    snprintf(text, sizeof text, "key-%02u is given %" PRIu64 ", but had %" PRIu64 " before", key,
             version, journal_last_version(key));
    note_failure("version", text);
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static struct kv_slice key_text(unsigned key, char text[KEY_BYTES])
{
    snprintf(text, KEY_BYTES, "key-%02u", key);
    return kv_slice_from_string(text);
}

/* The value that a token stands for: the token, and bytes that follow from it, some of them over
 * pages. Records are multiples of 32 bytes, that of a delete included: a new one often ends where
 * an old one did, whose remains may follow. An odd token is of a record with an expiry. */
static struct kv_slice value_of(uint64_t token, uint8_t buffer[VALUE_MAX_BYTES])
{
    static const size_t sizes_in_words[] = {4,  4,  28,  28,   28,
                                            28, 28, 124, 1124, VALUE_MAX_BYTES / 8};
    struct random_state random;
    random_seed(&random, token);
    size_t words =
        sizes_in_words[random_below(&random, sizeof sizes_in_words / sizeof sizes_in_words[0])] -
        token % 2;
    memcpy(buffer, &token, sizeof token);
    for (size_t i = 1; i < words; i++) {
        uint64_t word = random_next(&random);
        memcpy(buffer + i * sizeof word, &word, sizeof word);
    }
    return kv_slice(buffer, words * sizeof token);
}

/* The cut -------------------------------------------------------------------------------------- */

struct cut {
    atomic_uint calls_left; /* of the file layer before the cut */
    atomic_bool taken;
    struct random_state random;
};

static struct cut cut;

static void cut_the_power(void)
{
    if (atomic_exchange(&cut.taken, true))
        return;
    store_was_open_before_cut = atomic_load(&store_was_open);
    journal_begin_cut();
    powercut_cut();
    powercut_restore(cut_dir, &cut.random);
    journal_end_cut(); /* before any call goes on: what comes after one is not of this life */
    atomic_store(&cut_done, true);
    powercut_go_on();
}

static void before_call(void *context)
{
    (void)context;
    if (atomic_fetch_sub(&cut.calls_left, 1) == 1)
        cut_the_power();
}

/* A life --------------------------------------------------------------------------------------- */

/* As a daemon waits: the sync is another thread's, and may be one of several files. */
static enum kv_status wait_for_others_sync(struct kvstore_ticket ticket)
{
    kvstore_request_sync(store, ticket);
    while (!kvstore_is_durable(store, ticket))
        sched_yield();
    return KV_OK;
}

static void write_once(struct random_state *random)
{
    char text[KEY_BYTES];
    static _Thread_local uint8_t buffer[VALUE_MAX_BYTES];
    unsigned key = (unsigned)random_below(random, JOURNAL_KEYS);
    static const enum write_kind kinds[] = {WRITE_PUT, WRITE_PUT,      WRITE_PUT,
                                            WRITE_PUT, WRITE_EXPIRING, WRITE_DELETE};
    enum write_kind kind = kinds[random_below(random, sizeof kinds / sizeof kinds[0])];
    uint64_t token =
        ((uint64_t)life << 32) + 2 * atomic_fetch_add(&next_token, 1) + (kind == WRITE_EXPIRING);
    struct kvstore_put_options options = {0};
    if (kind == WRITE_EXPIRING)
        options.expiry_ms = clock_realtime_ms() + random_below(random, 4);

    struct kvstore_written written;
    size_t attempt = journal_attempt(key, kind, token);
    enum kv_status status =
        kind == WRITE_DELETE
            ? kvstore_delete(store, key_text(key, text), 0, &written)
            : kvstore_put(store, key_text(key, text), value_of(token, buffer), &options, &written);
    if (kind == WRITE_DELETE && status == KV_NOT_FOUND) {
        journal_failed(attempt);
        return;
    }
    if (status != KV_OK) {
        note_failure("write", kv_status_name(status));
        return;
    }
    journal_done(attempt, written.version);
    if (written.version <= journal_last_version(key))
        note_version_given_twice(key, written.version);
    if (durability != KVSTORE_SYNC_ALWAYS && random_below(random, 50) != 0)
        return;
    status = random_below(random, 2) == 0 ? kvstore_wait_durable(store, written.ticket)
                                          : wait_for_others_sync(written.ticket);
    if (status == KV_OK)
        journal_acknowledge(attempt);
    else
        note_failure("wait_durable", kv_status_name(status));
}

static void *write_many(void *argument)
{
    struct random_state random;
    random_seed(&random, (uint64_t)(uintptr_t)argument);
    uint64_t most = UINT64_C(1) << random_below(&random, MAX_OPERATIONS_LOG2 + 1);
    for (uint64_t left = random_below(&random, most); left > 0; left--) {
        if (atomic_load(&cut_done))
            break;
        write_once(&random);
        clock_sleep_ms(random_below(&random, 8) == 0); /* a life is to last some milliseconds */
    }
    return NULL;
}

static void compact_now_and_then(struct random_state *random)
{
    struct kv_error error = {0};
    for (uint64_t left = random_below(random, 8); left > 0 && !atomic_load(&cut_done); left--) {
        clock_sleep_ms(random_below(random, 3));
        if (kvstore_compact(store, (uint32_t)random_below(random, DATAFILES), &error) != KV_OK)
            note_failure("compact", error.text);
        if (random_below(random, 16) == 0) /* before other syncs make up for what it forgot */
            cut_the_power();
    }
}

static struct kvstore_options options_of_life(struct random_state *random)
{
    struct kvstore_options options = {
        .create = true,
        .datafiles = DATAFILES,
        .durability = durability,
        .locking = (enum kvstore_locking)random_below(random, (uint64_t)locking_count()),
        .sync_interval_ms = (uint32_t)random_below(random, 20) + 1,
        .sweep_interval_ms = 1,
        .compact_min_bytes = 8192,
        .compact_dead_percent = random_below(random, 2) == 0 ? 20 : 100};
    return options;
}

/* Opens the store, writes, and closes it. */
static bool use_store(struct random_state *random)
{
    struct kv_error error = {0};
    struct kvstore_options options = options_of_life(random);
    if (kvstore_open(dir, &options, &store, &error) != KV_OK) {
        note_failure("open", error.text);
        return false;
    }
    atomic_store(&store_was_open, true);
    pthread_t writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_create(&writers[i], NULL, write_many, (void *)(uintptr_t)random_next(random));
    compact_now_and_then(random);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    if (kvstore_close(store, &error) != KV_OK) {
        note_failure("close", error.text);
        return false;
    }
    journal_acknowledge_done();
    return true;
}

/* Mostly the power goes somewhere in the middle of it. */
static void *lead_life(void *argument)
{
    struct random_state random;
    random_seed(&random, (uint64_t)(uintptr_t)argument);
    for (uint64_t left = 1 + random_below(&random, 3); left > 0 && !atomic_load(&cut_done); left--)
        if (!use_store(&random))
            break;
    atomic_store(&life_over, true);
    return NULL;
}

/* Lives until the power goes: before some call of the file layer, or after some time. */
static void live_and_cut(void)
{
    atomic_store(&cut_done, false);
    atomic_store(&life_over, false);
    atomic_store(&cut.taken, false);
    random_seed(&cut.random, random_next(&random_main));
    bool at_a_call = random_next(&random_main) % 2 == 0;
    uint64_t reach = UINT64_C(1) << random_below(&random_main, 9);
    atomic_store(&cut.calls_left, at_a_call ? 1 + (unsigned)random_below(&random_main, reach) : 0);
    uint64_t rest_ms = random_below(&random_main, at_a_call ? 100 : 20);

    powercut_install(dir, random_next(&random_main));
    powercut_set_hook(before_call, NULL);
    pthread_t world;
    pthread_create(&world, NULL, lead_life, (void *)(uintptr_t)random_next(&random_main));
    for (; rest_ms > 0 && !atomic_load(&cut_done) && !atomic_load(&life_over); rest_ms--) {
        clock_sleep_ms(1);
        powercut_write_back();
    }
    cut_the_power();
    pthread_join(world, NULL);
    powercut_clear();
}

/* What the cut left ---------------------------------------------------------------------------- */

/* What the log files say of a key, read without the engine. */
struct written_down {
    bool present;
    uint64_t version;
};

static struct written_down written_down[JOURNAL_KEYS];

/* What the commit log has of the file is put into it. */
static void apply_commit_log(const struct image_file *log, struct image_file *file,
                             const struct file_identity *identity)
{
    uint64_t epoch;
    if (!log || log->size < COMMIT_HEADER_BYTES ||
        !commit_header_read(log->bytes, identity->store_seed, &epoch))
        return;
    struct commit_entry entry;
    for (uint64_t at = COMMIT_HEADER_BYTES;
         commit_entry_read(log->bytes + at, log->size - at, epoch, at, &entry);
         at += commit_entry_size(entry.size)) {
        if (entry.number != identity->number || entry.salt != identity->salt)
            continue;
        ck_assert_uint_le(entry.offset + entry.size, file->size);
        memcpy(file->bytes + entry.offset, log->bytes + at + COMMIT_ENTRY_BYTES, entry.size);
    }
}

static void read_log(const struct image_file *commit_log, struct image_file *file)
{
    struct file_identity identity;
    if (file->size < FILE_HEADER_BYTES || strlen(file->name) != strlen("data.0000") ||
        fileheader_read_identity(file->bytes, &identity) != FILEHEADER_VALID)
        return;
    apply_commit_log(commit_log, file, &identity);
    struct record record;
    uint64_t size_bytes;
    for (uint64_t at = FILE_HEADER_BYTES;
         record_read(file->bytes + at, file->size - at, identity.salt, at, &record, &size_bytes) ==
         RECORD_VALID;
         at += size_bytes) {
        char number[KEY_BYTES] = "";
        memcpy(number, (const char *)record.key.data + 4, record.key.size - 4);
        written_down[atoi(number)] = (struct written_down){
            record.kind == RECORD_PUT && record.expiry_ms == 0, record.version};
    }
}

/* Whether there is a store at all. */
static bool read_logs(void)
{
    struct image image;
    memset(written_down, 0, sizeof written_down);
    image_take(&image, cut_dir);
    for (size_t i = 0; i < image.count; i++)
        read_log(image_find(&image, COMMIT_LOG_NAME), &image.files[i]);
    bool there = image_find(&image, "data.0000") != NULL;
    image_free(&image);
    return there;
}

#define assert_right(condition, ...)                                                            \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            char right_text[1200];                                                              \
            snprintf(right_text, sizeof right_text, __VA_ARGS__);                               \
            ck_abort_msg("seed %llu, life %u: %s", (unsigned long long)seed, life, right_text); \
        }                                                                                       \
    } while (0)

/* Judges the value of a key, and notes it as what the next life begins with. */
static void check_key(struct kvstore *found, unsigned key, struct kvstore_entry *entry,
                      uint64_t *token)
{
    char text[KEY_BYTES];
    static uint8_t value[VALUE_MAX_BYTES], expected[VALUE_MAX_BYTES];
    enum kv_status status = kvstore_get(found, key_text(key, text), value, sizeof value, entry);
    *token = 0;
    if (status == KV_NOT_FOUND) {
        const char *wrong = journal_judge_absent(key);
        assert_right(!wrong, "%s: %s", text, wrong);
        assert_right(!written_down[key].present, "%s: it is on disk, but is not found", text);
        return;
    }
    assert_right(status == KV_OK, "get %s: %s", text, kv_status_name(status));
    memcpy(token, value, sizeof *token);
    const char *wrong = journal_judge_present(key, *token, entry->version);
    assert_right(!wrong, "%s: %s", text, wrong);
    assert_right(entry->version == written_down[key].version, "%s: not the newest on disk", text);
    assert_right(kv_slice_equal(kv_slice(value, entry->value_bytes), value_of(*token, expected)),
                 "%s: the value is none that was written", text);
}

static void check_store(void)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore_entry entries[JOURNAL_KEYS];
    uint64_t tokens[JOURNAL_KEYS];
    struct kvstore *found;
    struct kv_error error = {0};
    assert_right(kvstore_open(cut_dir, &options, &found, &error) == KV_OK, "%s", error.text);
    for (unsigned key = 0; key < JOURNAL_KEYS; key++)
        check_key(found, key, &entries[key], &tokens[key]);
    kvstore_close(found, NULL);

    journal_next_life();
    for (unsigned key = 0; key < JOURNAL_KEYS; key++) {
        if (tokens[key] == 0)
            continue;
        enum write_kind kind = entries[key].expiry_ms != 0 ? WRITE_EXPIRING : WRITE_PUT;
        size_t attempt = journal_attempt(key, kind, tokens[key]);
        journal_done(attempt, entries[key].version);
        journal_acknowledge(attempt);
    }
}

static void check_what_is_left(void)
{
    assert_right(failure[0] == '\0', "%s", failure);
    bool there = read_logs();
    assert_right(there || !store_was_open_before_cut, "the store is gone");
    if (there)
        check_store();
    else
        journal_next_life();
    atomic_store(&store_was_open, there);
}

static void begin_new_store(void)
{
    store_dir_remove(dir);
    store_dir_make(dir);
    journal_clear();
    atomic_store(&store_was_open, false);
}

START_TEST(every_cut_leaves_a_sound_store)
{
    durability = (enum kvstore_durability)_i;
    seed = number_from_environment("MQKV_POWERCUT_SEED", 1) + (uint64_t)_i;
    uint64_t lives = number_from_environment("MQKV_POWERCUT_LIVES", LIVES);
    log_set_level(LOG_LEVEL_ERROR);
    random_seed(&random_main, seed);
    store_dir_make(dir);
    for (life = 1; life <= lives; life++) {
        if (life % LIVES_OF_STORE == 1)
            begin_new_store();
        store_dir_make(cut_dir);
        live_and_cut();
        check_what_is_left();
        store_dir_remove(dir);
        strcpy(dir, cut_dir);
    }
    store_dir_remove(dir);
    printf("# %" PRIu64 " lives, each ended by a power cut\n", lives);
}
END_TEST

TEST_SUITE(kvstore_powercut)
{
    TCase *tests = tcase_create("powercut");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, every_cut_leaves_a_sound_store, KVSTORE_SYNC_NONE,
                        KVSTORE_SYNC_ALWAYS + 1);
    suite_add_tcase(suite, tests);
}
