/* Reads without messages while the engine, in this process, writes, grows and compacts. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct.h"
#include "clientk/direct/direct_scan.h"
#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "tests/support/store_variants.h"
#include "tests/support/client_calls.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define COUNTERS 64u
#define READERS  3u
#define RUN_MS   1500u

/* One writer raises the counters; who reads one must find at least what was there before. */
struct live_store {
    char dir[STORE_DIR_BYTES];
    struct kvstore *store;
    struct client_settings settings;
    struct direct direct;
    atomic_ulong written[COUNTERS]; /* what the last put that has returned wrote */
    atomic_bool stop;
};

static struct live_store live;

static struct kv_slice counter_key(char buffer[32], unsigned number)
{
    snprintf(buffer, 32, "counter %u", number);
    return kv_slice_from_string(buffer);
}

static void put_counter(unsigned number, unsigned long value, size_t padding)
{
    static char text[40000];
    char key[32];
    int length = snprintf(text, sizeof text, "%lu ", value);
    memset(text + length, 'x', padding);
    struct kvstore_put_options options = {0};
    enum kv_status status = kvstore_put(live.store, counter_key(key, number),
                                        kv_slice(text, (size_t)length + padding), &options, NULL);
    ck_assert_int_eq(status, KV_OK);
    atomic_store(&live.written[number], value);
}

static void begin(uint32_t datafiles, enum kvstore_locking locking, enum clientk_direct mode)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = datafiles,
                                      .locking = locking,
                                      .durability = KVSTORE_SYNC_NONE,
                                      .compact_dead_percent = 100,
                                      .direct = KVSTORE_DIRECT_OWNER};
    struct kvstore_direct_facts facts;
    store_dir_make(live.dir);
    live.store = must_open(live.dir, &options);
    kvstore_direct_facts(live.store, &facts);
    ck_assert_int_eq(facts.direct, KVSTORE_DIRECT_OWNER);
    live.settings = (struct client_settings){.direct = mode};
    direct_init(&live.direct, &live.settings);
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 1,
                                   .store_device = facts.device,
                                   .store_inode = facts.inode,
                                   .store_number = facts.number};
    int pidfd = eventfd(0, EFD_CLOEXEC); /* of a daemon that never ends */
    direct_welcome(&live.direct, &welcome, geteuid(), (struct direct_server){.fd = pidfd});
    close(pidfd);
    atomic_store(&live.stop, false);
    for (unsigned i = 0; i < COUNTERS; i++)
        put_counter(i, 1, 0);
}

static void end(void)
{
    uint64_t reads, asks;
    direct_readers_sum(&live.direct.readers, &reads, &asks);
    ck_assert_uint_gt(reads, 0);
    direct_free(&live.direct);
    must_close(live.store);
    store_dir_remove(live.dir);
}

static void join(struct direct_reader *reader)
{
    *reader = (struct direct_reader){.era = 0};
    handles_lock();
    direct_readers_join(&live.direct.readers, reader);
    handles_unlock();
}

static void leave(struct direct_reader *reader)
{
    handles_lock();
    direct_readers_leave(&live.direct.readers, reader);
    handles_unlock();
}

static void *read_counters(void *argument)
{
    struct direct_reader reader;
    struct random_state random;
    struct clientk_value value = {.data = NULL};
    unsigned long seen[COUNTERS] = {0};
    random_seed(&random, (uintptr_t)argument);
    join(&reader);
    while (!atomic_load(&live.stop)) {
        char key[32];
        unsigned number = (unsigned)random_below(&random, COUNTERS);
        unsigned long before = atomic_load(&live.written[number]);
        enum kv_status status = KV_IO;
        if (!direct_get(&live.direct, &reader, counter_key(key, number), true, &value, &status))
            continue;
        ck_assert_int_eq(status, KV_OK);
        unsigned long found = strtoul(value.data, NULL, 10);
        ck_assert_uint_ge(found, before);
        ck_assert_uint_ge(found, seen[number]);
        seen[number] = found;
    }
    leave(&reader);
    clientk_value_free(&value);
    return NULL;
}

/* Each counter is visited once, whatever else comes and goes. */
static bool see_counter(void *context, const struct clientk_entry *entry)
{
    unsigned *seen = context;
    char key[32] = "";
    ck_assert_uint_lt(entry->key.size, sizeof key);
    memcpy(key, entry->key.data, entry->key.size);
    unsigned number = (unsigned)atoi(key + strlen("counter "));
    ck_assert_uint_lt(number, COUNTERS);
    ck_assert_uint_eq(seen[number]++, 0);
    return true;
}

static void *scan_counters(void *unused)
{
    (void)unused;
    struct direct_reader reader;
    struct clientk_result page = {.status = KV_OK};
    join(&reader);
    while (!atomic_load(&live.stop)) {
        unsigned seen[COUNTERS] = {0};
        struct clientk_scan_options options = {.limit = 10};
        bool whole = true;
        do {
            whole = direct_scan_page(&live.direct, &reader, kv_slice_from_string("counter"),
                                     &options, &page);
            if (!whole)
                break;
            ck_assert_int_eq(page.status, KV_OK);
            assert_status(clientk_read_page(&page.value, see_counter, seen), KV_OK);
            options.cursor = (uint64_t)page.number;
        } while (options.cursor != 0);
        for (unsigned i = 0; whole && i < COUNTERS; i++)
            ck_assert_uint_eq(seen[i], 1);
    }
    leave(&reader);
    clientk_value_free(&page.value);
    return NULL;
}

static void *compact_always(void *unused)
{
    (void)unused;
    uint32_t files = kvstore_datafiles(live.store);
    struct kv_error error = {0};
    for (uint32_t file = 0; !atomic_load(&live.stop); file = (file + 1) % files) {
        enum kv_status status = kvstore_compact(live.store, file, &error);
        ck_assert_msg(status == KV_OK, "%s", error.text);
    }
    return NULL;
}

/* Raises counters, and puts and takes away other keys, so that the index grows and moves. */
static void *write_counters(void *unused)
{
    (void)unused;
    struct random_state random;
    random_seed(&random, 7);
    for (unsigned long round = 2; !atomic_load(&live.stop); round++) {
        char key[32];
        size_t padding = random_below(&random, 20) == 0 ? random_below(&random, 30000) : 10;
        put_counter((unsigned)random_below(&random, COUNTERS), round, padding);
        snprintf(key, sizeof key, "other %lu", round);
        must_put(live.store, key, "1");
        snprintf(key, sizeof key, "other %lu", round / 2);
        if (round % 2 == 0)
            kvstore_delete(live.store, kv_slice_from_string(key), 0, NULL);
    }
    return NULL;
}

/* Takes the name of the index away, time and again, and has it made anew. */
static void *renew_always(void *unused)
{
    (void)unused;
    while (!atomic_load(&live.stop)) {
        struct kvstore_direct_facts facts;
        kvstore_direct_facts(live.store, &facts);
        if (!facts.is_gone)
            shm_unlink(facts.name);
        kvstore_renew_index(live.store);
        clock_sleep_ms(20);
    }
    kvstore_renew_index(live.store);
    return NULL;
}

/* Beside a thread for `beside`; NULL: none. */
static void run_beside(void *(*beside)(void *unused))
{
    pthread_t readers[READERS], scanner, writer, compactor, other;
    for (uintptr_t i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_counters, (void *)(i + 1)), 0);
    ck_assert_int_eq(pthread_create(&scanner, NULL, scan_counters, NULL), 0);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_counters, NULL), 0);
    ck_assert_int_eq(pthread_create(&compactor, NULL, compact_always, NULL), 0);
    if (beside)
        ck_assert_int_eq(pthread_create(&other, NULL, beside, NULL), 0);
    clock_sleep_ms(RUN_MS);
    atomic_store(&live.stop, true);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(scanner, NULL);
    pthread_join(writer, NULL);
    pthread_join(compactor, NULL);
    if (beside)
        pthread_join(other, NULL);
}

static void run_all(uint32_t datafiles, enum kvstore_locking locking, enum clientk_direct mode)
{
    begin(datafiles, locking, mode);
    run_beside(NULL);
    end();
}

START_TEST(readers_see_what_was_written_with_one_file)
{
    run_all(1, KVSTORE_FILE_RWLOCK, CLIENTK_DIRECT_MAP);
}
END_TEST

START_TEST(readers_see_what_was_written_with_four_files)
{
    run_all(4, optimistic_if_there(), CLIENTK_DIRECT_MAP);
}
END_TEST

START_TEST(readers_see_what_was_written_with_calls)
{
    run_all(2, KVSTORE_FILE_RWLOCK, CLIENTK_DIRECT_PREAD);
}
END_TEST

/* A reader that keeps its session finds each new object, the last one within a moment. */
START_TEST(an_index_that_is_made_anew_is_followed)
{
    struct direct_reader reader;
    struct clientk_value value = {.data = NULL};
    enum kv_status status = KV_IO;
    char key[32];
    begin(2, _i == 0 ? KVSTORE_FILE_RWLOCK : optimistic_if_there(), CLIENTK_DIRECT_MAP);
    run_beside(renew_always);
    join(&reader);
    put_counter(1, 123456789, 0);
    bool read = false;
    for (unsigned looks = 0; !read && looks < 300; looks++) {
        clock_sleep_ms(50);
        read = direct_get(&live.direct, &reader, counter_key(key, 1), true, &value, &status);
    }
    ck_assert(read);
    ck_assert_int_eq(status, KV_OK);
    ck_assert_str_eq(value.data, "123456789 ");
    clientk_value_free(&value);
    leave(&reader);
    end();
}
END_TEST

/* Many files: each has a mapping, or, read with calls, a share of the descriptors. */
static void read_many_files(enum clientk_direct mode)
{
    struct direct_reader reader;
    struct clientk_value value = {.data = NULL};
    begin(4096, KVSTORE_FILE_RWLOCK, mode);
    join(&reader);
    for (int i = 0; i < 5000; i++)
        must_put(live.store, numbered("many", i), "a value");
    for (int i = 0; i < 5000; i++) {
        enum kv_status status = KV_IO;
        ck_assert(direct_get(&live.direct, &reader, kv_slice_from_string(numbered("many", i)), true,
                             &value, &status));
        ck_assert_int_eq(status, KV_OK);
        ck_assert_str_eq(value.data, "a value");
    }
    clientk_value_free(&value);
    leave(&reader);
    end();
}

START_TEST(a_store_of_4096_files_is_read)
{
    read_many_files(CLIENTK_DIRECT_MAP);
    read_many_files(CLIENTK_DIRECT_PREAD);
}
END_TEST

/* Index and log grow from nothing to several times what a reader mapped at first. */
START_TEST(growth_is_followed)
{
    struct direct_reader reader;
    struct clientk_value value = {.data = NULL};
    begin(1, KVSTORE_FILE_RWLOCK, CLIENTK_DIRECT_MAP);
    join(&reader);
    for (int i = 0; i < 300000; i++) {
        enum kv_status status = KV_IO;
        must_put(live.store, numbered("grown", i), "some value that takes a few bytes");
        if (i % 100 != 0)
            continue;
        const char *key = numbered("grown", i - i / 3);
        ck_assert(
            direct_get(&live.direct, &reader, kv_slice_from_string(key), true, &value, &status));
        ck_assert_int_eq(status, KV_OK);
    }
    clientk_value_free(&value);
    leave(&reader);
    end();
}
END_TEST

/* Many enough for memory of the index to be given back before all of it is. */
#define MANY_KEYS  150000u
#define MANY_FILES 4u

static struct kv_slice many_key(char buffer[32], uint64_t number)
{
    snprintf(buffer, 32, "many %" PRIu64, number);
    return kv_slice_from_string(buffer);
}

static atomic_ulong reads_of_many;

static void *read_many(void *unused)
{
    (void)unused;
    struct direct_reader reader;
    struct clientk_value value = {.data = NULL};
    struct random_state random;
    random_seed(&random, 3);
    join(&reader);
    while (!atomic_load(&live.stop)) {
        char key[32];
        enum kv_status status = KV_IO;
        if (direct_get(&live.direct, &reader, many_key(key, random_below(&random, MANY_KEYS)), true,
                       &value, &status)) {
            ck_assert_int_eq(status, KV_OK);
            atomic_fetch_add(&reads_of_many, 1);
        }
    }
    leave(&reader);
    clientk_value_free(&value);
    return NULL;
}

START_TEST(no_key_is_absent_while_the_store_is_closed)
{
    pthread_t thread;
    begin(MANY_FILES, KVSTORE_FILE_RWLOCK, CLIENTK_DIRECT_MAP);
    for (uint64_t number = 0; number < MANY_KEYS; number++) {
        char key[32];
        struct kvstore_put_options options = {0};
        ck_assert_int_eq(
            kvstore_put(live.store, many_key(key, number), kv_slice("1", 1), &options, NULL),
            KV_OK);
    }
    atomic_store(&reads_of_many, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, read_many, NULL), 0);
    while (atomic_load(&reads_of_many) < 1000)
        clock_sleep_ms(1);
    must_close(live.store);
    atomic_store(&live.stop, true);
    pthread_join(thread, NULL);
    direct_free(&live.direct);
    store_dir_remove(live.dir);
}
END_TEST

TEST_SUITE(clientk_direct_live)
{
    TCase *tcase = tcase_create("direct_live");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, readers_see_what_was_written_with_one_file);
    tcase_add_test(tcase, readers_see_what_was_written_with_four_files);
    tcase_add_test(tcase, readers_see_what_was_written_with_calls);
    tcase_add_loop_test(tcase, an_index_that_is_made_anew_is_followed, 0, 2);
    tcase_add_test(tcase, a_store_of_4096_files_is_read);
    tcase_add_test(tcase, growth_is_followed);
    tcase_add_test(tcase, no_key_is_absent_while_the_store_is_closed);
    suite_add_tcase(suite, tcase);
}
