/*
 * A transaction that the disk refuses half-way, and of which it also refuses to erase what is
 * there: after the next start, whatever ends the store, all of it is found or none.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/report/log.h"
#include "tests/support/asked_transaction.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define DATAFILES 3u
#define EACH_MOST 2u /* keys of the transaction in each file */

static const struct kvstore_options options = {.create = true,
                                               .datafiles = DATAFILES,
                                               .io = KVSTORE_IO_PREAD,
                                               .durability = KVSTORE_SYNC_NONE,
                                               .direct = KVSTORE_DIRECT_OWNER,
                                               .compact_dead_percent = 100};

/* By file; the last of each is none of the transaction's. */
static char keys[DATAFILES][EACH_MOST + 1][16];

/* The transaction has so many keys in each file. From its `nth` write on the disk fails: `length`
 * times (0: until it is well again). Of the first such write it has written all, or nothing; of the
 * others nothing. */
struct disk_refusal {
    uint32_t each;
    unsigned long nth, length;
    bool writes_all;
    char text[64];
};

static void find_keys(void)
{
    for (uint32_t file = 0; file < DATAFILES; file++)
        for (int number = 0, found = 0; found <= (int)EACH_MOST; number++)
            if (kvstore_file_of(store, kv_slice_from_string(numbered("key", number))) == file)
                strcpy(keys[file][found++], numbered("key", number));
}

static const char *key_of(const struct disk_refusal *refusal, uint32_t nth)
{
    return keys[nth / refusal->each][nth % refusal->each];
}

static void put_all(const struct disk_refusal *refusal, const char *value, enum kv_status expected)
{
    static struct asked_transaction asked;
    asked = (struct asked_transaction){0};
    for (uint32_t i = 0; i < DATAFILES * refusal->each; i++)
        asked_then(&asked, KVSTORE_STEP_PUT, key_of(refusal, i), value);
    ck_assert_int_eq(asked_do(&asked, store), expected);
}

/* The store is open then, and the disk still as the refusal says. */
static void refuse(const struct disk_refusal *refusal)
{
    store = must_open(dir, &options);
    find_keys();
    put_all(refusal, "old", KV_OK); /* the files know transactions from here on */
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    fault_install(&(struct fault_plan){.call = FAULT_WRITE,
                                       .nth = refusal->nth,
                                       .length = refusal->length,
                                       .error = EIO,
                                       .written_bytes = refusal->writes_all ? SIZE_MAX : 0,
                                       .only_first_writes = true});
    put_all(refusal, "new", KV_IO);
}

static void assert_all_or_none(struct kvstore *of, const struct disk_refusal *refusal)
{
    uint32_t new = 0, all = DATAFILES * refusal->each;
    for (uint32_t i = 0; i < all; i++) {
        const char *value = get_text(of, key_of(refusal, i));
        ck_assert_msg(value && (strcmp(value, "old") == 0 || strcmp(value, "new") == 0),
                      "%s: %s is %s", refusal->text, key_of(refusal, i), value);
        new += strcmp(value, "new") == 0;
    }
    ck_assert_msg(new == 0 || new == all, "%s: %u of %u keys are new", refusal->text, new, all);
}

static void assert_all_or_none_next(const struct disk_refusal *refusal)
{
    store = must_open(dir, &options);
    find_keys();
    assert_all_or_none(store, refusal);
}

/* As a kill -9 at this moment leaves it to a process that finds no index. */
static void assert_all_or_none_after_kill(const struct disk_refusal *refusal)
{
    char copy_dir[STORE_DIR_BYTES];
    struct image image;
    store_dir_make(copy_dir);
    image_take(&image, dir);
    image_put(&image, copy_dir);
    image_free(&image);
    struct kvstore *copy = must_open(copy_dir, &(struct kvstore_options){0});
    assert_all_or_none(copy, refusal);
    must_close(copy);
    store_dir_remove(copy_dir);
}

/* Has the headers tell which transactions are settled, but that of what cannot be written to. */
static void put_more_and_sync(void)
{
    for (uint32_t file = DATAFILES; file-- > 0;)
        if (kvstore_put(store, kv_slice_from_string(keys[file][EACH_MOST]),
                        kv_slice_from_string("x"), NULL, NULL) == KV_OK)
            break;
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
}

static void close_at_once(const struct disk_refusal *refusal)
{
    refuse(refusal);
    fault_clear();
    must_close(store);
    assert_all_or_none_next(refusal);
}

static void close_on_a_bad_disk(const struct disk_refusal *refusal)
{
    refuse(refusal);
    (void)kvstore_close(store, NULL);
    fault_clear();
    assert_all_or_none_next(refusal);
}

static void go_on_and_be_killed(const struct disk_refusal *refusal)
{
    refuse(refusal);
    fault_clear();
    assert_all_or_none_after_kill(refusal);
    put_more_and_sync();
    assert_all_or_none_after_kill(refusal);
    ck_assert_int_eq(kvstore_compact(store, DATAFILES - 1, NULL), KV_OK);
    assert_all_or_none_after_kill(refusal);
    put_all(refusal, "old", KV_OK);
    assert_all_or_none_after_kill(refusal);
}

/* Files at rest are taken over by the next process, but for those of the refused transaction. */
static void be_killed_with_an_index(const struct disk_refusal *refusal)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        refuse(refusal);
        fault_clear();
        put_more_and_sync();
        kill(getpid(), SIGKILL);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_all_or_none_next(refusal);
}

static void (*const endings[])(const struct disk_refusal *refusal) = {
    close_at_once, close_on_a_bad_disk, go_on_and_be_killed, be_killed_with_an_index};
#define ENDINGS ((int)(sizeof endings / sizeof *endings))

static void end_so(const struct disk_refusal *refusal, int ending)
{
    endings[ending](refusal);
    must_close(store);
    store = NULL;
    store_dir_remove(dir);
    store_dir_make(dir);
}

START_TEST(all_is_found_or_none)
{
    struct disk_refusal refusal;
    log_set_level(LOG_LEVEL_ERROR - 1);
    for (refusal.each = 1; refusal.each <= EACH_MOST; refusal.each++) {
        for (unsigned long i = 0; i < 4ul * DATAFILES * refusal.each; i++) {
            refusal.nth = 1 + i / 4;
            refusal.length = i % 2 * 2;
            refusal.writes_all = i / 2 % 2 == 1;
            snprintf(refusal.text, sizeof refusal.text, "%u keys each, write %lu, %lu times, %s",
                     refusal.each, refusal.nth, refusal.length,
                     refusal.writes_all ? "all is written" : "nothing is written");
            end_so(&refusal, _i);
        }
    }
}
END_TEST

TEST_SUITE(kvstore_transact_torn_tail)
{
    TCase *tests = tcase_create("transact_torn_tail");
    store_case_add(tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, all_is_found_or_none, 0, ENDINGS);
    suite_add_tcase(suite, tests);
}
