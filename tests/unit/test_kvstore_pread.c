/*
 * A store that reads with system calls, through the page cache or past it: it does what a mapped
 * one does, with the same files; a read that fails, gives less or gives wrong bytes is the error of
 * the call that met it, and of no other.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/log.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"
#include "kvstore/log/read_buffer.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

/* Records that end within, at and beyond what one read brings; and one beyond what is kept. */
static const size_t sizes[] = {0, 1, 63, 64, 3000, 4040, 4062, 4063, 4064, 4096, 20000, 200000};
#define SIZE_COUNT    ((int)(sizeof sizes / sizeof *sizes))
#define BIGGEST_BYTES 200000u

static char dir[STORE_DIR_BYTES];
static char buffer[BIGGEST_BYTES];
static struct kvstore_options options = {
    .create = true, .datafiles = 1, .compact_dead_percent = 100, .io = KVSTORE_IO_PREAD};
static const struct kvstore_options mapped = {.compact_dead_percent = 100};

static void set_up(void)
{
    log_set_level(LOG_LEVEL_ERROR - 1);
    store_dir_make(dir);
}

static void set_up_direct(void)
{
    set_up();
    options.io = KVSTORE_IO_DIRECT;
}

static void tear_down(void)
{
    fault_clear();
    store_dir_remove(dir);
}

static struct kv_slice value_of(int i)
{
    static char value[BIGGEST_BYTES];
    for (size_t at = 0; at < sizes[i]; at++)
        value[at] = (char)(at * 31 + (size_t)i);
    return kv_slice(value, sizes[i]);
}

static void put_sizes(struct kvstore *store)
{
    for (int i = 0; i < SIZE_COUNT; i++)
        ck_assert_int_eq(
            kvstore_put(store, kv_slice_from_string(numbered("size", i)), value_of(i), NULL, NULL),
            KV_OK);
}

static void check_sizes(struct kvstore *store)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        struct kvstore_entry entry;
        ck_assert_int_eq(kvstore_get(store, kv_slice_from_string(numbered("size", i)), buffer,
                                     sizeof buffer, &entry),
                         KV_OK);
        ck_assert(kv_slice_equal(kv_slice(buffer, entry.value_bytes), value_of(i)));
        ck_assert_int_eq(get_entry(store, numbered("size", i), &entry), KV_OK);
        ck_assert_uint_eq(entry.value_bytes, sizes[i]);
    }
}

START_TEST(records_of_every_size_through_every_door)
{
    fault_install(&(struct fault_plan){.call = FAULT_MAP}); /* counts */
    struct kvstore *store = must_open(dir, &options);
    put_sizes(store);
    check_sizes(store);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    check_sizes(store);
    must_close(store);
    store = must_open(dir, &options); /* from its checkpoint */
    check_sizes(store);
    ck_assert_uint_eq(fault_calls(FAULT_MAP), 0);
    must_close(store);
    store = must_open(dir, &mapped);
    check_sizes(store);
    put_sizes(store);
    must_close(store);
    store_checkpoint_remove(dir);
    store = must_open(dir, &options); /* from its log */
    check_sizes(store);
    must_close(store);
}
END_TEST

/* The next read of a record has the effect. */
static void spoil_next_read(enum fault_effect effect, size_t read_bytes)
{
    fault_install(&(struct fault_plan){.call = FAULT_READ,
                                       .nth = 1,
                                       .length = 1,
                                       .error = EIO,
                                       .effect = effect,
                                       .read_bytes = read_bytes});
}

static enum kv_status get(struct kvstore *store, const char *key)
{
    return kvstore_get(store, kv_slice_from_string(key), buffer, sizeof buffer, NULL);
}

static bool take(void *context, const struct kvstore_scanned *entry)
{
    (void)entry;
    ++*(unsigned *)context;
    return true;
}

static enum kv_status scan(struct kvstore *store, unsigned *visited)
{
    uint64_t cursor = 0;
    *visited = 0;
    return kvstore_scan(store, &cursor, kv_slice(NULL, 0), 100, take, visited, NULL);
}

static enum kv_status call(struct kvstore *store, int which)
{
    struct kv_slice key = kv_slice_from_string("key");
    struct kvstore_entry entry;
    unsigned visited;
    bool found;
    switch (which) {
    case 0:
        return get(store, "key");
    case 1:
        return get_entry(store, "key", &entry);
    case 2:
        return kvstore_put(store, key, kv_slice_from_string("new"), NULL, NULL);
    case 3:
        return kvstore_delete(store, key, 0, NULL);
    case 4:
        return kvstore_add(store, key, 1, NULL, NULL, NULL);
    case 5:
        return kvstore_append(store, key, key, NULL, NULL);
    case 6:
        return kvstore_exchange(store, key, key, NULL, buffer, sizeof buffer, &found, NULL, NULL);
    case 7:
        return kvstore_touch(store, key, 0, NULL);
    default:
        return scan(store, &visited);
    }
}
#define CALLS 9

static void fail_call(struct kvstore *store, enum fault_effect effect, size_t read_bytes,
                      enum kv_status expected, int which)
{
    spoil_next_read(effect, read_bytes);
    enum kv_status status = call(store, which);
    ck_assert_msg(status == expected, "call %d: %s", which, kv_status_name(status));
    ck_assert(fault_has_fired());
    ck_assert_str_eq(get_text(store, "key"),
                     "41"); /* the next read is sound, nothing has changed */
}

static bool count_entry(void *context, const struct kvstore_scanned *entry)
{
    (void)entry;
    ++*(int *)context;
    return true;
}

/* The records are the first of the log, one after the other. */
START_TEST(a_large_record_is_kept_until_its_operation_ends)
{
    struct kvstore *store = must_open(dir, &options);
    struct kv_slice small = kv_slice_from_string("small"), large = kv_slice_from_string("large");
    struct kvstore_written written;
    uint64_t cursor = 0;
    int entries = 0;
    ck_assert_int_eq(kvstore_put(store, small, kv_slice(buffer, 1000), NULL, &written), KV_OK);
    uint64_t at = FILE_HEADER_BYTES + written.ticket.position;
    ck_assert_int_eq(kvstore_put(store, large, kv_slice(buffer, BIGGEST_BYTES), NULL, NULL), KV_OK);

    ck_assert_int_eq(kvstore_get(store, small, buffer, sizeof buffer, NULL), KV_OK);
    ck_assert(read_buffer_holds(READ_BUFFER_LOOKUP, FILE_HEADER_BYTES, 1000));
    ck_assert_int_eq(kvstore_get(store, large, buffer, sizeof buffer, NULL), KV_OK);
    ck_assert(!read_buffer_holds(READ_BUFFER_LOOKUP, at, 1));
    ck_assert_int_eq(
        kvstore_scan(store, &cursor, kv_slice(NULL, 0), 10, count_entry, &entries, NULL), KV_OK);
    ck_assert_int_eq(entries, 2);
    ck_assert(!read_buffer_holds(READ_BUFFER_VISIT, at, 1));
    ck_assert_int_eq(kvstore_touch(store, large, 0, NULL), KV_OK); /* looks up the key at last */
    ck_assert(!read_buffer_holds(READ_BUFFER_LOOKUP, at, BIGGEST_BYTES));
    must_close(store);
}
END_TEST

START_TEST(a_read_that_fails_is_the_error_of_its_call)
{
    struct kvstore *store = must_open(dir, &options);
    must_put(store, "key", "41");
    fail_call(store, FAULT_FAILS, 0, KV_IO, _i);
    must_close(store);
}
END_TEST

START_TEST(a_file_that_ends_early_is_an_error)
{
    struct kvstore *store = must_open(dir, &options);
    must_put(store, "key", "41");
    fail_call(store, FAULT_SHORTENS, 0, KV_IO, _i);
    fail_call(store, FAULT_SHORTENS, 27, KV_IO, _i);
    must_close(store);
}
END_TEST

/* The whole of the record is never trusted before its checksum holds: whichever byte is wrong. */
START_TEST(a_flipped_bit_is_never_given_out)
{
    struct kvstore *store = must_open(dir, &options);
    must_put(store, "key", "41");
    for (size_t at = 0; at < 25; at++) { /* header, key, value; then comes padding */
        spoil_next_read(FAULT_FLIPS, at);
        ck_assert_int_eq(get(store, "key"), KV_CORRUPT);
        ck_assert_str_eq(get_text(store, "key"), "41");
    }
    must_close(store);
}
END_TEST

START_TEST(a_failing_read_in_the_middle_of_a_large_value)
{
    struct kvstore *store = must_open(dir, &options);
    put_sizes(store);
    fault_install(&(struct fault_plan){.call = FAULT_READ, .nth = 2, .length = 1, .error = EIO});
    ck_assert_int_eq(get(store, numbered("size", SIZE_COUNT - 1)), KV_IO);
    check_sizes(store);
    must_close(store);
}
END_TEST

START_TEST(a_failing_write_changes_nothing)
{
    struct kvstore *store = must_open(dir, &options);
    must_put(store, "key", "41");
    for (size_t written = 0; written < 64; written += 9) {
        fault_install(&(struct fault_plan){.call = FAULT_WRITE,
                                           .nth = 1,
                                           .length = 1,
                                           .error = written % 2 ? ENOSPC : EIO,
                                           .written_bytes = written});
        enum kv_status status = call(store, 5);
        ck_assert_int_eq(status, written % 2 ? KV_NO_SPACE : KV_IO);
        ck_assert_str_eq(get_text(store, "key"), "41");
    }
    fault_clear();
    must_close(store);
    store_checkpoint_remove(dir);
    store = must_open(dir, &options);
    ck_assert_str_eq(get_text(store, "key"), "41");
    ck_assert_uint_eq(total_statistics(store).recovered_bytes_cut, 0);
    must_close(store);
}
END_TEST

/* Large records are written with calls whatever the --io; some in several. */
START_TEST(a_failing_write_of_a_large_value_changes_nothing)
{
    static char large[300000];
    struct kvstore_options with_mapping = options;
    with_mapping.io = KVSTORE_IO_MMAP;
    struct kvstore *store = must_open(dir, &with_mapping);
    must_put(store, "key", "41");
    memset(large, 'x', sizeof large);
    for (unsigned nth = 1; nth <= 3; nth++) {
        fault_install(&(struct fault_plan){
            .call = FAULT_WRITE, .nth = nth, .length = 1, .error = EIO, .written_bytes = 5000});
        struct kv_slice value = kv_slice(large, nth == 1 ? 20000 : sizeof large);
        ck_assert_int_eq(kvstore_put(store, kv_slice_from_string("key"), value, NULL, NULL), KV_IO);
        ck_assert(fault_has_fired());
        ck_assert_str_eq(get_text(store, "key"), "41");
    }
    fault_clear();
    must_close(store);
    store_checkpoint_remove(dir);
    store = must_open(dir, &with_mapping);
    ck_assert_str_eq(get_text(store, "key"), "41");
    ck_assert_uint_eq(total_statistics(store).recovered_bytes_cut, 0);
    must_close(store);
}
END_TEST

START_TEST(a_compaction_that_can_not_read_leaves_the_file_as_it_was)
{
    struct kvstore *store = must_open(dir, &options);
    put_sizes(store);
    spoil_next_read(FAULT_FAILS, 0);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_IO);
    spoil_next_read(FAULT_FLIPS, 30);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_CORRUPT);
    check_sizes(store);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
    check_sizes(store);
    must_close(store);
}
END_TEST

/* Recovery: whichever read fails, the store does not open, or opens with all there is. */
START_TEST(an_open_that_can_not_read_says_so)
{
    struct kvstore *store = must_open(dir, &options);
    put_sizes(store);
    must_close(store);
    store_checkpoint_remove(dir);
    unsigned refused = 0;
    bool fired = true;
    for (unsigned long nth = 1; fired; nth++) {
        struct kv_error error = {0};
        fault_install(
            &(struct fault_plan){.call = FAULT_READ, .nth = nth, .length = 1, .error = EIO});
        enum kv_status status = kvstore_open(dir, &options, &store, &error);
        fired = fault_has_fired();
        fault_clear();
        refused += status != KV_OK;
        ck_assert(status == KV_OK || (status == KV_IO && error.text[0] != '\0'));
        if (status == KV_OK) {
            check_sizes(store);
            must_close(store);
            store_checkpoint_remove(dir);
        }
    }
    ck_assert_uint_gt(refused, 2);
}
END_TEST

static size_t largest_read;

static ssize_t note_read_at(int fd, void *data, size_t size, off_t offset)
{
    largest_read = size > largest_read ? size : largest_read;
    return fileio_system.read_at(fd, data, size, offset);
}

static int sync_nothing(int fd)
{
    (void)fd;
    return 0;
}

static bool see(void *context, const struct kvstore_change *change)
{
    (void)context;
    return change != NULL;
}

/* A value has the header of a record, where one may begin: a put of version 1, with a key of one
 * byte and a value of 66 MiB, more than there can be. */
START_TEST(a_made_up_position_reads_no_more_than_a_record_has)
{
    const uint8_t header[] = {0, 0, 0, 0, 0, 0, 0x20, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0};
    const size_t value_bytes = (size_t)34 << 20;
    const struct fileio *before = fileio;
    struct fileio table = fileio_system;
    struct kvstore_options of_large = options;
    struct kvstore_position position;
    bool at_end;
    char *value = calloc(1, value_bytes);
    ck_assert_ptr_nonnull(value);
    memcpy(value + 7, header, sizeof header);
    table.read_at = note_read_at;
    table.sync_data = sync_nothing;
    fileio = &table;
    of_large.max_value_bytes = KVSTORE_MAX_VALUE_BYTES;
    struct kvstore *store = must_open(dir, &of_large);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(kvstore_put(store, kv_slice_from_string(numbered("key", i)),
                                     kv_slice(value, value_bytes), NULL, NULL),
                         KV_OK);
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    position.version = 1;
    position.place = FILE_HEADER_BYTES + RECORD_HEADER_BYTES + strlen("key 0") + 7;
    largest_read = 0;
    ck_assert_int_eq(kvstore_changes(store, 0, &position, kv_slice(NULL, 0), 1, see, NULL, &at_end),
                     KV_MISSED);
    ck_assert_uint_gt(largest_read, 0);
    ck_assert_uint_lt(largest_read, KVSTORE_MAX_VALUE_BYTES);
    must_close(store);
    fileio = before;
    free(value);
}
END_TEST

/* Both ways of reading, the same tests. */
static void add_both(Suite *suite, const char *name, SFun set_up_way)
{
    TCase *same = tcase_create(name);
    tcase_add_checked_fixture(same, set_up_way, tear_down);
    tcase_add_test(same, records_of_every_size_through_every_door);
    tcase_add_test(same, a_large_record_is_kept_until_its_operation_ends);
    tcase_add_test(same, a_made_up_position_reads_no_more_than_a_record_has);
    suite_add_tcase(suite, same);
    TCase *faults = tcase_create(name);
    tcase_add_checked_fixture(faults, set_up_way, tear_down);
    tcase_add_loop_test(faults, a_read_that_fails_is_the_error_of_its_call, 0, CALLS);
    tcase_add_loop_test(faults, a_file_that_ends_early_is_an_error, 0, CALLS);
    tcase_add_test(faults, a_flipped_bit_is_never_given_out);
    tcase_add_test(faults, a_failing_read_in_the_middle_of_a_large_value);
    tcase_add_test(faults, a_failing_write_changes_nothing);
    tcase_add_test(faults, a_failing_write_of_a_large_value_changes_nothing);
    tcase_add_test(faults, a_compaction_that_can_not_read_leaves_the_file_as_it_was);
    tcase_add_test(faults, an_open_that_can_not_read_says_so);
    suite_add_tcase(suite, faults);
}

TEST_SUITE(kvstore_pread)
{
    add_both(suite, "through the page cache", set_up);
    if (store_io_count() == KVSTORE_IO_COUNT)
        add_both(suite, "past the page cache", set_up_direct);
}
