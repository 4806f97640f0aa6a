/* A store with max_bytes: what is refused, what is evicted, and what a restart keeps of it. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/time/clock.h"
#include "kvstore/log/fileio.h"
#include "tests/support/store_variants.h"
#include "tests/support/no_sync.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define MAX_BYTES   (UINT64_C(256) << 10)
#define VALUE_BYTES 1000
#define HOUR_MS     UINT64_C(3600000)

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;

static void open_with(enum kvstore_evict evict, enum kvstore_locking locking, uint64_t max_bytes)
{
    const struct kvstore_options options = {.create = true,
                                            .evict = evict,
                                            .max_bytes = max_bytes,
                                            .locking = locking,
                                            .sweep_interval_ms = 10};
    store = must_open(dir, &options);
}

static void set_up(void)
{
    no_sync_install();
    store_dir_make(dir);
}

static void tear_down(void)
{
    kvstore_close(store, NULL);
    store_dir_remove(dir);
}

static enum kv_status put_value(const char *key, size_t bytes, uint64_t expiry_ms)
{
    static char value[1 << 17];
    const struct kvstore_put_options options = {.expiry_ms = expiry_ms};
    return kvstore_put(store, kv_slice_from_string(key), kv_slice(value, bytes), &options, NULL);
}

static enum kv_status put(const char *key)
{
    return put_value(key, VALUE_BYTES, 0);
}

static bool has(const char *key)
{
    struct kvstore_entry entry;
    return get_entry(store, key, &entry) == KV_OK;
}

static bool read_value(const char *key)
{
    char buffer[VALUE_BYTES];
    return kvstore_get(store, kv_slice_from_string(key), buffer, sizeof buffer, NULL) == KV_OK;
}

static struct kvstore_bound_statistics bound(void)
{
    struct kvstore_bound_statistics statistics;
    kvstore_bound_statistics(store, &statistics);
    return statistics;
}

static bool is_true(void *flag)
{
    return atomic_load((atomic_bool *)flag);
}

static void check_sum(void)
{
    ck_assert_uint_eq(bound().live_bytes, total_statistics(store).live_bytes);
}

static int fill(void)
{
    int count = 0;
    while (put(numbered("fill", count)) == KV_OK)
        ck_assert_int_lt(count++, 1000);
    return count;
}

START_TEST(at_the_bound_writes_are_refused_that_would_add)
{
    open_with(KVSTORE_EVICT_NONE, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    int count = fill();
    ck_assert_int_eq(put(numbered("fill", count)), KV_FULL);
    ck_assert_uint_eq(bound().refusals, 2);
    ck_assert_uint_le(bound().live_bytes, MAX_BYTES);
    ck_assert_uint_gt(bound().live_bytes, MAX_BYTES - VALUE_BYTES - 64);
    uint32_t size;
    struct kv_slice more = kv_slice_from_string("0123456789012345678901234567890123456789");
    ck_assert_int_eq(put("fill 3"), KV_OK); /* no larger than it was */
    for (int i = 0; i < 100; i++)
        if (kvstore_append(store, kv_slice_from_string("fill 4"), more, &size, NULL) != KV_OK)
            break;
    ck_assert_int_eq(kvstore_append(store, kv_slice_from_string("fill 4"), more, &size, NULL),
                     KV_FULL);
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string("fill 5"), 0, NULL), KV_OK);
    ck_assert_int_eq(put(numbered("fill", count)), KV_OK);
    check_sum();
    ck_assert_uint_eq(bound().evictions, 0);
}
END_TEST

START_TEST(what_expires_or_is_compacted_is_counted)
{
    open_with(KVSTORE_EVICT_NONE, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(put_value(numbered("short", i), VALUE_BYTES, clock_realtime_ms() + 30),
                         KV_OK);
    int tries = 0;
    while (total_statistics(store).keys > 0 && tries++ < 3000)
        clock_sleep_ms(10);
    check_sum();
    ck_assert_uint_eq(bound().live_bytes, 0);
    fill();
    for (uint32_t file = 0; file < kvstore_datafiles(store); file++)
        ck_assert_int_eq(kvstore_compact(store, file, NULL), KV_OK);
    check_sum();
    ck_assert_int_eq(put("one more"), KV_FULL);
}
END_TEST

static atomic_bool place_was_asked, place_may_be_given, place_was_given;

/* Asked under the lock of the file. */
static void *slow_place(void *value, size_t bytes)
{
    uint64_t give_up_ms = clock_monotonic_coarse_ms() + 5000;
    ck_assert_uint_le(bytes, VALUE_BYTES);
    atomic_store(&place_was_asked, true);
    while (!atomic_load(&place_may_be_given) && clock_monotonic_coarse_ms() < give_up_ms)
        clock_sleep_ms(1);
    atomic_store(&place_was_given, true);
    return value;
}

static void *read_slowly(void *key)
{
    static char value[VALUE_BYTES];
    struct kvstore_entry entry;
    ck_assert_int_eq(kvstore_get_to(store, kv_slice_from_string(key), slow_place, value, &entry),
                     KV_OK);
    return NULL;
}

/* Above the bound, where nothing goes. */
START_TEST(without_eviction_a_write_waits_for_its_own_file_only)
{
    static char first[] = "fill 0";
    pthread_t reader;
    int other = 1;
    open_with(KVSTORE_EVICT_NONE, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    fill();
    ck_assert_int_eq(kvstore_set_max_bytes(store, MAX_BYTES / 2, NULL), KV_OK);
    while (kvstore_file_of(store, kv_slice_from_string(numbered("fill", other))) ==
           kvstore_file_of(store, kv_slice_from_string(first)))
        other++;
    ck_assert_int_eq(pthread_create(&reader, NULL, read_slowly, first), 0);
    ck_assert(wait_until(is_true, &place_was_asked));
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string(numbered("fill", other)), 0, NULL),
                     KV_OK);
    ck_assert(!atomic_load(&place_was_given));
    atomic_store(&place_may_be_given, true);
    pthread_join(reader, NULL);
    ck_assert_uint_gt(bound().live_bytes, MAX_BYTES / 2);
    check_sum();
}
END_TEST

/* With each strategy, whether there is a cache or a reader without a lock. */
START_TEST(s3fifo_keeps_what_is_read)
{
    unsigned misses = 0;
    open_with(KVSTORE_EVICT_S3FIFO, (enum kvstore_locking)_i, MAX_BYTES);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(put(numbered("read", i)), KV_OK);
    for (int i = 0; i < 5000; i++) {
        ck_assert_int_eq(put(numbered("once", i)), KV_OK);
        if (i % 20 == 0)
            for (int read = 0; read < 20; read++)
                if (!read_value(numbered("read", read))) {
                    misses++;
                    ck_assert_int_eq(put(numbered("read", read)), KV_OK);
                }
        ck_assert_uint_le(bound().live_bytes, MAX_BYTES);
    }
    ck_assert_uint_le(misses, 20); /* keys of other hashes share a counter; of a queue: some 400 */
    check_sum();
    ck_assert_uint_gt(bound().evictions, 4000);
    ck_assert_uint_gt(bound().evicted_bytes, UINT64_C(4000) * VALUE_BYTES);
    ck_assert(!has("once 0"));
    ck_assert(has("once 4999"));
    ck_assert_int_eq(put_value("large", MAX_BYTES / 8, 0), KV_FULL);
    ck_assert_int_eq(put_value("large", MAX_BYTES / 8 - 100, 0), KV_OK);
    ck_assert_uint_le(bound().live_bytes, MAX_BYTES);
}
END_TEST

/* What was evicted does not come back, whether the index was kept or is made anew. */
START_TEST(a_restart_keeps_the_order)
{
    open_with(KVSTORE_EVICT_S3FIFO, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(put(numbered("once", i)), KV_OK);
    uint64_t keys = total_statistics(store).keys;
    must_close(store);
    open_with(KVSTORE_EVICT_S3FIFO, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    ck_assert_uint_eq(total_statistics(store).keys, keys);
    ck_assert_uint_eq(bound().evictions, 0);
    check_sum();
    ck_assert(!has("once 0"));
    must_close(store);
    open_with(KVSTORE_EVICT_S3FIFO, KVSTORE_FILE_RWLOCK, MAX_BYTES / 2);
    ck_assert_uint_le(bound().live_bytes, MAX_BYTES / 2);
    ck_assert(has("once 999")); /* the older ones went */
    ck_assert_int_eq(kvstore_set_max_bytes(store, MAX_BYTES / 4, NULL), KV_OK);
    ck_assert_uint_le(bound().live_bytes, MAX_BYTES / 4);
    ck_assert_int_eq(kvstore_set_max_bytes(store, 10, NULL), KV_USAGE);
}
END_TEST

#define LASTING 20000

static bool only_the_lasting_are_left(void *context)
{
    struct kvstore_file_statistics total = total_statistics(context);
    return total.keys == LASTING && total.expiring_keys == 0 && total.compactions > 0;
}

/* The sweeper takes entries out, and the compactor replaces the file, while the order of eviction
 * is made of what was there at the start. */
START_TEST(a_restart_counts_once_what_goes_meanwhile)
{
    const struct kvstore_options patient = {
        .create = true, .datafiles = 1, .sweep_interval_ms = HOUR_MS, .compact_dead_percent = 100};
    const struct kvstore_options eager = {.evict = KVSTORE_EVICT_S3FIFO,
                                          .max_bytes = UINT64_C(64) << 20,
                                          .sweep_interval_ms = 1,
                                          .compact_dead_percent = 40,
                                          .compact_min_bytes = 1000};
    store = must_open(dir, &patient);
    for (int i = 0; i < LASTING; i++) {
        for (int round = 0; round < 3; round++)
            ck_assert_int_eq(put_value(numbered("lasting", i), 10, 0), KV_OK);
        ck_assert_int_eq(put_value(numbered("expired", i), 10, 1), KV_OK);
    }
    must_close(store);
    store = must_open(dir, &eager);
    ck_assert(wait_until(only_the_lasting_are_left, store));
    check_sum();
    ck_assert_uint_eq(bound().evictions, 0);
    ck_assert_int_eq(kvstore_set_max_bytes(store, MAX_BYTES, NULL), KV_OK);
    ck_assert_uint_le(bound().live_bytes, MAX_BYTES);
    check_sum();
}
END_TEST

START_TEST(ttl_evicts_what_has_an_expiry)
{
    open_with(KVSTORE_EVICT_TTL, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    uint64_t now_ms = clock_realtime_ms();
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(put(numbered("for ever", i)), KV_OK);
        ck_assert_int_eq(
            put_value(numbered("hours", i), VALUE_BYTES, now_ms + (uint64_t)(i + 1) * HOUR_MS),
            KV_OK);
    }
    int count = fill();
    check_sum();
    for (int i = 0; i < 100; i++) {
        ck_assert(has(numbered("for ever", i)));
        ck_assert(!has(numbered("hours", i)));
    }
    ck_assert_int_ge(count, 100);
    ck_assert_uint_eq(bound().evictions, 100);
    ck_assert_int_eq(put("one more"), KV_FULL);
    ck_assert_uint_le(bound().live_bytes, MAX_BYTES + VALUE_BYTES + 64);
}
END_TEST

#define FULL_WRITERS 4
#define FULL_PUTS    3000

static enum kv_status put_by_transaction(const char *key, size_t bytes, uint64_t expiry_ms)
{
    static const char value[MAX_BYTES / 16];
    const struct kvstore_step step = {.kind = KVSTORE_STEP_PUT,
                                      .key = kv_slice_from_string(key),
                                      .value = kv_slice(value, bytes),
                                      .expiry_ms = expiry_ms};
    const struct kvstore_transaction transaction = {.then = &step, .then_count = 1};
    struct kvstore_step_result result;
    return kvstore_transact(store, &transaction, &result, NULL);
}

/* argument: the number of the writer; each other one does transactions. */
static void *put_what_expires(void *argument)
{
    unsigned writer = (unsigned)(uintptr_t)argument, refused = 0;
    char name[16];
    snprintf(name, sizeof name, "of %u", writer);
    for (int i = 0; i < FULL_PUTS; i++) {
        size_t bytes = i % 8 == 0 ? MAX_BYTES / 16 : VALUE_BYTES;
        uint64_t expiry_ms = clock_realtime_ms() + HOUR_MS;
        enum kv_status status = writer % 2 == 0
                                    ? put_value(numbered(name, i), bytes, expiry_ms)
                                    : put_by_transaction(numbered(name, i), bytes, expiry_ms);
        refused += status == KV_FULL;
    }
    return (void *)(uintptr_t)refused;
}

/* That others are above the bound for a moment, until they have evicted, refuses no write. */
START_TEST(ttl_refuses_nothing_where_all_expires)
{
    pthread_t writers[FULL_WRITERS];
    open_with(KVSTORE_EVICT_TTL, KVSTORE_FILE_RWLOCK, MAX_BYTES);
    for (uintptr_t i = 0; i < FULL_WRITERS; i++)
        ck_assert_int_eq(pthread_create(&writers[i], NULL, put_what_expires, (void *)i), 0);
    for (unsigned i = 0; i < FULL_WRITERS; i++) {
        void *refused;
        pthread_join(writers[i], &refused);
        ck_assert_uint_eq((uintptr_t)refused, 0);
    }
    ck_assert_uint_eq(bound().refusals, 0);
    ck_assert_uint_gt(bound().evictions, 0);
    check_sum();
}
END_TEST

/* What is charged survives restarts, and is given back by deletes, expiry and replacement. */
START_TEST(quotas_charge_the_longest_prefix)
{
    const struct kvstore_quota quotas[] = {
        {.prefix = kv_slice_from_string("a:"), .max_keys = 10},
        {.prefix = kv_slice_from_string("a:b:"), .max_bytes = 5000}};
    const struct kvstore_options options = {
        .create = true, .quotas = quotas, .quota_count = 2, .sweep_interval_ms = 10};
    struct kvstore_quota_usage usage;
    store = must_open(dir, &options);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(put(numbered("a:", i)), KV_OK);
    ck_assert_int_eq(put("a:new"), KV_QUOTA);
    ck_assert_int_eq(put("a: 3"), KV_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(put(numbered("a:b:", i)), KV_OK);
    ck_assert_int_eq(put("a:b:new"), KV_QUOTA);
    ck_assert_int_eq(put("other"), KV_OK);
    for (int life = 0; life < 2; life++) {
        kvstore_quota_usage(store, 0, &usage);
        ck_assert_uint_eq(usage.keys, 10);
        ck_assert_uint_eq(usage.refusals, life == 0 ? 1 : 0);
        kvstore_quota_usage(store, 1, &usage);
        ck_assert_uint_eq(usage.keys, 4);
        ck_assert_uint_gt(usage.bytes, 4 * VALUE_BYTES);
        must_close(store);
        store = must_open(dir, &options);
    }
    ck_assert_int_eq(put("a:b:new"), KV_QUOTA);
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string("a:b: 1"), 0, NULL), KV_OK);
    ck_assert_int_eq(put_value("a:b:new", 10, clock_realtime_ms() + 20), KV_OK);
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string("a: 1"), 0, NULL), KV_OK);
    int tries = 0;
    do
        kvstore_quota_usage(store, 1, &usage);
    while (usage.keys > 3 && tries++ < 3000 && (clock_sleep_ms(10), true));
    ck_assert_uint_eq(usage.keys, 3);
    ck_assert_int_eq(put("a:new"), KV_OK);
    ck_assert_uint_eq(bound().max_bytes, 0);
}
END_TEST

static struct kvstore_quota_usage usage_of(uint32_t number)
{
    struct kvstore_quota_usage usage;
    kvstore_quota_usage(store, number, &usage);
    return usage;
}

static atomic_bool sync_waits, sync_was_called;

static int waiting_sync(int fd)
{
    (void)fd;
    atomic_store(&sync_was_called, true);
    while (atomic_load(&sync_waits))
        clock_sleep_ms(1);
    return 0;
}

static void *compact_in_thread(void *argument)
{
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    return argument;
}

/* While writes go to the next generation too, in which each key is looked up; the records are
 * larger than what a read buffer keeps. */
START_TEST(what_is_evicted_while_it_is_copied_is_given_back_to_its_quota)
{
    const struct kvstore_quota of_large = {.prefix = kv_slice_from_string("large"),
                                           .max_keys = 1000};
    const struct kvstore_options options = {.create = true,
                                            .datafiles = 1,
                                            .io = (enum kvstore_io)_i,
                                            .durability = KVSTORE_SYNC_NONE,
                                            .compact_dead_percent = 100,
                                            .evict = KVSTORE_EVICT_S3FIFO,
                                            .max_bytes = UINT64_C(4) << 20,
                                            .quotas = &of_large,
                                            .quota_count = 1};
    const struct fileio *before = fileio;
    struct fileio table = *fileio;
    table.sync_data = waiting_sync;
    pthread_t thread;
    int count = 0;
    store = must_open(dir, &options);
    while (count < 20)
        ck_assert_int_eq(put_value(numbered("large", count++), 1 << 17, 0), KV_OK);
    atomic_store(&sync_was_called, false);
    atomic_store(&sync_waits, true);
    fileio = &table;
    ck_assert_int_eq(pthread_create(&thread, NULL, compact_in_thread, NULL), 0);
    ck_assert(wait_until(is_true, &sync_was_called));
    while (bound().evictions < 5 && count < 100)
        ck_assert_int_eq(put_value(numbered("large", count++), 1 << 17, 0), KV_OK);
    atomic_store(&sync_waits, false);
    pthread_join(thread, NULL);
    fileio = before;
    ck_assert_uint_ge(bound().evictions, 5);
    ck_assert_uint_eq(usage_of(0).keys, total_statistics(store).keys);
    ck_assert_uint_eq(usage_of(0).bytes, total_statistics(store).live_bytes);
    check_sum();
}
END_TEST

/* Prefixes of a group share; other quotas count what is there already. */
START_TEST(quotas_change_while_the_store_is_open)
{
    struct kvstore_quota quotas[] = {
        {.prefix = kv_slice_from_string("a:"), .max_keys = 5, .group = 7},
        {.prefix = kv_slice_from_string("b:"), .max_keys = 1, .group = 7},
        {.prefix = kv_slice_from_string("c:"), .max_keys = 1}};
    const struct kvstore_options options = {.create = true};
    struct kv_error error;
    store = must_open(dir, &options);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(put(numbered("a:", i)), KV_OK);
        ck_assert_int_eq(put(numbered("b:", i)), KV_OK);
    }
    ck_assert_int_eq(kvstore_set_quotas(store, quotas, 3, &error), KV_OK);
    ck_assert_uint_eq(usage_of(0).keys, 4);
    ck_assert_uint_eq(usage_of(1).keys, 4);
    ck_assert_int_eq(put("b:new"), KV_OK);
    ck_assert_int_eq(put("a:new"), KV_QUOTA);
    ck_assert_int_eq(put("c:1"), KV_OK);
    ck_assert_int_eq(put("c:2"), KV_QUOTA);
    quotas[0].max_keys = 6;
    ck_assert_int_eq(kvstore_set_quotas(store, quotas, 3, &error), KV_OK);
    ck_assert_uint_eq(usage_of(1).refusals, 1);
    ck_assert_int_eq(put("a:new"), KV_OK);
    ck_assert_int_eq(put("b:other"), KV_QUOTA);
    ck_assert_int_eq(kvstore_set_quotas(store, quotas + 1, 1, &error), KV_OK);
    ck_assert_uint_eq(usage_of(0).keys, 3);
    ck_assert_int_eq(put("a:free"), KV_OK);
    ck_assert_int_eq(kvstore_set_quotas(store, NULL, 0, &error), KV_OK);
    ck_assert_int_eq(put("b:free"), KV_OK);
    ck_assert_int_eq(kvstore_set_quotas(store, quotas, KVSTORE_MAX_QUOTAS + 1, &error), KV_USAGE);
}
END_TEST

START_TEST(options_that_make_no_sense_are_refused)
{
    struct kv_error error;
    struct kvstore_options options = {.create = true, .evict = KVSTORE_EVICT_S3FIFO};
    ck_assert_int_eq(kvstore_open(dir, &options, &store, &error), KV_USAGE);
    options.max_bytes = 100;
    ck_assert_int_eq(kvstore_open(dir, &options, &store, &error), KV_USAGE);
    options.max_bytes = MAX_BYTES;
    options.evict = KVSTORE_EVICTS;
    ck_assert_int_eq(kvstore_open(dir, &options, &store, &error), KV_USAGE);
    open_with(KVSTORE_EVICT_NONE, KVSTORE_FILE_RWLOCK, 0);
    ck_assert_int_eq(kvstore_set_max_bytes(store, MAX_BYTES, &error), KV_USAGE);
    ck_assert_uint_eq(bound().max_bytes, 0);
}
END_TEST

TEST_SUITE(kvstore_bound)
{
    TCase *tests = tcase_create("bound");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, at_the_bound_writes_are_refused_that_would_add);
    tcase_add_test(tests, what_expires_or_is_compacted_is_counted);
    tcase_add_test(tests, without_eviction_a_write_waits_for_its_own_file_only);
    tcase_add_loop_test(tests, s3fifo_keeps_what_is_read, 0, locking_count());
    tcase_add_test(tests, a_restart_keeps_the_order);
    tcase_add_test(tests, a_restart_counts_once_what_goes_meanwhile);
    tcase_add_test(tests, ttl_evicts_what_has_an_expiry);
    tcase_add_test(tests, ttl_refuses_nothing_where_all_expires);
    tcase_add_test(tests, quotas_charge_the_longest_prefix);
    tcase_add_loop_test(tests, what_is_evicted_while_it_is_copied_is_given_back_to_its_quota, 0,
                        store_io_count());
    tcase_add_test(tests, quotas_change_while_the_store_is_open);
    tcase_add_test(tests, options_that_make_no_sense_are_refused);
    suite_add_tcase(suite, tests);
}
