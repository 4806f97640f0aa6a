/* The passes of a compaction: what is written between and during them gets into the next generation
 * as it is in the current one. */
#include "kvstore/maintenance/copylog.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "kvstore/log/fileio.h"
#include "tests/support/fault.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

/* More than the last pass, with which the next generation is shared, may have. */
#define MANY 6000

static struct copylog copying;
static struct maintenance parts;
static struct generation *next;

static void start_copying(void)
{
    const struct generation *current = store->context.files[0].current;
    struct file_identity identity = current->log.identity;
    struct logfile log;
    ck_assert_int_eq(logfile_create(&log, KVSTORE_IO_MMAP, store->context.dir_fd, "data.0000.new",
                                    &identity, current->words->max_version, 1 << 20, NULL),
                     KV_OK);
    ck_assert_int_eq(generation_create(log, datafile_next_words(&store->context.files[0]), &next),
                     KV_OK);
    ck_assert_int_eq(generation_begin_index(next, store->context.arena), KV_OK);
    parts = (struct maintenance){.context = &store->context,
                                 .cache = store->cache,
                                 .sync = store->sync,
                                 .compactions = store->compactions};
    copylog_start(&copying, &parts, &store->context.files[0], next);
}

static bool pass_is_over(void)
{
    return copying.at == copying.end && copying.candidate_next == copying.candidate_count;
}

static void end_pass(void)
{
    while (!pass_is_over())
        ck_assert_int_eq(copylog_step(&copying), KV_OK);
}

/* Of a pass that has something to copy. */
static void begin_pass(bool shared)
{
    uint64_t end = copying.end;
    while (copying.end == end)
        ck_assert_int_eq(copylog_step(&copying), KV_OK);
    ck_assert_int_eq(copying.shared, shared);
}

/* Its version, 0 if the generation has no such key. */
static uint64_t version_in(const struct generation *generation, const char *key)
{
    struct lookup lookup;
    uint64_t hash = keyhash(&store->context.hash_key, KEY(key));
    generation_find(generation, keyhash_index(hash), KEY(key), &lookup);
    ck_assert(!lookup.damaged && lookup.error == 0);
    return lookup.found ? lookup.record.version : 0;
}

static void check_same(const char *key)
{
    uint64_t expected = version_in(store->context.files[0].current, key);
    ck_assert_msg(version_in(next, key) == expected, "%s: version %ju instead of %ju", key,
                  (uintmax_t)version_in(next, key), (uintmax_t)expected);
}

/* Ends the copying, compares the two generations, and opens a copy of the next one's file. */
static struct kvstore *finish_copying(void)
{
    while (!copylog_is_done(&copying))
        ck_assert_int_eq(copylog_step(&copying), KV_OK);
    const struct generation *current = store->context.files[0].current;
    for (int i = 0; i < MANY; i++)
        check_same(numbered("key", i));
    ck_assert_uint_eq(next->words->live_bytes, current->words->live_bytes);
    ck_assert_uint_eq(next->words->reserve_bytes, current->words->reserve_bytes);
    ck_assert_uint_eq(next->words->max_version, current->words->max_version);
    store->context.files[0].next = NULL;
    generation_free(next);
    ck_assert_int_eq(fileio->rename_at(store->context.dir_fd, "data.0000.new", "data.0000"), 0);
    return open_copy();
}

static void must_delete(const char *key)
{
    ck_assert_int_eq(kvstore_delete(store, KEY(key), 0, NULL), KV_OK);
}

static void change_some(const char *value)
{
    must_put(store, "key 1", value);
    must_delete("key 2");
    must_put(store, "key 3", "deleted at once");
    must_delete("key 3");
    must_delete("key 4");
    must_put(store, "key 4", value);
    must_put(store, "new", value);
    must_put(store, "new and deleted", value);
    must_delete("new and deleted");
}

static void check_changes(struct kvstore *opened, const char *value)
{
    static const char *const put[] = {"key 1", "key 4", "new"};
    static const char *const deleted[] = {"key 2", "key 3", "new and deleted"};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_pstr_eq(get_text(opened, put[i]), value);
        ck_assert_ptr_null(get_text(opened, deleted[i]));
    }
    ck_assert_pstr_eq(get_text(opened, "key 0"), "value 0/0");
}

/* So many that the next pass is not the last. */
static void write_much(void)
{
    for (int i = MANY / 2; i < MANY; i++)
        must_put(store, numbered("key", i), "much");
}

START_TEST(a_later_pass_repeats_what_was_written_since)
{
    put_round(MANY, 0);
    start_copying();
    end_pass();
    change_some("later");
    write_much();
    begin_pass(false);
    end_pass();
    struct kvstore *copy = finish_copying();
    check_changes(copy, "later");
    must_close(copy);
}
END_TEST

START_TEST(a_change_of_what_is_still_to_be_copied_is_seen)
{
    put_round(MANY, 0);
    start_copying();
    change_some("during the first pass");
    end_pass();
    struct kvstore *copy = finish_copying();
    check_changes(copy, "during the first pass");
    must_close(copy);
}
END_TEST

/* Both the pass and the writers bring records of the same keys. */
START_TEST(writers_are_not_overtaken_when_the_generation_is_shared)
{
    put_round(MANY, 0);
    start_copying();
    end_pass();
    struct kvstore_put_options far = {.expiry_ms = clock_realtime_ms() + 1000000};
    ck_assert_int_eq(kvstore_put(store, KEY("key 5"), KEY("goes"), &far, NULL), KV_OK);
    change_some("in the log");
    begin_pass(true);
    must_put(store, "key 2", "again");
    must_put(store, "key 5", "stays");
    must_delete("key 2");
    must_put(store, "key 1", "shared");
    struct kvstore *copy = finish_copying();
    ck_assert_pstr_eq(get_text(copy, "key 1"), "shared");
    ck_assert_ptr_null(get_text(copy, "key 2"));
    ck_assert_pstr_eq(get_text(copy, "key 4"), "in the log");
    ck_assert_pstr_eq(get_text(copy, "key 5"), "stays");
    must_close(copy);
}
END_TEST

/* Flips the byte of the record of that key in the current log. */
static void damage(const char *key, int byte)
{
    char path[STORE_DIR_BYTES + 32];
    struct lookup lookup;
    uint32_t hash = keyhash_index(keyhash(&store->context.hash_key, KEY(key)));
    generation_find(store->context.files[0].current, hash, KEY(key), &lookup);
    ck_assert(lookup.found);
    snprintf(path, sizeof path, "%s/data.0000", dir);
    FILE *log = fopen(path, "r+");
    ck_assert_ptr_nonnull(log);
    fseek(log, (long)lookup.offset + byte, SEEK_SET);
    int was = fgetc(log);
    fseek(log, -1, SEEK_CUR);
    fputc(was ^ 0x80, log);
    fclose(log);
}

/* Loop: which byte of the records, also of a version, which is then higher than all that follow. */
START_TEST(what_was_carried_over_damaged_gives_way_to_what_is_written_meanwhile)
{
    put_round(MANY, 0);
    for (int key = 1; key <= 4; key++)
        damage(numbered("key", key), _i);
    start_copying();
    end_pass();
    ck_assert_uint_eq(copying.carried_count, 1);
    must_put(store, "key 1", "in the log");
    must_delete("key 2");
    begin_pass(true);
    must_put(store, "key 3", "shared");
    must_delete("key 4");
    must_put(store, "key 5", "shared");
    while (!copylog_is_done(&copying))
        ck_assert_int_eq(copylog_step(&copying), KV_OK);
    ck_assert(copylog_is_complete(&copying));
    for (int key = 0; key < MANY; key++)
        check_same(numbered("key", key));
    store->context.files[0].next = NULL;
    generation_free(next);
}
END_TEST

/* The new log has no trace of the entry. */
START_TEST(the_version_of_what_came_and_went_meanwhile_is_not_given_again)
{
    put_round(100, 0);
    start_copying();
    uint64_t version = must_put(store, "short-lived", "first");
    must_delete("short-lived");
    end_pass();
    struct kvstore *copy = finish_copying();
    ck_assert_uint_eq(total_statistics(copy).dead_bytes, 0);
    const struct kvstore_put_options again = {.give_version = version};
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_put(copy, KEY("short-lived"), KEY("second"), &again, &written), KV_OK);
    ck_assert_uint_gt(written.version, version + 1);
    must_close(copy);
}
END_TEST

static bool has_expired_one(void *context)
{
    (void)context;
    return total_statistics(store).expired == 1;
}

/* A row: whether it is the sweeper who finds it. */
START_TEST(what_expired_between_passes_does_not_come_back)
{
    struct kvstore_options options = one_file;
    options.sweep_interval_ms = _i == 1 ? 5 : 1000000;
    must_close(store);
    store = must_open(dir, &options);
    put_round(MANY, 0);
    start_copying();
    end_pass();
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 20};
    ck_assert_int_eq(kvstore_put(store, KEY("key 7"), KEY("v"), &soon, NULL), KV_OK);
    write_much();
    while (clock_realtime_ms() <= soon.expiry_ms)
        clock_sleep_ms(1);
    if (_i == 1)
        ck_assert(wait_until(has_expired_one, NULL));
    begin_pass(false);
    struct kvstore *copy = finish_copying();
    ck_assert_uint_eq(total_statistics(store).expired, 1);
    ck_assert_ptr_null(get_text(copy, "key 7"));
    ck_assert_pstr_eq(get_text(copy, "key 8"), "value 8/0");
    must_close(copy);
}
END_TEST

/* Writers that are as fast as the copying do not keep it from its end. */
START_TEST(passes_come_to_an_end)
{
    put_round(MANY, 0);
    start_copying();
    unsigned rounds = 0;
    for (; !copying.shared; rounds++) {
        write_much();
        end_pass();
        ck_assert_int_eq(copylog_step(&copying), KV_OK);
    }
    ck_assert_uint_ge(rounds, 2);
    ck_assert_uint_le(rounds, 20);
    must_close(finish_copying());
}
END_TEST

/* The index of the next generation has what its log has not: between the failure and the moment
 * when the compactor gives it up nobody may use it. */
START_TEST(after_a_failed_copy_writers_leave_the_next_generation_alone)
{
    const struct fault_plan once = {.call = FAULT_WRITE, .nth = 1, .length = 1, .error = EIO};
    static char large[16384]; /* its record is written with a call */
    memset(large, 'l', sizeof large - 1);
    put_round(100, 0);
    start_copying();
    end_pass();
    must_put(store, "key 1", large);
    begin_pass(true);
    fault_install(&once);
    ck_assert_int_eq(copylog_step(&copying), KV_IO);
    fault_clear();
    uint64_t tail = next->log.tail;
    put_round(100, 1);
    ck_assert_uint_eq(next->log.tail, tail);
    store->context.files[0].next = NULL;
    generation_free(next);
    check_round(store, 100, 1);
}
END_TEST

START_TEST(a_write_of_the_first_pass_that_fails_ends_it)
{
    const struct fault_plan once = {.call = FAULT_WRITE, .nth = 1, .length = 1, .error = EIO};
    put_round(100, 0);
    start_copying();
    fault_install(&once);
    ck_assert_int_eq(copylog_step(&copying), KV_IO);
    fault_clear();
    ck_assert_ptr_null(store->context.files[0].next);
    generation_free(next);
    put_round(100, 1);
    check_round(store, 100, 1);
}
END_TEST

TEST_SUITE(kvstore_copylog)
{
    TCase *tests = tcase_create("copylog");
    one_file_case_add(tests);
    tcase_add_test(tests, a_later_pass_repeats_what_was_written_since);
    tcase_add_test(tests, a_change_of_what_is_still_to_be_copied_is_seen);
    tcase_add_test(tests, writers_are_not_overtaken_when_the_generation_is_shared);
    tcase_add_loop_test(tests, what_was_carried_over_damaged_gives_way_to_what_is_written_meanwhile,
                        0, 40);
    tcase_add_test(tests, the_version_of_what_came_and_went_meanwhile_is_not_given_again);
    tcase_add_loop_test(tests, what_expired_between_passes_does_not_come_back, 0, 2);
    tcase_add_test(tests, passes_come_to_an_end);
    tcase_add_test(tests, after_a_failed_copy_writers_leave_the_next_generation_alone);
    tcase_add_test(tests, a_write_of_the_first_pass_that_fails_ends_it);
    suite_add_tcase(suite, tests);
}
