/* The index that a process which was killed has left is used by the next one, or not at all. */
#include "kvstore/table/takeover.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "tests/support/fault.h"
#include "kvstore/shared/store_objects.h"
#include "tests/support/index_facts.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define FILES 3u

static char dir[STORE_DIR_BYTES];
static struct kvstore *store;

static const struct kvstore_options direct = {.create = true,
                                              .datafiles = FILES,
                                              .direct = KVSTORE_DIRECT_OWNER,
                                              .compact_dead_percent = 100,
                                              .durability = KVSTORE_SYNC_NONE};

static struct shared_store_name object_name(void)
{
    struct stat facts;
    ck_assert_int_eq(stat(dir, &facts), 0);
    return shared_store_name(facts.st_dev, facts.st_ino);
}

static bool object_is_there(void)
{
    int fd = shm_open(object_name().text, O_RDONLY, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool count_object(void *count, uint64_t number)
{
    (void)number;
    ++*(unsigned *)count;
    return false;
}

/* Of the store, whatever their names. */
static unsigned objects_in_shm(void)
{
    struct stat facts;
    unsigned count = 0;
    ck_assert_int_eq(stat(dir, &facts), 0);
    store_objects_find(facts.st_dev, facts.st_ino, geteuid(), count_object, &count);
    return count;
}

static void set_up(void)
{
    store_dir_make(dir);
}

static void tear_down(void)
{
    if (store)
        must_close(store);
    store = NULL;
    shm_unlink(object_name().text);
    store_dir_remove(dir);
}

/* A process that opens the store, works and is killed. */
static void die_after(const struct kvstore_options *options, void (*work)(struct kvstore *opened))
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        work(must_open(dir, options));
        kill(getpid(), SIGKILL);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static uint64_t taken_over(void)
{
    struct kvstore_direct_facts facts;
    kvstore_direct_facts(store, &facts);
    return facts.taken_over_files;
}

/* Opens it, and compares what is found with what the logs say. UINT64_MAX: any number of files. */
static void open_and_compare(uint64_t files_taken_over)
{
    const struct kvstore_options reading = {.read_only = true};
    struct index_facts rebuilt, found;
    struct kvstore *read_only = must_open(dir, &reading);
    index_facts_take(&rebuilt, read_only);
    must_close(read_only);
    store = must_open(dir, &direct);
    if (files_taken_over != UINT64_MAX)
        ck_assert_uint_eq(taken_over(), files_taken_over);
    index_facts_take(&found, store);
    for (uint32_t i = 0; i < FILES; i++) { /* a file that was read leaps over some versions */
        const struct datafile *file = &store->context.files[i];
        if (!file->taken_over)
            found.words[i].max_version = rebuilt.words[i].max_version;
    }
    const char *difference = index_facts_difference(&rebuilt, &found);
    ck_assert_msg(!difference, "%s", difference);
    index_facts_free(&rebuilt);
    index_facts_free(&found);
}

static void write_much(struct kvstore *opened)
{
    must_put_numbers(opened, 0, 20000);
    for (int i = 0; i < 20000; i += 7)
        ck_assert_int_eq(kvstore_delete(opened, kv_slice_from_string(numbered("key", i)), 0, NULL),
                         KV_OK);
    const struct kvstore_put_options later = {.expiry_ms = clock_realtime_ms() + 1000000};
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(kvstore_put(opened, kv_slice_from_string(numbered("mortal", i)),
                                     kv_slice_from_string("x"), &later, NULL),
                         KV_OK);
}

static void write_little(struct kvstore *opened)
{
    must_put(opened, "a", "1");
}

static void write_nothing(struct kvstore *opened)
{
    (void)opened;
}

START_TEST(a_killed_process_leaves_its_index)
{
    die_after(&direct, write_much);
    ck_assert(object_is_there());
    open_and_compare(FILES);
    ck_assert_pstr_eq(get_text(store, "key 20"), "value 20");
    ck_assert_ptr_null(get_text(store, "key 21"));
    must_put(store, "key 21", "again");
    must_close(store);
    ck_assert(!object_is_there());
    store = must_open(dir, &direct);
    ck_assert_uint_eq(taken_over(), 0);
    ck_assert_pstr_eq(get_text(store, "key 21"), "again");
}
END_TEST

START_TEST(one_kill_after_the_other)
{
    die_after(&direct, write_much);
    for (int i = 0; i < 5; i++)
        die_after(&direct, i % 2 ? write_nothing : write_little);
    open_and_compare(FILES);
    ck_assert_pstr_eq(get_text(store, "a"), "1");
}
END_TEST

static void compact_all(struct kvstore *opened)
{
    struct kv_error error;
    write_much(opened);
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < FILES; i++)
            ck_assert_int_eq(kvstore_compact(opened, i, &error), KV_OK);
    must_put(opened, "a", "2");
}

START_TEST(a_compacted_file_is_taken_over)
{
    die_after(&direct, compact_all);
    open_and_compare(FILES);
    ck_assert_pstr_eq(get_text(store, "a"), "2");
}
END_TEST

static bool index_is_named(void *opened)
{
    struct kvstore_direct_facts facts;
    kvstore_direct_facts(opened, &facts);
    return !facts.is_gone;
}

static void lose_name(struct kvstore *opened)
{
    ck_assert_int_eq(shm_unlink(object_name().text), 0);
    ck_assert(!index_is_named(opened));
}

static void write_and_renew(struct kvstore *opened)
{
    struct kv_error error = {0};
    must_put_numbers(opened, 0, 20000);
    lose_name(opened);
    kvstore_renew_index(opened);
    ck_assert(wait_until(index_is_named, opened));
    for (int i = 0; i < 20000; i += 7)
        ck_assert_int_eq(kvstore_delete(opened, kv_slice_from_string(numbered("key", i)), 0, NULL),
                         KV_OK);
    must_put_numbers(opened, 20000, 30000);
    ck_assert_int_eq(kvstore_compact(opened, 0, &error), KV_OK);
}

START_TEST(an_index_that_was_made_anew_is_taken_over)
{
    die_after(&direct, write_and_renew);
    ck_assert_uint_eq(objects_in_shm(), 1);
    open_and_compare(FILES);
    ck_assert_ptr_null(get_text(store, "key 21"));
    ck_assert_pstr_eq(get_text(store, "key 29999"), "value 29999");
    lose_name(store);
    kvstore_renew_index(store);
    ck_assert(wait_until(index_is_named, store));
    kvstore_renew_index(store); /* nothing is to be done */
    must_close(store);
    store = NULL;
    ck_assert_uint_eq(objects_in_shm(), 0);
}
END_TEST

/* Somebody has taken the name meanwhile. */
START_TEST(an_index_whose_name_is_taken_waits_for_it)
{
    store = must_open(dir, &direct);
    must_put_numbers(store, 0, 100);
    lose_name(store);
    int fd = shm_open(object_name().text, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    kvstore_renew_index(store);
    clock_sleep_ms(200);
    ck_assert(!index_is_named(store));
    struct stat facts;
    ck_assert_int_eq(fstat(fd, &facts), 0);
    ck_assert_int_eq((int)facts.st_size, 0);
    ck_assert_uint_eq(facts.st_nlink, 1);
    close(fd);
    ck_assert_int_eq(shm_unlink(object_name().text), 0);
    kvstore_renew_index(store);
    ck_assert(wait_until(index_is_named, store));
    ck_assert_pstr_eq(get_text(store, "key 99"), "value 99");
}
END_TEST

/* Writes while its index is made anew, again and again, until it is killed. */
static void renew_until_killed(void)
{
    store = must_open(dir, &direct);
    for (unsigned round = 0;; round++) {
        if (index_is_named(store))
            shm_unlink(object_name().text);
        kvstore_renew_index(store);
        int first = (int)(round % 50) * 100;
        must_put_numbers(store, first, first + 100);
    }
}

START_TEST(who_is_killed_while_it_makes_its_index_anew_leaves_nothing_wrong)
{
    must_close(must_open(dir, &direct));
    for (unsigned round = 0; round < 30; round++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            renew_until_killed();
        clock_sleep_ms(30 + round * 3);
        kill(child, SIGKILL);
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        open_and_compare(UINT64_MAX);
        must_close(store);
        store = NULL;
    }
}
END_TEST

START_TEST(what_was_not_synced_is_with_the_first_sync)
{
    die_after(&direct, write_much);
    open_and_compare(FILES);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    struct kvstore_file_statistics sums = total_statistics(store);
    ck_assert_uint_gt(sums.synced_bytes, 0);
    ck_assert_uint_eq(sums.synced_bytes, sums.appended_bytes);
}
END_TEST

START_TEST(who_lets_nobody_in_removes_it)
{
    const struct kvstore_options off = {0};
    die_after(&direct, write_little);
    store = must_open(dir, &off);
    ck_assert(!object_is_there());
    ck_assert_pstr_eq(get_text(store, "a"), "1");
}
END_TEST

START_TEST(a_file_that_others_changed_is_read)
{
    char path[STORE_DIR_BYTES + 32], copy[STORE_DIR_BYTES + 32];
    die_after(&direct, write_much);
    snprintf(path, sizeof path, "%s/data.0001", dir);
    struct image image;
    image_take(&image, dir);
    struct image_file *file = image_find(&image, "data.0001");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    switch (_i) {
    case 0: /* as if restored from a copy: the same bytes, another inode */
        close(fd);
        snprintf(copy, sizeof copy, "%s/copy", dir);
        fd = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ck_assert_int_eq(write(fd, file->bytes, file->size), (ssize_t)file->size);
        ck_assert_int_eq(rename(copy, path), 0);
        break;
    case 1: /* cut */
        ck_assert_int_eq(ftruncate(fd, 50000), 0);
        break;
    }
    close(fd);
    image_free(&image);
    open_and_compare(FILES - 1);
}
END_TEST

static void fail_a_sync(struct kvstore *opened)
{
    const struct fault_plan plan = {.call = FAULT_SYNC_DATA, .nth = 1, .error = EIO};
    write_much(opened);
    fault_install(&plan);
    kvstore_sync(opened);
}

START_TEST(nothing_is_taken_over_after_a_failed_sync)
{
    die_after(&direct, fail_a_sync);
    open_and_compare(0);
}
END_TEST

static void mark(struct kvstore *opened, uint32_t number, uint64_t flags, uint64_t writing)
{
    struct shared_generation *words = opened->context.files[number].current->words;
    words->flags = flags;
    words->writing = writing;
}

static void die_in_syncs_and_writes(struct kvstore *opened)
{
    write_much(opened);
    mark(opened, 0, SHARED_GENERATION_SYNCING, 0);
    mark(opened, 1, 0, 1);
    mark(opened, 2, SHARED_GENERATION_DOUBTFUL, 0);
}

START_TEST(a_sync_under_way_is_looked_after_and_a_write_is_not_trusted)
{
    die_after(&direct, die_in_syncs_and_writes);
    open_and_compare(1);
    ck_assert(store->context.files[0].taken_over);
}
END_TEST

/* Forgeries ------------------------------------------------------------------------------------ */

static void flip(struct random_state *random, unsigned bits)
{
    int fd = shm_open(object_name().text, O_RDWR, 0);
    struct stat facts;
    ck_assert(fd >= 0 && fstat(fd, &facts) == 0);
    for (unsigned i = 0; i < bits; i++) {
        uint64_t below = random_below(random, 2) ? 8192 + 3 * sizeof(struct shared_file)
                                                 : (uint64_t)facts.st_size;
        off_t at = (off_t)random_below(random, below);
        uint8_t byte;
        ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1u << random_below(random, 8));
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

static void write_some(struct kvstore *opened)
{
    must_put_numbers(opened, 0, 3000);
}

/* Whatever is in it: what is given out is what was written. */
START_TEST(a_forged_object_gives_out_nothing_wrong)
{
    struct random_state random;
    random_seed(&random, (uint64_t)_i);
    die_after(&direct, write_some);
    for (int round = 0; round < 6; round++) {
        flip(&random, 1 + (unsigned)random_below(&random, 1u << random_below(&random, 12)));
        store = must_open(dir, &direct);
        check_numbers(store, 0, 3000);
        ck_assert_uint_eq(total_statistics(store).keys, 3000);
        must_close(store);
        store = NULL;
        die_after(&direct, write_nothing);
    }
}
END_TEST

/* Each word of a generation in turn, to each of some values. */
START_TEST(forged_numbers_are_found_out)
{
    static const uint64_t values[] = {0, 1, 2, 4096, 1 << 20, UINT32_MAX, UINT64_MAX};
    enum { WORDS = sizeof(struct shared_generation) / sizeof(uint64_t) };
    die_after(&direct, write_some);
    for (size_t i = 0; i < sizeof values / sizeof values[0] + 2; i++) {
        int fd = shm_open(object_name().text, O_RDWR, 0);
        off_t at = (off_t)(8192 + offsetof(struct shared_file, states[1]) +
                           (uint64_t)_i * sizeof(uint64_t));
        uint64_t word;
        ck_assert_int_eq(pread(fd, &word, sizeof word, at), sizeof word);
        word = i < sizeof values / sizeof values[0] ? values[i] : i % 2 ? word + 8 : word - 8;
        ck_assert_int_eq(pwrite(fd, &word, sizeof word, at), sizeof word);
        close(fd);
        store = must_open(dir, &direct);
        check_numbers(store, 0, 3000);
        ck_assert_uint_eq(total_statistics(store).keys, 3000);
        must_close(store);
        store = NULL;
        die_after(&direct, write_nothing);
    }
    ck_assert_uint_lt((unsigned)_i, WORDS);
}
END_TEST

START_TEST(another_stores_object_is_not_taken)
{
    struct shared_store_name name = object_name();
    int fd = shm_open(name.text, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, _i * 4096), 0);
    close(fd);
    const struct kvstore_options off = {.create = true, .datafiles = FILES};
    must_close(must_open(dir, &off));
    fd = shm_open(name.text, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(ftruncate(fd, _i * 4096), 0);
    close(fd);
    store = must_open(dir, &direct);
    ck_assert_uint_eq(taken_over(), 0);
    ck_assert(object_is_there());
    must_put(store, "a", "1");
}
END_TEST

/* The name in /dev/shm is another's: here, for want of another user, a FIFO. */
START_TEST(an_object_gets_another_name_where_its_own_is_taken)
{
    char squatted[sizeof "/dev/shm" + SHARED_STORE_NAME_BYTES];
    struct kvstore_direct_facts facts, again;
    snprintf(squatted, sizeof squatted, "/dev/shm%s", object_name().text);
    ck_assert_int_eq(mkfifo(squatted, 0600), 0);
    die_after(&direct, write_much);
    open_and_compare(FILES);
    kvstore_direct_facts(store, &facts);
    ck_assert_int_eq(facts.direct, KVSTORE_DIRECT_OWNER);
    ck_assert_uint_ne(facts.number, 0);
    ck_assert_str_ne(facts.name, object_name().text);
    must_close(store);
    ck_assert_int_eq(unlink(squatted), 0);
    ck_assert_int_eq(shm_unlink(facts.name), -1);

    store = must_open(dir, &direct);
    kvstore_direct_facts(store, &again);
    ck_assert_uint_eq(again.number, 0);
    ck_assert_str_eq(again.name, object_name().text);
}
END_TEST

/* A name that was another's is free by now. */
START_TEST(an_object_of_another_name_is_found_and_put_out_of_use)
{
    char squatted[sizeof "/dev/shm" + SHARED_STORE_NAME_BYTES];
    struct kvstore_direct_facts facts;
    snprintf(squatted, sizeof squatted, "/dev/shm%s", object_name().text);
    ck_assert_int_eq(mkfifo(squatted, 0600), 0);
    die_after(&direct, write_much);
    ck_assert_int_eq(unlink(squatted), 0);
    open_and_compare(FILES);
    kvstore_direct_facts(store, &facts);
    ck_assert_uint_ne(facts.number, 0);
    int left = shm_open(facts.name, O_RDONLY, 0);
    must_close(store);
    ck_assert_int_ge(left, 0);

    const struct kvstore_options off = {.create = true, .datafiles = FILES};
    ck_assert_int_eq(mkfifo(squatted, 0600), 0);
    die_after(&direct, write_little);
    store = must_open(dir, &off);
    uint32_t condition = SHARED_STORE_IN_USE;
    ck_assert_int_eq(
        pread(left, &condition, sizeof condition, offsetof(struct shared_store, condition)),
        (ssize_t)sizeof condition);
    ck_assert_uint_eq(condition, SHARED_STORE_RETIRED);
    close(left);
    ck_assert_uint_eq(objects_in_shm(), 0);
    ck_assert_int_eq(unlink(squatted), 0);
}
END_TEST

/* Replaced logs -------------------------------------------------------------------------------- */

static bool is_empty(void *fd)
{
    struct stat facts;
    return fstat(*(int *)fd, &facts) == 0 && facts.st_blocks == 0;
}

START_TEST(a_replaced_log_gives_its_space_back_though_it_is_mapped)
{
    char path[STORE_DIR_BYTES + 32], copy[STORE_DIR_BYTES + 32];
    struct kv_error error;
    struct stat facts;
    store = must_open(dir, &direct);
    write_much(store);
    snprintf(path, sizeof path, "%s/data.0000", dir);
    snprintf(copy, sizeof copy, "%s/copy", dir);
    if (_i == 1) /* somebody's copy is left alone */
        ck_assert_int_eq(link(path, copy), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert(fd >= 0 && fstat(fd, &facts) == 0);
    void *mapped = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(mapped, MAP_FAILED);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_OK);
    if (_i == 0) {
        ck_assert(wait_until(is_empty, &fd));
        ck_assert_int_eq(*(const char *)mapped, 0);
    } else {
        must_close(store);
        store = NULL;
        ck_assert(!is_empty(&fd));
    }
    munmap(mapped, (size_t)facts.st_size);
    close(fd);
}
END_TEST

/* Modes ---------------------------------------------------------------------------------------- */

static mode_t mode_of_object(void)
{
    struct stat facts;
    int fd = shm_open(object_name().text, O_RDONLY, 0);
    ck_assert(fd >= 0 && fstat(fd, &facts) == 0);
    close(fd);
    return facts.st_mode & 0777;
}

static mode_t mode_of_file(const char *name)
{
    char path[STORE_DIR_BYTES + 32];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(stat(path, &facts), 0);
    return facts.st_mode & 0777;
}

START_TEST(modes_follow_the_option)
{
    struct kv_error error;
    struct kvstore_options group = direct;
    group.direct = KVSTORE_DIRECT_GROUP;
    store = must_open(dir, &group);
    ck_assert_int_eq(mode_of_object(), 0640);
    ck_assert_int_eq(mode_of_file("data.0000"), 0640);
    ck_assert_int_eq(kvstore_compact(store, 0, &error), KV_OK);
    ck_assert_int_eq(mode_of_file("data.0000"), 0640);
    must_close(store);
    store = must_open(dir, &direct);
    ck_assert_int_eq(mode_of_object(), 0600);
    ck_assert_int_eq(mode_of_file("data.0000"), 0600);
    ck_assert_int_eq(mode_of_file("data.0002"), 0600);
}
END_TEST

TEST_SUITE(kvstore_takeover)
{
    TCase *tests = tcase_create("takeover");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_killed_process_leaves_its_index);
    tcase_add_test(tests, one_kill_after_the_other);
    tcase_add_test(tests, a_compacted_file_is_taken_over);
    tcase_add_test(tests, an_index_that_was_made_anew_is_taken_over);
    tcase_add_test(tests, an_index_whose_name_is_taken_waits_for_it);
    tcase_add_test(tests, who_is_killed_while_it_makes_its_index_anew_leaves_nothing_wrong);
    tcase_add_test(tests, what_was_not_synced_is_with_the_first_sync);
    tcase_add_test(tests, who_lets_nobody_in_removes_it);
    tcase_add_loop_test(tests, a_file_that_others_changed_is_read, 0, 2);
    tcase_add_test(tests, nothing_is_taken_over_after_a_failed_sync);
    tcase_add_test(tests, a_sync_under_way_is_looked_after_and_a_write_is_not_trusted);
    tcase_add_loop_test(tests, a_forged_object_gives_out_nothing_wrong, 0, 12);
    tcase_add_loop_test(tests, forged_numbers_are_found_out, 0, 16);
    tcase_add_loop_test(tests, another_stores_object_is_not_taken, 0, 20);
    tcase_add_test(tests, an_object_gets_another_name_where_its_own_is_taken);
    tcase_add_test(tests, an_object_of_another_name_is_found_and_put_out_of_use);
    tcase_add_loop_test(tests, a_replaced_log_gives_its_space_back_though_it_is_mapped, 0, 2);
    tcase_add_test(tests, modes_follow_the_option);
    suite_add_tcase(suite, tests);
}
