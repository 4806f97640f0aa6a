/* Reads without messages, of a store that no daemon made: right, changing, and of a dead daemon. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientk/direct/direct_scan.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/direct_case.h"
#include "tests/support/skip.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

/* What is there ------------------------------------------------------------------------------- */

static void read_what_is_there(void)
{
    assert_read("a", NULL);
    direct_case_put("a", "one");
    direct_case_put("b", "two");
    assert_read("a", "one");
    assert_read("b", "two");
    direct_case_put("a", "three");
    assert_read("a", "three");
    handmade_delete(&made, TEXT("a"));
    assert_read("a", NULL);
    assert_read("b", "two");
    handmade_put(&made, TEXT("old"), TEXT("x"), 1);
    assert_read("old", NULL);
    handmade_put(&made, TEXT("new"), TEXT("x"), clock_realtime_ms() + 1000000);
    struct clientk_value facts = {.data = NULL};
    enum kv_status status;
    ck_assert(direct_get(&direct, &reader, TEXT("new"), false, &facts, &status));
    ck_assert_int_eq(status, KV_OK);
    ck_assert_uint_eq(facts.size, 1);
    ck_assert_uint_eq(facts.version, made.next_version - 1);
    ck_assert_uint_gt(facts.expiry_ms, 1);
    ck_assert_ptr_null(facts.data);
}

START_TEST(a_mapped_store_is_read)
{
    direct_case_begin_mapped();
    read_what_is_there();
    direct_case_end();
}
END_TEST

START_TEST(a_store_is_read_with_calls)
{
    direct_case_begin_pread();
    read_what_is_there();
    direct_case_end();
}
END_TEST

/* Makes the record at `offset` the content of an extent, which has that version. */
static void put_content(uint64_t offset, uint64_t version)
{
    uint8_t bytes[64], version_bytes[8];
    struct record content = {.kind = RECORD_PUT,
                             .version = RECORD_NO_VERSION_YET,
                             .key = TEXT("a"),
                             .value = TEXT("one"),
                             .in_extent = true};
    uint64_t salt = handmade_state(handmade_file(&made, TEXT("a")))->salt;
    uint64_t size = record_write(bytes, &content, kv_slice(NULL, 0), salt, offset);
    content.version = version;
    if (version != RECORD_NO_VERSION_YET) {
        record_number(&content, salt, offset, bytes, version_bytes);
        memcpy(bytes + RECORD_VERSION_AT, version_bytes, sizeof version_bytes);
    }
    int log = handmade_log(&made, (uint32_t)(handmade_file(&made, TEXT("a")) - made.files));
    ck_assert_int_eq(pwrite(log, bytes, size, (off_t)offset), (ssize_t)size);
    close(log);
}

/* Nor are facts of it given, though the index may have it by the time that this is looked at. */
START_TEST(content_without_its_version_is_not_read)
{
    struct clientk_value facts = {.data = NULL};
    enum kv_status status;
    if (_i == 0)
        direct_case_begin_mapped();
    else
        direct_case_begin_pread();
    uint64_t offset = handmade_put(&made, TEXT("a"), TEXT("one"), 0);
    put_content(offset, 7);
    assert_read("a", "one");
    ck_assert(direct_get(&direct, &reader, TEXT("a"), false, &facts, &status));
    ck_assert_uint_eq(facts.version, 7);
    put_content(offset, RECORD_NO_VERSION_YET);
    assert_asks("a");
    ck_assert(!direct_get(&direct, &reader, TEXT("a"), false, &facts, &status));
    direct_case_end();
}
END_TEST

static void read_large(void)
{
    const size_t sizes[] = {0, 1, 4060, 4096, 16384, 70000, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *bytes = patterned_bytes(sizes[i], (unsigned)i);
        handmade_put(&made, TEXT("large"), kv_slice(bytes, sizes[i]), 0);
        struct clientk_value value = {.data = NULL};
        for (int again = 0; again < 2; again++) {
            enum kv_status status = KV_IO;
            ck_assert(direct_get(&direct, &reader, TEXT("large"), true, &value, &status));
            ck_assert_int_eq(status, KV_OK);
            ck_assert(kv_slice_equal(kv_slice(value.data, value.size), kv_slice(bytes, sizes[i])));
            ck_assert_int_eq(((char *)value.data)[sizes[i]], 0);
        }
        clientk_value_free(&value);
        free(bytes);
    }
}

START_TEST(values_of_all_sizes_are_read)
{
    direct_case_begin_mapped();
    read_large();
    direct_case_end();
    direct_case_begin_pread();
    read_large();
    direct_case_end();
}
END_TEST

START_TEST(keys_of_all_data_files_are_read)
{
    direct_case_begin(CLIENTK_DIRECT_AUTO, 4, 0);
    direct_case_put_keys();
    assert_keys();
    direct_case_end();
}
END_TEST

START_TEST(a_batch_of_reads_is_executed_in_order)
{
    direct_case_begin_mapped();
    direct_case_put_keys();
    static char keys[50][16];
    struct clientk_operation operations[50];
    struct clientk_result results[50];
    memset(operations, 0, sizeof operations);
    memset(results, 0, sizeof results);
    for (int i = 0; i < 50; i++) {
        snprintf(keys[i], sizeof keys[i], i % 7 == 3 ? "none%d" : "key%d", i);
        operations[i].opcode = i % 5 == 0 ? CLIENTK_EXISTS : CLIENTK_GET;
        operations[i].key = TEXT(keys[i]);
    }
    ck_assert_uint_eq(direct_execute(&direct, &reader, operations, 50, results), 50);
    for (int i = 0; i < 50; i++) {
        char value[24];
        snprintf(value, sizeof value, "value%d", i);
        ck_assert_int_eq(results[i].status, i % 7 == 3 ? KV_NOT_FOUND : KV_OK);
        if (i % 7 != 3)
            ck_assert_uint_eq(results[i].value.size, strlen(value));
        if (i % 7 != 3 && i % 5 != 0)
            ck_assert_str_eq(results[i].value.data, value);
        clientk_value_free(&results[i].value);
    }
    operations[20].opcode = CLIENTK_PUT;
    ck_assert_uint_eq(direct_execute(&direct, &reader, operations, 50, results), 0);
    direct_case_end();
}
END_TEST

struct scan_count {
    unsigned seen[DIRECT_CASE_KEYS];
    unsigned entries;
};

static bool count_entry(void *context, const struct clientk_entry *entry)
{
    struct scan_count *count = context;
    int number = atoi((const char *)entry->key.data + 3);
    ck_assert_uint_eq(entry->value.size, entry->key.size + 2);
    ck_assert_int_eq(memcmp(entry->value.data, "value", 5), 0);
    ck_assert_uint_gt(entry->version, 0);
    count->seen[number]++;
    count->entries++;
    return true;
}

/* All entries, in pages of so many. */
static void scan_in_pages(uint32_t limit, bool replace)
{
    struct scan_count count = {.entries = 0};
    struct clientk_result page = {.status = KV_OK};
    struct clientk_scan_options options = {.limit = limit};
    do {
        unsigned before = count.entries;
        ck_assert(direct_scan_page(&direct, &reader, TEXT("key"), &options, &page));
        ck_assert_int_eq(page.status, KV_OK);
        assert_status(clientk_read_page(&page.value, count_entry, &count), KV_OK);
        options.cursor = (uint64_t)page.number;
        ck_assert(options.cursor == 0 || count.entries - before == limit);
        if (replace)
            handmade_replace(&made, 0, true);
    } while (options.cursor != 0);
    clientk_value_free(&page.value);
    ck_assert_uint_eq(count.entries, DIRECT_CASE_KEYS);
    for (unsigned i = 0; i < DIRECT_CASE_KEYS; i++)
        ck_assert_uint_eq(count.seen[i], 1);
}

START_TEST(a_scan_visits_every_entry_once)
{
    direct_case_begin(CLIENTK_DIRECT_MAP, 3, 0);
    direct_case_put_keys();
    direct_case_put("other", "1");
    handmade_put(&made, TEXT("key.expired"), TEXT("x"), 1);
    scan_in_pages(1000, false);
    scan_in_pages(7, false);
    scan_in_pages(50, true);
    direct_case_end();
    direct_case_begin_pread();
    direct_case_put_keys();
    scan_in_pages(100, true);
    direct_case_end();
}
END_TEST

START_TEST(a_scan_ends_its_page_before_a_damaged_record)
{
    direct_case_begin_mapped();
    direct_case_put_keys();
    uint64_t offset = handmade_put(&made, TEXT("key7"), TEXT("value7"), 0);
    int log = handmade_log(&made, 0);
    ck_assert_int_eq(pwrite(log, "X", 1, (off_t)offset + 26), 1);
    close(log);
    struct scan_count count = {.entries = 0};
    struct clientk_result page = {.status = KV_OK};
    struct clientk_scan_options options = {.limit = 4096};
    ck_assert(direct_scan_page(&direct, &reader, TEXT("key"), &options, &page));
    assert_status(clientk_read_page(&page.value, count_entry, &count), KV_OK);
    ck_assert_uint_lt(count.entries, DIRECT_CASE_KEYS);
    ck_assert_uint_eq(count.seen[7], 0);
    options.cursor = (uint64_t)page.number;
    ck_assert_uint_ne(options.cursor, 0);
    ck_assert(!direct_scan_page(&direct, &reader, TEXT("key"), &options, &page));
    clientk_value_free(&page.value);
    direct_case_end();
}
END_TEST

/* What is not looked into --------------------------------------------------------------------- */

#define OTHER_UID 1

/* Its header makes no sense, which who looks into it says. */
START_TEST(an_object_of_another_user_is_not_looked_into)
{
    if (geteuid() != 0)
        SKIP_TEST("an object of another user needs root");
    direct_case_begin(CLIENTK_DIRECT_AUTO, 1, 0);
    made.header->magic = 0;
    ck_assert_int_eq(fchown(made.object_fd, OTHER_UID, OTHER_UID), 0);
    direct_case_offer_of(OTHER_UID, getpid(), 8);
    assert_asks("a");
    ck_assert_int_eq(direct.reason, DIRECT_OF_ANOTHER_USER);
    direct_case_end();
}
END_TEST

START_TEST(an_object_of_impossible_size_is_not_looked_into)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    ck_assert_int_eq(ftruncate(made.object_fd, (off_t)1 << 41), 0);
    assert_asks("a");
    ck_assert_int_eq(direct.reason, DIRECT_DAMAGED);
    direct_case_end();
}
END_TEST

/* A write lease of its owner would keep an open for reading asleep for 45 s. */
START_TEST(a_lease_on_the_object_keeps_nobody_waiting)
{
    direct_case_begin_mapped();
    signal(SIGIO, SIG_IGN); /* tells the holder that somebody wants it */
    if (fcntl(made.object_fd, F_SETLEASE, F_WRLCK) != 0) {
        direct_case_end();
        SKIP_TEST("the kernel gives no write lease on shared memory");
    }
    uint64_t before_ms = clock_monotonic_coarse_ms();
    assert_asks("a");
    ck_assert_uint_lt(clock_monotonic_coarse_ms() - before_ms, 10000);
    ck_assert_int_eq(direct.reason, DIRECT_OBJECT_DENIED);
    direct_case_end();
}
END_TEST

/* What changes -------------------------------------------------------------------------------- */

START_TEST(a_replaced_generation_is_followed)
{
    direct_case_begin_mapped();
    direct_case_put_keys();
    assert_keys();
    for (int i = 0; i < 5; i++) {
        handmade_replace(&made, 0, true);
        assert_keys();
        direct_case_put("key5", "value5");
    }
    direct_case_end();
}
END_TEST

START_TEST(a_log_that_grows_beyond_its_mapping_is_read)
{
    direct_case_begin_mapped();
    direct_case_put("first", "1");
    assert_read("first", "1");
    int log = handmade_log(&made, 0);
    ck_assert_int_eq(ftruncate(log, 64 << 20), 0);
    close(log);
    handmade_state(&made.files[0])->tail = 40 << 20; /* a hole of records that nobody needs */
    direct_case_put("last", "2");
    assert_read("last", "2");
    assert_read("first", "1");
    direct_case_end();
}
END_TEST

static void assert_goes(enum clientk_direct expected, enum direct_reason reason)
{
    struct clientk_info info;
    direct_add_info(&direct, &info);
    ck_assert_int_eq(info.direct, expected);
    ck_assert_str_eq(info.direct_reason, direct_reason_sentence(reason));
}

START_TEST(reads_that_go_on_after_a_failed_open_are_told)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    assert_read("a", "1");
    assert_goes(CLIENTK_DIRECT_MAP, DIRECT_IN_USE);
    handmade_replace(&made, 0, false); /* so that a log is to be opened */
    struct rlimit usual, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = usual.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_asks("a");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_goes(CLIENTK_DIRECT_OFF, DIRECT_FILE_DENIED);
    clock_sleep_ms(1100); /* it is tried again after a second */
    assert_read("a", "1");
    assert_goes(CLIENTK_DIRECT_MAP, DIRECT_IN_USE);
    direct_case_end();
}
END_TEST

static atomic_bool stop;

static void *replace_often(void *unused)
{
    (void)unused;
    /* Segments are not given back by the handmade store: as many rounds as it has room for. */
    for (int round = 0; round < 20; round++)
        handmade_replace(&made, 0, true);
    atomic_store(&stop, true);
    return NULL;
}

START_TEST(readers_see_all_keys_while_generations_are_replaced_and_punched)
{
    direct_case_begin_mapped();
    direct_case_put_keys();
    pthread_t writer;
    atomic_store(&stop, false);
    ck_assert_int_eq(pthread_create(&writer, NULL, replace_often, NULL), 0);
    while (!atomic_load(&stop)) {
        char key[16];
        struct clientk_value value = {.data = NULL};
        enum kv_status status = KV_IO;
        for (int i = 0; i < DIRECT_CASE_KEYS; i++) {
            snprintf(key, sizeof key, "key%d", i);
            if (direct_get(&direct, &reader, TEXT(key), true, &value, &status)) {
                ck_assert_int_eq(status, KV_OK);
                ck_assert_int_eq(atoi((char *)value.data + 5), i);
            }
        }
        clientk_value_free(&value);
    }
    pthread_join(writer, NULL);
    assert_keys();
    direct_case_end();
}
END_TEST

static void *ask_for_facts(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        struct clientk_info info;
        direct_add_info(&direct, &info);
        ck_assert_int_eq(info.direct, CLIENTK_DIRECT_MAP);
    }
    return NULL;
}

/* Who asks reads nothing: the old mapping of the index is not kept for his sake. */
START_TEST(facts_are_told_while_the_index_outgrows_its_mapping)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    assert_read("a", "1");
    pthread_t asker;
    atomic_store(&stop, false);
    ck_assert_int_eq(pthread_create(&asker, NULL, ask_for_facts, NULL), 0);
    struct direct_store *store = atomic_load(&direct.store);
    for (uint64_t bytes = HANDMADE_OBJECT_BYTES * 4; bytes <= UINT64_C(1) << 30; bytes *= 4) {
        ck_assert_int_eq(ftruncate(made.object_fd, (off_t)bytes), 0);
        __atomic_store_n(&made.header->shared_bytes, bytes, __ATOMIC_RELEASE);
        ck_assert(direct_store_grow(store)); /* which retires the old mapping */
        handmade_replace(&made, 0, false);
        assert_read("a", "1"); /* of another log: what was retired before is released */
        clock_sleep_ms(5);
    }
    ck_assert_uint_gt(direct_store_view(store)->map_bytes, UINT64_C(1) << 30);
    atomic_store(&stop, true);
    pthread_join(asker, NULL);
    direct_case_end();
}
END_TEST

/* The daemon ---------------------------------------------------------------------------------- */

static pid_t daemon_pid; /* a process that stands for the daemon */

static void start_daemon(void)
{
    daemon_pid = fork();
    ck_assert_int_ge(daemon_pid, 0);
    if (daemon_pid == 0)
        for (;;)
            pause();
}

static void kill_daemon(void)
{
    kill(daemon_pid, SIGKILL);
    waitpid(daemon_pid, NULL, 0);
    clock_sleep_ms(25); /* more than a tick of the coarse clock */
}

START_TEST(a_dead_daemons_store_is_asked_for)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    start_daemon();
    direct_case_offer(daemon_pid, 8);
    assert_read("a", "1");
    kill_daemon();
    assert_asks("a");
    direct_case_offer(getpid(), 9);
    assert_read("a", "1");
    made.header->instance++; /* another daemon serves it */
    clock_sleep_ms(25);
    assert_asks("a");
    direct_case_end();
}
END_TEST

START_TEST(a_dead_daemons_store_is_read_on_for_a_while)
{
    direct_case_begin(CLIENTK_DIRECT_MAP, 1, 100000);
    direct_case_put("a", "1");
    start_daemon();
    direct_case_offer(daemon_pid, 8);
    assert_read("a", "1");
    kill_daemon();
    assert_read("a", "1");
    __atomic_store_n(&made.header->condition, SHARED_STORE_RETIRED, __ATOMIC_RELEASE);
    assert_asks("a");
    direct_case_end();
}
END_TEST

START_TEST(what_is_mapped_cannot_be_written_to)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    assert_read("a", "1");
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], mode[8];
    unsigned found = 0;
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps)) {
        bool ours = strstr(line, "mqkv.store") || strstr(line, "data.0000");
        if (!ours || sscanf(line, "%*s %7s", mode) != 1)
            continue;
        uintptr_t start = (uintptr_t)strtoull(line, NULL, 16);
        ck_assert(start == (uintptr_t)made.object || strcmp(mode, "r--s") == 0);
        found++;
    }
    fclose(maps);
    ck_assert_uint_eq(found, 3); /* the test's own, the reader's object, the log */
    struct direct_store *store = atomic_load(&direct.store);
    ck_assert_int_eq(fcntl(store->object_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    direct_case_end();
}
END_TEST

START_TEST(switched_off_nothing_is_looked_at)
{
    direct_case_begin(CLIENTK_DIRECT_OFF, 1, 0);
    ck_assert(!direct_is_on(&direct));
    struct clientk_info info;
    direct_add_info(&direct, &info);
    ck_assert_str_eq(info.direct_reason, direct_reason_sentence(DIRECT_SWITCHED_OFF));
    direct_case_end();
}
END_TEST

TEST_SUITE(clientk_direct)
{
    TCase *tcase = tcase_create("direct");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_mapped_store_is_read);
    tcase_add_test(tcase, a_store_is_read_with_calls);
    tcase_add_loop_test(tcase, content_without_its_version_is_not_read, 0, 2);
    tcase_add_test(tcase, values_of_all_sizes_are_read);
    tcase_add_test(tcase, keys_of_all_data_files_are_read);
    tcase_add_test(tcase, a_batch_of_reads_is_executed_in_order);
    tcase_add_test(tcase, a_scan_visits_every_entry_once);
    tcase_add_test(tcase, a_scan_ends_its_page_before_a_damaged_record);
    tcase_add_test(tcase, an_object_of_another_user_is_not_looked_into);
    tcase_add_test(tcase, an_object_of_impossible_size_is_not_looked_into);
    tcase_add_test(tcase, a_lease_on_the_object_keeps_nobody_waiting);
    tcase_add_test(tcase, a_replaced_generation_is_followed);
    tcase_add_test(tcase, a_log_that_grows_beyond_its_mapping_is_read);
    tcase_add_test(tcase, reads_that_go_on_after_a_failed_open_are_told);
    tcase_add_test(tcase, readers_see_all_keys_while_generations_are_replaced_and_punched);
    tcase_add_test(tcase, facts_are_told_while_the_index_outgrows_its_mapping);
    tcase_add_test(tcase, a_dead_daemons_store_is_asked_for);
    tcase_add_test(tcase, a_dead_daemons_store_is_read_on_for_a_while);
    tcase_add_test(tcase, what_is_mapped_cannot_be_written_to);
    tcase_add_test(tcase, switched_off_nothing_is_looked_at);
    suite_add_tcase(suite, tcase);
}
