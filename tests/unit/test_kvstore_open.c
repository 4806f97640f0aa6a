#include "mqkv/kvstore.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

static const struct kvstore_options create = {.create = true};

static enum kv_status try_open(const struct kvstore_options *options, struct kv_error *error)
{
    memset(error, 0, sizeof *error);
    enum kv_status status = kvstore_open(dir, options, &store, error);
    ck_assert_int_eq(error->status, status);
    ck_assert((status == KV_OK) == (store != NULL));
    return status;
}

#define ck_assert_contains(text, part) \
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" lacks \"%s\"", text, part)

START_TEST(open_needs_a_directory_and_a_store)
{
    struct kv_error error;
    struct kvstore *none;
    ck_assert_int_eq(kvstore_open("/tmp/mqkv/no/such/dir", &create, &none, &error), KV_USAGE);
    ck_assert_contains(error.text, "/tmp/mqkv/no/such/dir");
    ck_assert_int_eq(kvstore_open("/etc/passwd", &create, &none, &error), KV_USAGE);
    ck_assert_int_eq(try_open(NULL, &error), KV_NOT_FOUND);
    ck_assert_contains(error.text, dir);
    ck_assert_int_eq(try_open(&create, &error), KV_OK);
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
    static const struct kvstore_options wrong[] = {
        {.create = true, .datafiles = KVSTORE_MAX_DATAFILES + 1},
        {.create = true, .locking = KVSTORE_LOCKING_COUNT},
        {.create = true, .rwlock = KVSTORE_RWLOCK_COUNT},
        {.create = true, .rwlock = KVSTORE_PREFER_READER, .locking = KVSTORE_FILE_MUTEX},
        {.create = true, .rwlock = KVSTORE_PREFER_READER, .locking = KVSTORE_GLOBAL_MUTEX},
        {.create = true, .allocator = KVSTORE_ALLOCATOR_COUNT},
        {.create = true, .durability = 17},
        {.create = true, .max_value_bytes = KVSTORE_MAX_VALUE_BYTES + 1},
        {.create = true, .compact_dead_percent = 101},
        {.create = true, .read_only = true},
    };
    struct kv_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(try_open(&wrong[i], &error), KV_USAGE);
}
END_TEST

START_TEST(a_new_store_is_small)
{
    store = must_open(dir, &create);
    ck_assert_uint_eq(kvstore_datafiles(store), KVSTORE_DEFAULT_DATAFILES);
    ck_assert_uint_le(total_statistics(store).file_bytes, 512u << 10);
}
END_TEST

START_TEST(the_number_of_data_files_is_fixed)
{
    struct kv_error error;
    struct kvstore_options options = {.create = true, .datafiles = 7};
    must_close(must_open(dir, &options));
    options.datafiles = 3;
    ck_assert_int_eq(try_open(&options, &error), KV_MISMATCH);
    ck_assert_contains(error.text, "7");
    ck_assert_contains(error.text, "3");
    options.datafiles = 0;
    ck_assert_int_eq(try_open(&options, &error), KV_OK);
    ck_assert_uint_eq(kvstore_datafiles(store), 7);
}
END_TEST

START_TEST(a_store_has_one_owner_in_a_process)
{
    struct kv_error error;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    struct kvstore *first = must_open(dir, &create);
    ck_assert_int_eq(try_open(&create, &error), KV_BUSY);
    ck_assert_contains(error.text, pid);
    must_put(first, "still", "works");
    must_close(first);
    ck_assert_int_eq(try_open(NULL, &error), KV_OK);
}
END_TEST

/* Holds the store open in another process until the pipe is closed. */
static pid_t open_in_child(int *hold_fd)
{
    int ready[2], hold[2];
    char byte = 0;
    ck_assert(pipe(ready) == 0 && pipe(hold) == 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(hold[1]);
        struct kvstore *owned = must_open(dir, &create);
        bool told = write(ready[1], &byte, 1) == 1 && read(hold[0], &byte, 1) == 0;
        must_close(owned);
        _exit(told ? 0 : 1);
    }
    close(hold[0]);
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *hold_fd = hold[1];
    return child;
}

START_TEST(another_process_is_told_the_owners_pid)
{
    struct kv_error error;
    int hold_fd, result;
    pid_t child = open_in_child(&hold_fd);
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)child);
    ck_assert_int_eq(try_open(&create, &error), KV_BUSY);
    ck_assert_contains(error.text, pid);
    struct kvstore_options reader = {.read_only = true};
    ck_assert_int_eq(try_open(&reader, &error), KV_BUSY);
    close(hold_fd);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(try_open(NULL, &error), KV_OK);
}
END_TEST

static void patch_file(const char *name, long offset, const void *bytes, size_t size)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, size, offset), (ssize_t)size);
    close(fd);
}

static void rename_file(const char *from, const char *to)
{
    char from_path[STORE_DIR_BYTES + 32], to_path[STORE_DIR_BYTES + 32];
    snprintf(from_path, sizeof from_path, "%s/%s", dir, from);
    snprintf(to_path, sizeof to_path, "%s/%s", dir, to);
    ck_assert_int_eq(rename(from_path, to_path), 0);
}

START_TEST(another_format_version_is_a_mismatch)
{
    struct kv_error error;
    must_close(must_open(dir, &create));
    patch_file("data.0000", 8, "\x63", 1);
    ck_assert_int_eq(try_open(NULL, &error), KV_MISMATCH);
    ck_assert_contains(error.text, "99");
    ck_assert_contains(error.text, "1");
}
END_TEST

START_TEST(files_that_do_not_belong_together_are_refused)
{
    struct kv_error error;
    must_close(must_open(dir, &create));
    rename_file("data.0002", "elsewhere");
    ck_assert_int_eq(try_open(&create, &error), KV_CORRUPT);
    ck_assert_contains(error.text, "data.0002");
    rename_file("data.0001", "data.0002");
    rename_file("elsewhere", "data.0001");
    ck_assert_int_eq(try_open(&create, &error), KV_CORRUPT);
    ck_assert_contains(error.text, "data.0001");
}
END_TEST

START_TEST(a_store_without_its_first_file_is_not_overwritten)
{
    struct kv_error error;
    store = must_open(dir, &create);
    char key[24];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d", i);
        must_put(store, key, "precious");
    }
    must_close(store);
    rename_file("data.0000", "elsewhere");
    ck_assert_int_eq(try_open(&create, &error), KV_CORRUPT);
    ck_assert_contains(error.text, "data.0000");
    const struct kvstore_options look = {.read_only = true};
    ck_assert_int_eq(try_open(&look, &error), KV_CORRUPT);
    ck_assert_contains(error.text, "data.0000");
    rename_file("elsewhere", "data.0000");
    store = must_open(dir, NULL);
    ck_assert_str_eq(get_text(store, "42"), "precious");
}
END_TEST

START_TEST(a_store_of_one_file_that_is_gone_is_not_made_anew)
{
    struct kv_error error;
    const struct kvstore_options one_file = {.create = true, .datafiles = 1};
    must_close(must_open(dir, &one_file));
    rename_file("data.0000", "elsewhere");
    ck_assert_int_eq(try_open(&one_file, &error), KV_CORRUPT);
    ck_assert_contains(error.text, "data.0000.index is there");
    rename_file("elsewhere", "data.0000");
    store = must_open(dir, NULL);
}
END_TEST

START_TEST(an_unfinished_creation_is_begun_again)
{
    struct kvstore_options options = {.create = true, .datafiles = 5};
    must_close(must_open(dir, &options));
    for (uint32_t number = 0; number < options.datafiles; number++) {
        char checkpoint[32]; /* made by the close, not by the creation */
        snprintf(checkpoint, sizeof checkpoint, "data.%04u.index", number);
        rename_file(checkpoint, "elsewhere");
    }
    rename_file("data.0000", "data.0000.new");
    options.datafiles = 2;
    store = must_open(dir, &options);
    must_put(store, "key", "value");
    must_close(store);
    store = must_open(dir, NULL);
    ck_assert_uint_eq(kvstore_datafiles(store), 2);
    ck_assert_str_eq(get_text(store, "key"), "value");
    ck_assert_int_ne(access("data.0004", F_OK), 0);
}
END_TEST

/* _i: the kind of file call that fails, the second time it is made. */
START_TEST(a_creation_that_fails_can_be_repeated)
{
    const struct fault_plan plan = {
        .call = (enum fault_call)_i, .nth = 2, .length = 1, .error = ENOSPC};
    struct kv_error error;
    fault_install(&plan);
    enum kv_status status = try_open(&create, &error);
    fault_clear();
    ck_assert(status == KV_OK || fault_has_fired());
    if (status != KV_OK)
        store = must_open(dir, &create);
    ck_assert_uint_eq(kvstore_datafiles(store), KVSTORE_DEFAULT_DATAFILES);
    must_put(store, "key", "value");
    ck_assert_str_eq(get_text(store, "key"), "value");
}
END_TEST

START_TEST(a_fifo_instead_of_a_file_does_not_hang_the_open)
{
    static const char *const names[] = {"data.0000", "data.0001", "data.0001.index"};
    char path[STORE_DIR_BYTES + 32];
    struct kv_error error;
    const struct kvstore_options two_files = {.create = true, .datafiles = 2};
    must_close(must_open(dir, &two_files));
    snprintf(path, sizeof path, "%s/%s", dir, names[_i]);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    bool never_needed = strstr(names[_i], ".index") != NULL;
    ck_assert_int_eq(try_open(&two_files, &error), never_needed ? KV_OK : KV_CORRUPT);
}
END_TEST

START_TEST(read_only_changes_nothing)
{
    struct image before, after;
    struct kvstore_options options = {.read_only = true};
    store = must_open(dir, &create);
    must_put(store, "key", "value");
    must_close(store);
    image_take(&before, dir);
    store = must_open(dir, &options);
    ck_assert_str_eq(get_text(store, "key"), "value");
    ck_assert_int_eq(kvstore_put(store, KEY("key"), KEY("other"), NULL, NULL), KV_READ_ONLY);
    ck_assert_int_eq(kvstore_delete(store, KEY("key"), 0, NULL), KV_READ_ONLY);
    ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_READ_ONLY);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    must_close(store);
    store = NULL;
    image_take(&after, dir);
    ck_assert_uint_eq(before.count, after.count);
    for (size_t i = 0; i < before.count; i++) {
        struct image_file *same = image_find(&after, before.files[i].name);
        ck_assert_ptr_nonnull(same);
        ck_assert_uint_eq(same->size, before.files[i].size);
        ck_assert_mem_eq(same->bytes, before.files[i].bytes, same->size);
    }
    image_free(&before);
    image_free(&after);
}
END_TEST

START_TEST(a_store_may_have_many_data_files)
{
    struct kvstore_options options = {.create = true, .datafiles = 300};
    store = must_open(dir, &options);
    char key[24];
    for (int i = 0; i < 2000; i++) {
        snprintf(key, sizeof key, "%d", i);
        must_put(store, key, key);
    }
    must_close(store);
    store = must_open(dir, NULL);
    ck_assert_uint_eq(total_statistics(store).keys, 2000);
    ck_assert_str_eq(get_text(store, "1999"), "1999");
}
END_TEST

TEST_SUITE(kvstore_open)
{

    TCase *open_tests = tcase_create("open");
    store_case_add(open_tests);
    tcase_add_test(open_tests, open_needs_a_directory_and_a_store);
    tcase_add_test(open_tests, options_out_of_range_are_refused);
    tcase_add_test(open_tests, a_new_store_is_small);
    tcase_add_test(open_tests, the_number_of_data_files_is_fixed);
    tcase_add_test(open_tests, a_store_has_one_owner_in_a_process);
    tcase_add_test(open_tests, another_process_is_told_the_owners_pid);
    tcase_add_test(open_tests, another_format_version_is_a_mismatch);
    tcase_add_test(open_tests, files_that_do_not_belong_together_are_refused);
    tcase_add_test(open_tests, a_store_without_its_first_file_is_not_overwritten);
    tcase_add_test(open_tests, a_store_of_one_file_that_is_gone_is_not_made_anew);
    tcase_add_test(open_tests, an_unfinished_creation_is_begun_again);
    tcase_add_loop_test(open_tests, a_creation_that_fails_can_be_repeated, 0, FAULT_CALL_COUNT);
    tcase_add_loop_test(open_tests, a_fifo_instead_of_a_file_does_not_hang_the_open, 0, 3);
    tcase_add_test(open_tests, read_only_changes_nothing);
    tcase_add_test(open_tests, a_store_may_have_many_data_files);
    tcase_set_timeout(open_tests, 60);
    suite_add_tcase(suite, open_tests);
}
