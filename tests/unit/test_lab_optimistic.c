#include "lab/locking/optimistic.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/numbers/random.h"
#include "kvstore/api/store.h"
#include "kvstore/format/fileheader.h"
#include "lab/locking/readers.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

static void open_store(enum kvstore_io io)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 2,
                                      .locking = KVSTORE_OPTIMISTIC,
                                      .io = io,
                                      .sweep_interval_ms = 1,
                                      .compact_min_bytes = 8192,
                                      .compact_dead_percent = 10};
    store = must_open(dir, &options);
}

/* Readers and writers at once ------------------------------------------------------------------ */

#define WRITERS        2
#define READERS        3
#define PERMANENT_KEYS 200   /* always there: every lookup must find them */
#define PASSING_KEYS   20000 /* put, deleted, expired */
#define STEPS          25000
#define MAX_BYTES      60000

static atomic_int writers_left;

static struct kv_slice key_of(char key[24], uint64_t number)
{
    return kv_slice(key, (size_t)snprintf(key, 24, "key %d", (int)number));
}

/* The value tells its key and the number of the write; size and bytes follow from both. */
static size_t fill_value(char *value, uint64_t key, uint64_t number)
{
    size_t size = 16 + (number % 50 == 0 ? number * 7919 % (MAX_BYTES - 16) : number % 300);
    for (size_t i = 0; i < size; i++)
        value[i] = (char)(key * 7 + number * 13 + i * i);
    memcpy(value, &key, sizeof key);
    memcpy(value + 8, &number, sizeof number);
    return size;
}

static bool write_once(struct random_state *random, uint64_t key, uint64_t number, char *value)
{
    char name[24];
    struct kvstore_put_options options = {0};
    struct kv_slice slice = key_of(name, key);
    uint64_t chance = random_below(random, 10);
    if (key >= PERMANENT_KEYS && chance < 3) {
        enum kv_status status = kvstore_delete(store, slice, 0, NULL);
        return status == KV_OK || status == KV_NOT_FOUND;
    }
    if (key >= PERMANENT_KEYS && chance < 5)
        options.expiry_ms = clock_realtime_ms() + random_below(random, 4);
    struct kv_slice bytes = kv_slice(value, fill_value(value, key, number));
    return kvstore_put(store, slice, bytes, &options, NULL) == KV_OK;
}

/* Writer w has the keys that are w modulo WRITERS to itself, so that numbers rise with each key. */
static void *write_much(void *argument)
{
    uint64_t writer = (uint64_t) * (int *)argument;
    const char *wrong = NULL;
    struct random_state random;
    random_seed(&random, writer);
    char *value = malloc(MAX_BYTES);
    for (uint64_t step = 1; value && step <= STEPS && !wrong; step++) {
        uint64_t keys = random_below(&random, 3) == 0 ? PERMANENT_KEYS : PASSING_KEYS;
        uint64_t key = random_below(&random, keys / WRITERS) * WRITERS + writer;
        if (!write_once(&random, key, PERMANENT_KEYS + step, value))
            wrong = "a write failed";
    }
    free(value);
    atomic_fetch_sub(&writers_left, 1);
    return (void *)(uintptr_t)wrong;
}

struct optimistic_reading {
    char value[MAX_BYTES];
    char expected[MAX_BYTES];
    uint64_t last[PASSING_KEYS]; /* number read of each key */
};

static const char *check_value(struct optimistic_reading *reading, uint64_t key, size_t size)
{
    uint64_t number;
    memcpy(&number, reading->value + 8, sizeof number);
    if (size < 16 || memcmp(reading->value, &key, sizeof key) != 0)
        return "the value of another key";
    if (fill_value(reading->expected, key, number) != size ||
        memcmp(reading->expected, reading->value, size) != 0)
        return "a value that was never written";
    if (number < reading->last[key])
        return "an older value after a newer one";
    reading->last[key] = number;
    return NULL;
}

static const char *read_once(struct random_state *random, struct optimistic_reading *reading)
{
    uint64_t keys = random_below(random, 2) == 0 ? PERMANENT_KEYS : PASSING_KEYS;
    uint64_t key = random_below(random, keys);
    char name[24];
    struct kvstore_entry entry = {0};
    bool wants_value = random_below(random, 8) != 0;
    enum kv_status status =
        kvstore_get(store, key_of(name, key), wants_value ? reading->value : NULL,
                    wants_value ? MAX_BYTES : 0, &entry);
    if (status == KV_NOT_FOUND && key >= PERMANENT_KEYS)
        return NULL;
    if (status != KV_OK)
        return kv_status_name(status);
    if (entry.version == 0 || entry.value_bytes < 16 || entry.value_bytes > MAX_BYTES)
        return "an entry that cannot be";
    return wants_value ? check_value(reading, key, entry.value_bytes) : NULL;
}

static void *read_much(void *argument)
{
    struct random_state random;
    random_seed(&random, 100 + (uint64_t) * (int *)argument);
    struct optimistic_reading *reading = calloc(1, sizeof *reading);
    const char *wrong = reading ? NULL : "no memory";
    while (!wrong && atomic_load(&writers_left) > 0)
        wrong = read_once(&random, reading);
    free(reading);
    return (void *)(uintptr_t)wrong;
}

static void put_permanent_keys(void)
{
    static char value[MAX_BYTES];
    char name[24];
    for (uint64_t key = 0; key < PERMANENT_KEYS; key++) {
        struct kv_slice bytes = kv_slice(value, fill_value(value, key, 1));
        ck_assert_int_eq(kvstore_put(store, key_of(name, key), bytes, NULL, NULL), KV_OK);
    }
}

/* The indices grow from one segment to dozens, the logs from one step of allocation to hundreds,
 * and the files are replaced as fast as they can be. */
START_TEST(every_value_read_is_one_that_was_written)
{
    pthread_t threads[WRITERS + READERS];
    int numbers[WRITERS + READERS];
    open_store((enum kvstore_io)_i);
    put_permanent_keys();
    atomic_store(&writers_left, WRITERS);
    for (int i = 0; i < WRITERS + READERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, i < WRITERS ? write_much : read_much, &numbers[i]),
            0);
    }
    uint64_t compactions = 0;
    for (; atomic_load(&writers_left) > 0; compactions++)
        ck_assert_int_eq(kvstore_compact(store, (uint32_t)(compactions % 2), NULL), KV_OK);
    for (int i = 0; i < WRITERS + READERS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
    }
    ck_assert_uint_gt(compactions, 0);
}
END_TEST

/* What takes a lock and what does not ---------------------------------------------------------- */

START_TEST(a_get_takes_no_lock)
{
    open_store(KVSTORE_IO_MMAP);
    char value[16];
    struct kvstore_entry entry;
    uint64_t version = must_put(store, "key", "value");
    uint32_t file = kvstore_file_of(store, kv_slice_from_string("key"));
    lockset_write_lock(store->context.locks,
                       file); /* a get that waited for it would never return */
    ck_assert_int_eq(kvstore_get(store, kv_slice_from_string("key"), value, sizeof value, &entry),
                     KV_OK);
    ck_assert_uint_eq(entry.version, version);
    ck_assert_uint_eq(entry.value_bytes, 5);
    ck_assert_int_eq(memcmp(value, "value", 5), 0);
    ck_assert_int_eq(kvstore_get(store, kv_slice_from_string("key"), value, 4, &entry),
                     KV_BUFFER_TOO_SMALL);
    ck_assert_int_eq(get_entry(store, "key", &entry), KV_OK);
    struct kv_slice absent;
    int number = 0;
    do
        absent = kv_slice_from_string(numbered("absent", number++));
    while (kvstore_file_of(store, absent) != file);
    ck_assert_int_eq(kvstore_get(store, absent, value, sizeof value, NULL), KV_NOT_FOUND);
    lockset_write_unlock(store->context.locks, file);
    struct kvstore_file_statistics sum = total_statistics(store);
    ck_assert_uint_eq(sum.read_retries, 0);
    ck_assert_uint_eq(sum.read_fallbacks, 0);
}
END_TEST

START_TEST(a_damaged_record_is_told)
{
    open_store(KVSTORE_IO_MMAP);
    char value[16], path[STORE_DIR_BYTES + 16];
    must_put(store, "key", "value");
    uint32_t file = kvstore_file_of(store, kv_slice_from_string("key"));
    snprintf(path, sizeof path, "%s/data.%04u", dir, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, "X", 1, FILE_HEADER_BYTES + RECORD_HEADER_BYTES + 3), 1);
    close(fd);
    ck_assert_int_eq(kvstore_get(store, kv_slice_from_string("key"), value, sizeof value, NULL),
                     KV_CORRUPT);
    ck_assert_uint_eq(atomic_load(&store->context.files[file].damage_lines), 1);
}
END_TEST

/* Readers -------------------------------------------------------------------------------------- */

static struct readers *readers;
static atomic_bool wait_is_over;

static void *wait_for_readers(void *unused)
{
    readers_wait(readers);
    atomic_store(&wait_is_over, true);
    return unused;
}

START_TEST(waiting_lasts_until_the_reader_leaves)
{
    pthread_t thread;
    readers = readers_create();
    readers_wait(readers);
    struct reader *reader = readers_enter(readers);
    ck_assert_ptr_nonnull(reader);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_readers, NULL), 0);
    for (int i = 0; i < 20; i++) {
        ck_assert(!atomic_load(&wait_is_over));
        clock_sleep_ms(1);
    }
    readers_leave(reader);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&wait_is_over));
    ck_assert_ptr_eq(readers_enter(readers), reader);
    readers_leave(reader);
    readers_free(readers);
}
END_TEST

#define CROWD (READERS_MAX + 5)

static pthread_barrier_t all_there;

/* Gets while every other thread has its place too, or none. */
static void *enter_and_get(void *unused)
{
    (void)unused;
    struct reader *reader = readers_enter(store->context.readers);
    if (reader)
        readers_leave(reader);
    pthread_barrier_wait(&all_there);
    const char *value = get_text(store, "key");
    bool right = value && strcmp(value, "value") == 0;
    pthread_barrier_wait(&all_there);
    return right ? (void *)reader : &all_there;
}

/* Each thread a place of its own while it lasts, and again when the first threads have ended; who
 * gets none reads with the lock. */
START_TEST(a_thread_without_a_place_takes_the_lock)
{
    open_store(KVSTORE_IO_MMAP);
    static pthread_t threads[CROWD];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    must_put(store, "key", "value");
    for (unsigned round = 1; round <= 2; round++) {
        unsigned places = 0;
        pthread_barrier_init(&all_there, NULL, CROWD);
        for (unsigned i = 0; i < CROWD; i++)
            ck_assert_int_eq(pthread_create(&threads[i], &small, enter_and_get, NULL), 0);
        for (unsigned i = 0; i < CROWD; i++) {
            void *place;
            pthread_join(threads[i], &place);
            ck_assert_ptr_ne(place, &all_there);
            places += place != NULL;
        }
        ck_assert_uint_eq(places, READERS_MAX);
        ck_assert_uint_eq(total_statistics(store).read_fallbacks, round * (CROWD - READERS_MAX));
        pthread_barrier_destroy(&all_there);
    }
    pthread_attr_destroy(&small);
}
END_TEST

TEST_SUITE(lab_optimistic)
{
    TCase *reads = tcase_create("reads");
    store_case_add(reads);
    tcase_add_loop_test(reads, every_value_read_is_one_that_was_written, 0, store_io_count());
    tcase_add_test(reads, a_get_takes_no_lock);
    tcase_add_test(reads, a_damaged_record_is_told);
    tcase_add_test(reads, a_thread_without_a_place_takes_the_lock);
    tcase_set_timeout(reads, 120);
    suite_add_tcase(suite, reads);
    TCase *places = tcase_create("readers");
    tcase_add_test(places, waiting_lasts_until_the_reader_leaves);
    tcase_set_timeout(places, 60);
    suite_add_tcase(suite, places);
}
