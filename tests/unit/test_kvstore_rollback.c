/* Files that are put back to an earlier state, or lose their unsynced end, under an index that a
 * killed process has left: the log counts, and not the index. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory/machine_sizes.h"
#include "kvstore/api/store.h"
#include "kvstore/format/sizes.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define FILES 3u

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;
static struct image image;
static struct kvstore_options options;

static struct shared_store_name object_name(void)
{
    struct stat facts;
    ck_assert_int_eq(stat(dir, &facts), 0);
    return shared_store_name(facts.st_dev, facts.st_ino);
}

static void set_up(void)
{
    store_dir_make(dir);
    image = (struct image){.count = 0};
    options = (struct kvstore_options){.create = true,
                                       .datafiles = FILES,
                                       .direct = KVSTORE_DIRECT_OWNER,
                                       .compact_dead_percent = 100,
                                       .durability = KVSTORE_SYNC_NONE};
}

static void tear_down(void)
{
    if (store)
        must_close(store);
    store = NULL;
    image_free(&image);
    shm_unlink(object_name().text);
    store_dir_remove(dir);
}

/* A process that opens the store, works and is killed. */
static void die_after(void (*work)(struct kvstore *opened))
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        work(must_open(dir, &options));
        kill(getpid(), SIGKILL);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static uint64_t files_taken_over(void)
{
    struct kvstore_direct_facts facts;
    kvstore_direct_facts(store, &facts);
    return facts.taken_over_files;
}

/* The bytes of the file as the image has it, in place: the inode stays. */
static void put_back(const char *name, bool truncated)
{
    char path[STORE_DIR_BYTES + 32];
    const struct image_file *file = image_find(&image, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (truncated ? O_TRUNC : 0), 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, file->bytes, file->size, 0), (ssize_t)file->size);
    ck_assert_int_eq(ftruncate(fd, (off_t)file->size), 0);
    close(fd);
}

static const char *data_file(unsigned number)
{
    static char name[16];
    snprintf(name, sizeof name, "data.%04u", number);
    return name;
}

static void write_first(struct kvstore *opened)
{
    must_put_numbers(opened, 0, 1000);
    ck_assert_int_eq(kvstore_sync(opened), KV_OK);
}

static void write_second(struct kvstore *opened)
{
    must_put_numbers(opened, 1000, 1200);
    for (int i = 0; i < 1000; i += 3)
        must_put(opened, numbered("key", i), "new");
}

static void write_nothing(struct kvstore *opened)
{
    (void)opened;
}

/* Each key that the file has: as it was first, or as it is now. */
static void check_states(unsigned from_files, unsigned to_files)
{
    for (int i = 0; i < 1200; i++) {
        char key[32], value[32];
        snprintf(key, sizeof key, "key %d", i);
        snprintf(value, sizeof value, "value %d", i);
        struct kv_slice slice = kv_slice_from_string(key);
        uint32_t number = (uint32_t)(keyhash_file(store->context.seed, slice, FILES));
        bool is_back = number >= from_files && number < to_files;
        if (is_back && i >= 1000)
            ck_assert_pstr_eq(get_text(store, key), NULL);
        else if (is_back || i >= 1000 || i % 3 != 0)
            ck_assert_pstr_eq(get_text(store, key), value);
        else
            ck_assert_pstr_eq(get_text(store, key), "new");
    }
}

/* Loop: which files go back (each alone, all, all but the first), and whether a file is cut before
 * it is written, as cp does, or afterwards, as rsync --inplace does. */
START_TEST(what_was_put_back_is_read)
{
    static const unsigned ranges[][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {1, 3}};
    unsigned from = ranges[_i / 2][0], to = ranges[_i / 2][1];
    die_after(write_first);
    image_take(&image, dir);
    die_after(write_second);
    for (unsigned number = from; number < to; number++)
        put_back(data_file(number), _i % 2);
    store = must_open(dir, &options);
    ck_assert_uint_eq(files_taken_over(), FILES - (to - from));
    check_states(from, to);
    must_put(store, "key 5", "after");
    must_close(store);
    store = must_open(dir, &options);
    ck_assert_pstr_eq(get_text(store, "key 5"), "after");
}
END_TEST

/* What was written before the last sync is on the storage, of the rest nothing. */
START_TEST(an_unsynced_tail_that_was_lost_is_missed)
{
    char path[STORE_DIR_BYTES + 32];
    die_after(write_first);
    image_take(&image, dir);
    die_after(write_second);
    for (unsigned number = 0; number < FILES; number += 2) {
        struct stat facts;
        snprintf(path, sizeof path, "%s/%s", dir, data_file(number));
        ck_assert_int_eq(stat(path, &facts), 0);
        put_back(data_file(number), false);
        ck_assert_int_eq(truncate(path, facts.st_size), 0);
    }
    store = must_open(dir, &options);
    ck_assert_uint_eq(files_taken_over(), 1);
    ck_assert(store->context.files[1].taken_over);
    for (int i = 0; i < 1000; i++)
        ck_assert_ptr_nonnull(get_text(store, numbered("key", i)));
}
END_TEST

/* Of the blocks of an unsynced tail the first, one in the middle, or the last was lost: intact
 * records behind a gap are damage within one boot, and nothing is written behind them. */
START_TEST(a_lost_block_of_the_tail_is_missed)
{
    static const uint8_t zeros[PAGE_BYTES];
    char path[STORE_DIR_BYTES + 32];
    options.datafiles = 1;
    die_after(write_first);
    store = must_open(dir, &options);
    uint64_t from = round_up(store->context.files[0].current->log.tail, PAGE_BYTES);
    must_close(store);
    store = NULL;
    die_after(write_second);
    snprintf(path, sizeof path, "%s/data.0000", dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    uint64_t at = from + (uint64_t)_i * PAGE_BYTES;
    ck_assert_int_eq(pwrite(fd, zeros, sizeof zeros, (off_t)at), (ssize_t)sizeof zeros);
    close(fd);
    struct kv_error error;
    ck_assert_int_eq(kvstore_open(dir, &options, &store, &error), KV_CORRUPT);
    ck_assert_ptr_null(store);
    ck_assert_msg(strstr(error.text, "intact records follow"), "%s", error.text);
}
END_TEST

/* The object, as it was left, while others use the name ---------------------------------------- */

static uint8_t *take_object(size_t *size)
{
    struct stat facts;
    int fd = shm_open(object_name().text, O_RDWR, 0);
    ck_assert(fd >= 0 && fstat(fd, &facts) == 0);
    *size = (size_t)facts.st_size;
    uint8_t *bytes = malloc(*size);
    ck_assert_int_eq(pread(fd, bytes, *size, 0), facts.st_size);
    close(fd);
    shm_unlink(object_name().text);
    return bytes;
}

static void bring_object(uint8_t *bytes, size_t size)
{
    int fd = shm_open(object_name().text, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, size, 0), (ssize_t)size);
    close(fd);
    free(bytes);
}

static void write_one_way(struct kvstore *opened)
{
    must_put(opened, "one", "1");
    must_put(opened, "two", "1");
}

static void write_the_other_way(struct kvstore *opened)
{
    must_put(opened, "two", "2");
    must_put(opened, "one", "2");
}

/* A store that was put back went on differently, and is as long and of the same versions: a process
 * that cannot see the object (of another IPC namespace) had it meanwhile. Loop: killed or stopped
 * before, with or without a checkpoint. */
START_TEST(another_history_of_the_same_length_is_not_the_one_of_the_index)
{
    options.datafiles = 1;
    store = must_open(dir, &options);
    write_first(store);
    must_close(store);
    store = NULL;
    if (_i == 1)
        store_checkpoint_remove(dir);
    image_take(&image, dir);
    die_after(write_one_way);
    size_t size;
    uint8_t *left = take_object(&size);
    for (size_t i = 0; i < image.count; i++)
        put_back(image.files[i].name, true);
    store = must_open(dir, &options);
    ck_assert_uint_eq(files_taken_over(), 0);
    write_the_other_way(store);
    must_close(store);
    store = NULL;
    bring_object(left, size);
    store = must_open(dir, &options);
    ck_assert_pstr_eq(get_text(store, "one"), "2");
    ck_assert_pstr_eq(get_text(store, "two"), "2");
    ck_assert_uint_eq(files_taken_over(), 0);
}
END_TEST

/* Where nothing was changed nothing is read, however often a process dies. */
START_TEST(a_log_that_is_as_it_was_is_taken_over)
{
    die_after(write_first);
    for (int i = 0; i < 40; i++)
        die_after(i % 2 ? write_nothing : write_second);
    store = must_open(dir, &options);
    ck_assert_uint_eq(files_taken_over(), FILES);
    check_states(0, 0);
}
END_TEST

/* Chapters ------------------------------------------------------------------------------------- */

START_TEST(the_last_chapters_are_kept)
{
    static uint8_t page[4096];
    struct file_chapters chapters, read;
    file_chapters_read(page, 77, &chapters);
    ck_assert_uint_eq(chapters.count, 0);
    ck_assert_uint_eq(file_chapters_at(&chapters, 4096), 0);
    for (uint64_t i = 1; i <= 100; i++)
        file_chapters_begin(&chapters, i, 4096 * i);
    file_chapters_write(page, 77, &chapters);
    file_chapters_read(page, 77, &read);
    ck_assert_uint_eq(read.count, FILE_CHAPTERS_MOST);
    for (uint64_t i = 1; i <= 100; i++) {
        uint64_t known = i + FILE_CHAPTERS_MOST > 100 ? i : 0;
        ck_assert_uint_eq(file_chapters_at(&read, 4096 * i + 8), known);
        ck_assert_uint_eq(file_chapters_at(&read, 4096 * i + 4096), known);
    }
    file_chapters_read(page, 78, &read);
    ck_assert_uint_eq(read.count, 0);
    page[FILE_CHAPTERS_OFFSET + 20] ^= 1;
    file_chapters_read(page, 77, &read);
    ck_assert_uint_eq(read.count, 0);
}
END_TEST

/* What was written behind the place where a new one begins is no longer said to be known. */
START_TEST(a_chapter_takes_the_place_of_those_behind_it)
{
    struct file_chapters chapters = {.count = 0};
    file_chapters_begin(&chapters, 5, 4096);
    file_chapters_begin(&chapters, 6, 8192);
    file_chapters_begin(&chapters, 7, 9000);
    file_chapters_begin(&chapters, 8, 8192);
    ck_assert_uint_eq(chapters.count, 2);
    ck_assert_uint_eq(file_chapters_at(&chapters, 4096), 0);
    ck_assert_uint_eq(file_chapters_at(&chapters, 8192), 5);
    ck_assert_uint_eq(file_chapters_at(&chapters, 8200), 8);
}
END_TEST

TEST_SUITE(kvstore_rollback)
{
    TCase *tests = tcase_create("rollback");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, what_was_put_back_is_read, 0, 10);
    tcase_add_test(tests, an_unsynced_tail_that_was_lost_is_missed);
    tcase_add_loop_test(tests, a_lost_block_of_the_tail_is_missed, 0, 2);
    tcase_add_loop_test(tests, another_history_of_the_same_length_is_not_the_one_of_the_index, 0,
                        2);
    tcase_add_test(tests, a_log_that_is_as_it_was_is_taken_over);
    tcase_add_test(tests, the_last_chapters_are_kept);
    tcase_add_test(tests, a_chapter_takes_the_place_of_those_behind_it);
    suite_add_tcase(suite, tests);
}
