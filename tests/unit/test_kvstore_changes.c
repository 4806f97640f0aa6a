/*
 * Who follows the changes of a data file has, at each moment, what the file has; or is told that it
 * missed some. Over compactions, restarts, kills and cuts of the power.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory/mapguard.h"
#include "common/numbers/random.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"
#include "tests/support/fault.h"
#include "tests/support/one_file_store.h"
#include "tests/support/other_boot.h"
#include "tests/support/powercut.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/unit/suites.h"

#define KEY(text) kv_slice_from_string(text)
#define KEYS      32u

static const struct kvstore_options keeping = {.create = true,
                                               .datafiles = 1,
                                               .compact_dead_percent = 100,
                                               .sweep_interval_ms = 1,
                                               .keep_changes_ms = 3600000};

/* A copy of the file that is made of changes alone. Keys are "key N". */
struct follower {
    struct kvstore_position position;
    uint64_t versions[KEYS]; /* 0: not there */
    uint64_t newest[KEYS];   /* of all changes of the key */
    unsigned room;           /* changes that it still takes; 0: any number */
    unsigned count, deletes, expiries;
};

static unsigned number_of(struct kv_slice key)
{
    char text[32] = "";
    ck_assert_uint_lt(key.size, sizeof text);
    memcpy(text, key.data, key.size);
    unsigned number;
    ck_assert_int_eq(sscanf(text, "key %u", &number), 1);
    ck_assert_uint_lt(number, KEYS);
    return number;
}

static bool take(void *context, const struct kvstore_change *change)
{
    struct follower *follower = context;
    if (follower->room > 0 && --follower->room == 0)
        return false;
    unsigned key = number_of(change->key);
    ck_assert_uint_gt(change->version, follower->newest[key]);
    follower->newest[key] = change->version;
    follower->versions[key] = change->kind == KVSTORE_CHANGE_PUT ? change->version : 0;
    follower->deletes += change->kind == KVSTORE_CHANGE_DELETE;
    follower->expiries += change->kind == KVSTORE_CHANGE_EXPIRE;
    follower->count++;
    return true;
}

static bool copy(void *context, const struct kvstore_scanned *entry)
{
    struct follower *follower = context;
    follower->versions[number_of(entry->key)] = entry->version;
    follower->newest[number_of(entry->key)] = entry->version;
    return true;
}

static void start_anew(struct follower *follower, struct kvstore *opened)
{
    uint64_t cursor = 0;
    *follower = (struct follower){0};
    ck_assert_int_eq(kvstore_changes_now(opened, 0, &follower->position), KV_OK);
    do
        ck_assert_int_eq(kvstore_scan(opened, &cursor, KEY(""), 100, copy, follower, NULL), KV_OK);
    while (cursor != 0);
}

/* Everything there is. */
static enum kv_status follow(struct follower *follower, struct kvstore *opened)
{
    bool at_end = false;
    enum kv_status status = KV_OK;
    while (status == KV_OK && !at_end)
        status =
            kvstore_changes(opened, 0, &follower->position, KEY(""), 100, take, follower, &at_end);
    return status;
}

/* What has expired and is not yet swept may be in the copy. */
static void check_copy(const struct follower *follower, struct kvstore *opened)
{
    for (unsigned i = 0; i < KEYS; i++) {
        struct kvstore_entry entry = {0};
        enum kv_status status = get_entry(opened, numbered("key", (int)i), &entry);
        ck_assert(status == KV_OK || status == KV_NOT_FOUND);
        if (status == KV_OK || follower->expiries == 0)
            ck_assert_uint_eq(follower->versions[i], entry.version);
    }
}

static void must_follow(struct follower *follower)
{
    ck_assert_int_eq(follow(follower, store), KV_OK);
    check_copy(follower, store);
}

static void reopen(const struct kvstore_options *options)
{
    if (store)
        must_close(store);
    store = must_open(dir, options);
}

static unsigned past_logs_there(void)
{
    return (unsigned)total_statistics(store).past_logs;
}

START_TEST(all_changes_come_in_their_order)
{
    struct follower follower;
    reopen(&keeping);
    start_anew(&follower, store);
    must_follow(&follower);
    ck_assert_uint_eq(follower.count, 0);
    put_round(8, 0);
    put_round(8, 1);
    ck_assert_int_eq(kvstore_delete(store, KEY("key 3"), 0, NULL), KV_OK);
    ck_assert_int_eq(kvstore_add(store, KEY("key 9"), 4, NULL, NULL, NULL), KV_OK);
    ck_assert_int_eq(kvstore_append(store, KEY("key 9"), KEY("5"), NULL, NULL), KV_OK);
    must_follow(&follower);
    ck_assert_uint_eq(follower.count, 19);
    ck_assert_uint_eq(follower.deletes, 1);
    must_follow(&follower);
    ck_assert_uint_eq(follower.count, 19);
}
END_TEST

static bool take_one(void *context, const struct kvstore_change *change)
{
    struct kvstore_change *kept = context;
    ck_assert_int_eq(kept->kind, KVSTORE_CHANGE_DELETE); /* as the test set it */
    *kept = *change;
    return true;
}

START_TEST(a_change_tells_all_of_it)
{
    struct kvstore_position position;
    struct kvstore_written written;
    bool at_end;
    struct kvstore_put_options options = {.expiry_ms = clock_realtime_ms() + 3600000};
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    must_put(store, "other", "1");
    ck_assert_int_eq(kvstore_put(store, KEY("name"), KEY("Ada"), &options, &written), KV_OK);
    must_put(store, "other", "2");
    struct kvstore_change change = {.kind = KVSTORE_CHANGE_DELETE};
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY("na"), 10, take_one, &change, &at_end), KV_OK);
    ck_assert(at_end);
    ck_assert_int_eq(change.kind, KVSTORE_CHANGE_PUT);
    ck_assert(kv_slice_equal(change.key, KEY("name")));
    ck_assert(kv_slice_equal(change.value, KEY("Ada")));
    ck_assert_uint_eq(change.version, written.version);
    ck_assert_uint_eq(change.expiry_ms, options.expiry_ms);
    /* The one after it is behind the position of the first, and none behind that of the call. */
    struct kvstore_position behind = change.position;
    change = (struct kvstore_change){.kind = KVSTORE_CHANGE_DELETE};
    ck_assert_int_eq(kvstore_changes(store, 0, &behind, KEY(""), 10, take_one, &change, &at_end),
                     KV_OK);
    ck_assert(kv_slice_equal(change.value, KEY("2")));
    ck_assert_int_eq(memcmp(&behind, &position, sizeof position), 0);
}
END_TEST

START_TEST(who_has_no_room_goes_on_from_there)
{
    struct follower follower;
    bool at_end = true;
    start_anew(&follower, store);
    put_round(10, 0);
    follower.room = 4; /* refuses the fourth */
    ck_assert_int_eq(
        kvstore_changes(store, 0, &follower.position, KEY(""), 100, take, &follower, &at_end),
        KV_OK);
    ck_assert(!at_end);
    ck_assert_uint_eq(follower.count, 3);
    must_follow(&follower);
    ck_assert_uint_eq(follower.count, 10);
}
END_TEST

START_TEST(what_expires_is_a_change)
{
    struct follower follower;
    reopen(&keeping);
    start_anew(&follower, store);
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 20};
    ck_assert_int_eq(kvstore_put(store, KEY("key 1"), KEY("v"), &soon, NULL), KV_OK);
    for (int i = 0; i < 10000 && follower.expiries == 0; i++) {
        ck_assert_int_eq(follow(&follower, store), KV_OK);
        clock_sleep_ms(1);
    }
    ck_assert_uint_eq(follower.expiries, 1);
    ck_assert_uint_eq(follower.count, 2);
    ck_assert_uint_eq(follower.versions[1], 0);
    ck_assert_uint_eq(total_statistics(store).expired, 1);
    /* Also of one whose time was over while the store was closed, whether there is a checkpoint or
     * the log is read. */
    for (int with_checkpoint = 0; with_checkpoint < 2; with_checkpoint++) {
        soon.expiry_ms = clock_realtime_ms() + 30;
        reopen(&keeping);
        ck_assert_int_eq(kvstore_put(store, KEY("key 2"), KEY("v"), &soon, NULL), KV_OK);
        must_close(store);
        char path[STORE_DIR_BYTES + 32];
        snprintf(path, sizeof path, "%s/data.0000.index", dir);
        if (!with_checkpoint)
            ck_assert_int_eq(unlink(path), 0);
        clock_sleep_ms(40);
        store = must_open(dir, &keeping);
        unsigned before = follower.expiries;
        for (int i = 0; i < 10000 && follower.expiries == before; i++) {
            ck_assert_int_eq(follow(&follower, store), KV_OK);
            clock_sleep_ms(1);
        }
        ck_assert_uint_eq(follower.expiries, before + 1);
    }
}
END_TEST

START_TEST(compactions_change_nothing_for_followers)
{
    struct follower behind, first, level;
    reopen(&keeping);
    start_anew(&first, store);
    start_anew(&level, store);
    put_round(20, 0);
    start_anew(&behind, store);
    for (int round = 1; round < 6; round++) {
        put_round(20, round);
        must_follow(&level);
        must_compact();
        must_follow(&level);
        ck_assert_int_eq(kvstore_delete(store, KEY("key 5"), 0, NULL), KV_OK);
        ck_assert_uint_eq(past_logs_there(), (unsigned)round);
    }
    ck_assert_uint_gt(total_statistics(store).past_log_bytes, 0);
    must_follow(&level);
    must_follow(&first);
    must_follow(&behind);
    ck_assert_uint_eq(first.count, 6 * 20 + 5);
    ck_assert_uint_eq(level.count, first.count);
    ck_assert_uint_eq(behind.count, 5 * 20 + 5);
}
END_TEST

START_TEST(positions_stay_good_over_restarts)
{
    struct follower follower, late;
    reopen(&keeping);
    start_anew(&late, store);
    start_anew(&follower, store);
    for (int round = 0; round < 6; round++) {
        put_round(10, round);
        if (round % 2 == 0)
            must_compact();
        if (round % 3 == 0)
            must_follow(&follower);
        reopen(&keeping);
        must_follow(&follower);
    }
    ck_assert_uint_eq(past_logs_there(), 3);
    must_follow(&late);
    ck_assert_uint_eq(late.count, 60);
    ck_assert_uint_eq(follower.count, 60);
}
END_TEST

START_TEST(a_killed_store_goes_on)
{
    struct follower follower, late;
    struct kvstore_options options = keeping;
    options.direct = _i == 0 ? KVSTORE_DIRECT_OFF : KVSTORE_DIRECT_OWNER;
    reopen(&options);
    start_anew(&late, store);
    put_round(5, 0);
    must_follow(&late);
    start_anew(&follower, store);
    must_close(store);
    store = NULL;
    for (int round = 1; round < 5; round++) {
        pid_t child = fork();
        if (child == 0) {
            store = must_open(dir, &options);
            put_round(10, round);
            if (round % 2 == 0)
                must_compact();
            put_round(3, round);
            kill(getpid(), SIGKILL);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        store = must_open(dir, &options);
        must_follow(&follower);
        ck_assert_uint_eq(follower.count, (unsigned)round * 13);
        struct follower now;
        start_anew(&now, store);
        if (round == 4)
            must_follow(&late);
        must_close(store);
        store = must_open(dir, &options);
        must_put(store, "key 31", "x");
        must_follow(&now);
        ck_assert_uint_eq(now.count, 1);
        ck_assert_int_eq(kvstore_delete(store, KEY("key 31"), 0, NULL), KV_OK);
        must_follow(&follower);
        follower.count -= 2;
        must_close(store);
        store = NULL;
    }
    ck_assert_uint_eq(late.newest[9], follower.newest[9]);
}
END_TEST

START_TEST(what_is_not_kept_is_missed)
{
    struct follower level, behind;
    start_anew(&behind, store);
    put_round(10, 0);
    start_anew(&level, store);
    must_put(store, "key 1", "a");
    must_follow(&level);
    /* No exchange of names on this file system, or the disk is full: who is at the end goes on all
     * the same. */
    fault_install(&(struct fault_plan){.call = FAULT_EXCHANGE, .nth = 1, .error = EINVAL});
    must_compact();
    fault_clear();
    ck_assert_uint_eq(past_logs_there(), 0);
    must_put(store, "key 1", "b");
    must_follow(&level);
    ck_assert_uint_eq(level.count, 2);
    ck_assert_int_eq(follow(&behind, store), KV_MISSED);
    start_anew(&behind, store);
    must_follow(&behind);
}
END_TEST

START_TEST(positions_of_others_are_missed)
{
    struct follower follower;
    bool at_end;
    struct kvstore_position good, bad;
    put_round(10, 0);
    start_anew(&follower, store);
    good = follower.position;
    for (int i = 0; i < 3000; i++) {
        bad = good;
        if (i % 3 == 0)
            bad.log ^= UINT64_C(1) << i % 64;
        else if (i % 3 == 1)
            bad.version ^= UINT64_C(1) << i % 64;
        else
            bad.place ^= UINT64_C(1) << i % 64;
        enum kv_status status =
            kvstore_changes(store, 0, &bad, KEY(""), 10, take, &follower, &at_end);
        ck_assert(status == KV_MISSED || (status == KV_OK && i % 3 == 2));
    }
    bad = (struct kvstore_position){0};
    ck_assert_int_eq(kvstore_changes(store, 0, &bad, KEY(""), 10, take, &follower, &at_end),
                     KV_MISSED);
    ck_assert_int_eq(kvstore_changes(store, 1, &good, KEY(""), 10, take, &follower, &at_end),
                     KV_USAGE);
    must_close(store);
    store = must_open(dir, &(struct kvstore_options){.read_only = true});
    ck_assert_int_eq(kvstore_changes_now(store, 0, &bad), KV_READ_ONLY);
}
END_TEST

static bool three_have_expired(void *context)
{
    (void)context;
    return total_statistics(store).expired == 3;
}

static void fill_disk(void)
{
    static char big[300000];
    memset(big, 'x', sizeof big);
    enum kv_status status = KV_OK;
    for (size_t size = sizeof big; size > 0; size /= 8)
        do
            status = kvstore_put(store, KEY("key 9"), kv_slice(big, size), NULL, NULL);
        while (status == KV_OK);
    ck_assert_int_eq(status, KV_NO_SPACE);
}

static void put_three_that_expire(void)
{
    /* Not while the first sweep of the store that was just opened may still run. */
    struct kvstore_put_options soon = {.expiry_ms = clock_realtime_ms() + 300};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(kvstore_put(store, KEY(numbered("key", i)), KEY("v"), &soon, NULL), KV_OK);
}

/* Nor do they wait for it, which would keep the disk full. */
START_TEST(what_expires_on_a_full_disk_is_missed)
{
    struct follower follower;
    struct kvstore_options options = keeping;
    options.sweep_interval_ms = 3600000;
    reopen(&options);
    put_three_that_expire();
    start_anew(&follower, store);
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    fill_disk();
    options.sweep_interval_ms = 1;
    reopen(&options);
    ck_assert(wait_until(three_have_expired, NULL));
    fault_clear();
    struct kvstore_position before = follower.position;
    ck_assert_int_eq(follow(&follower, store), KV_MISSED);
    must_compact();
    reopen(&options);
    follower.position = before;
    ck_assert_int_eq(follow(&follower, store), KV_MISSED);
    start_anew(&follower, store);
    must_put(store, "key 1", "again");
    must_follow(&follower);
    ck_assert_uint_eq(follower.count, 1);
}
END_TEST

/* Without keep_changes_ms, when nobody has asked since the store was opened. */
START_TEST(what_expires_while_nobody_follows_is_missed)
{
    struct follower follower;
    reopen(&(struct kvstore_options){.sweep_interval_ms = 3600000});
    put_three_that_expire();
    start_anew(&follower, store);
    reopen(&(struct kvstore_options){.sweep_interval_ms = 1});
    ck_assert(wait_until(three_have_expired, NULL));
    ck_assert_int_eq(follow(&follower, store), KV_MISSED);
    /* Others' expiries do not matter to those who come later. */
    start_anew(&follower, store);
    reopen(&one_file);
    must_follow(&follower);
}
END_TEST

/* Who knows the salt can put values in which there are records. */
START_TEST(positions_do_not_tell_the_salt)
{
    struct kvstore_position first, second;
    struct image image;
    ck_assert_int_eq(kvstore_changes_now(store, 0, &first), KV_OK);
    must_put(store, "key 1", "1");
    must_compact();
    ck_assert_int_eq(kvstore_changes_now(store, 0, &second), KV_OK);
    ck_assert_uint_ne(first.log, second.log);
    must_close(store);
    store = NULL;
    image_take(&image, dir);
    for (size_t i = 0; i < image.count; i++) {
        struct file_identity identity;
        if (image.files[i].size < FILE_HEADER_BYTES ||
            fileheader_read_identity(image.files[i].bytes, &identity) != FILEHEADER_VALID)
            continue;
        ck_assert_uint_ne(identity.salt, first.log);
        ck_assert_uint_ne(identity.salt, second.log);
    }
    image_free(&image);
}
END_TEST

/* The compactor's thread removes what is above the bound soon, not at once. */
static bool past_logs_are_few(void *most)
{
    return past_logs_there() <= *(unsigned *)most;
}

static void must_become_few(unsigned most)
{
    ck_assert_msg(wait_until(past_logs_are_few, &most), "%u past logs, more than %u",
                  past_logs_there(), most);
}

START_TEST(past_logs_go_when_their_bound_is_reached)
{
    struct follower follower;
    struct kvstore_options options = keeping;
    options.keep_changes_bytes = 1u << 20;
    reopen(&options);
    start_anew(&follower, store);
    static char big[300000];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 8; i++) {
        must_put(store, "key 1", big);
        must_compact();
        must_become_few(3);
    }
    ck_assert_int_eq(follow(&follower, store), KV_MISSED);
    start_anew(&follower, store);
    must_follow(&follower);
    /* A full disk takes them all. */
    ck_assert_uint_gt(past_logs_there(), 0);
    fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = 1, .error = ENOSPC});
    enum kv_status status = KV_OK;
    for (int i = 0; i < 1000 && status == KV_OK; i++)
        status = kvstore_put(store, KEY("key 2"), KEY(big), NULL, NULL);
    fault_clear();
    ck_assert_int_eq(status, KV_NO_SPACE);
    must_become_few(0);
    must_follow(&follower);
}
END_TEST

static void overwrite_all(void)
{
    static char big[300000];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 8; i++)
        must_put(store, numbered("key", i), big);
}

START_TEST(the_newest_past_log_is_kept_if_that_is_asked_for)
{
    struct follower follower;
    struct kvstore_options options = keeping;
    options.keep_changes_bytes = 1u << 20;
    for (int keep = 0; keep < 2; keep++) {
        options.keep_newest_log = keep;
        reopen(&options);
        start_anew(&follower, store);
        overwrite_all();
        must_compact();
        overwrite_all();
        must_become_few((unsigned)keep);
        ck_assert_uint_eq(past_logs_there(), (unsigned)keep);
        ck_assert_int_eq(follow(&follower, store), keep ? KV_OK : KV_MISSED);
    }
    check_copy(&follower, store);
    for (int i = 0; i < 3; i++) {
        must_compact();
        must_put(store, "key 1", "x");
        must_follow(&follower);
    }
    must_compact();
    reopen(&options);
    must_follow(&follower);
    must_become_few(1);
    ck_assert_uint_eq(past_logs_there(), 1);
}
END_TEST

/* Of several that were replaced within a tick of the clock. */
START_TEST(a_start_knows_the_newest_past_log)
{
    struct follower follower;
    struct kvstore_options options = keeping;
    options.keep_newest_log = true;
    for (int round = 0; round < 4; round++) {
        options.keep_changes_bytes = 1u << 30;
        reopen(&options);
        for (int i = 0; i < 4; i++) {
            overwrite_all();
            must_compact();
        }
        start_anew(&follower, store);
        must_put(store, "key 1", "x");
        must_compact();
        options.keep_changes_bytes = 1u << 20;
        reopen(&options);
        must_become_few(1);
        must_follow(&follower);
    }
}
END_TEST

/* Told ----------------------------------------------------------------------------------------- */

static atomic_uint told;

static void note(void *context, uint32_t file)
{
    ck_assert_ptr_eq(context, &told);
    ck_assert_uint_eq(file, 0);
    atomic_fetch_add(&told, 1);
}

START_TEST(who_waits_is_told_once)
{
    kvstore_set_change_listener(store, note, &told);
    must_put(store, "a", "1");
    ck_assert_uint_eq(atomic_load(&told), 0);
    kvstore_await_change(store, 0);
    kvstore_await_change(store, 7); /* there is none */
    ck_assert_uint_eq(atomic_load(&told), 0);
    must_put(store, "a", "2");
    must_put(store, "a", "3");
    ck_assert_uint_eq(atomic_load(&told), 1);
    kvstore_await_change(store, 0);
    must_compact();
    ck_assert_uint_eq(atomic_load(&told), 1);
    ck_assert_int_eq(kvstore_delete(store, KEY("a"), 0, NULL), KV_OK);
    ck_assert_uint_eq(atomic_load(&told), 2);
}
END_TEST

static atomic_bool writing;

static void *write_all_the_time(void *unused)
{
    (void)unused;
    for (int round = 0; atomic_load(&writing); round++) {
        must_put(store, numbered("key", round % (int)KEYS), "value");
        if (round % 100 == 0)
            clock_sleep_ms(1);
    }
    return NULL;
}

START_TEST(followers_keep_up_beside_writers)
{
    struct follower follower, late;
    pthread_t writer;
    struct kvstore_options options = keeping;
    options.io = (enum kvstore_io)_i;
    reopen(&options);
    start_anew(&follower, store);
    start_anew(&late, store);
    atomic_store(&writing, true);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_all_the_time, NULL), 0);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(follow(&follower, store), KV_OK);
        must_compact();
    }
    atomic_store(&writing, false);
    pthread_join(writer, NULL);
    must_follow(&follower);
    must_follow(&late);
    ck_assert_uint_eq(follower.count, late.count);
}
END_TEST

/* The power is cut ----------------------------------------------------------------------------- */

#define LIVES 48u

static struct random_state dice;

static void do_something(struct follower *follower)
{
    char value[600];
    unsigned key = (unsigned)random_below(&dice, KEYS);
    memset(value, 'v', sizeof value);
    struct kvstore_put_options options = {0};
    if (random_below(&dice, 6) == 0)
        options.expiry_ms = clock_realtime_ms() + random_below(&dice, 3);
    struct kv_slice name = KEY(numbered("key", (int)key));
    switch (random_below(&dice, 16)) {
    case 0:
        ck_assert_int_eq(kvstore_compact(store, 0, NULL), KV_OK);
        break;
    case 1:
        ck_assert_int_eq(kvstore_sync(store), KV_OK);
        break;
    case 2:
    case 3:
        ck_assert_int_eq(follow(follower, store), KV_OK);
        break;
    case 4:
        powercut_write_back();
        break;
    case 5:
    case 6:
        kvstore_delete(store, name, 0, NULL);
        break;
    default: /* of one size mostly, so that places are taken again after a cut */
        ck_assert_int_eq(kvstore_put(store, name,
                                     kv_slice(value, random_below(&dice, 4) == 0 ? 600 : 20),
                                     &options, NULL),
                         KV_OK);
    }
}

START_TEST(after_a_cut_of_the_power_it_is_right_or_missed)
{
    struct follower follower = {0};
    unsigned missed = 0;
    must_close(store);
    store = NULL;
    log_set_level(LOG_LEVEL_ERROR);
    random_seed(&dice, 7);
    struct kvstore_options options = keeping;
    options.sync_interval_ms = 5;
    for (unsigned life = 0; life < LIVES; life++) {
        options.durability = life % 3 == 0 ? KVSTORE_SYNC_NONE : KVSTORE_SYNC_INTERVAL;
        powercut_install(dir, life + 1);
        store = must_open(dir, &options);
        if (life == 0 || follow(&follower, store) != KV_OK) {
            missed += life > 0;
            start_anew(&follower, store);
        }
        follower.expiries = 1; /* some may not be swept */
        check_copy(&follower, store);
        for (uint64_t left = random_below(&dice, 60); left > 0; left--)
            do_something(&follower);
        if (random_below(&dice, 4) == 0) {
            must_close(store);
            store = must_open(dir, &options);
            ck_assert_int_eq(follow(&follower, store), KV_OK);
        }
        store_dir_remove(copy_dir);
        store_dir_make(copy_dir);
        powercut_cut();
        powercut_restore(copy_dir, &dice);
        powercut_go_on();
        kvstore_close(store, NULL);
        store = NULL;
        powercut_clear();
        store_dir_remove(dir);
        strcpy(dir, copy_dir);
        store_dir_make(copy_dir);
    }
    ck_assert_uint_gt(missed, 0);
    ck_assert_uint_lt(missed, LIVES * 9 / 10);
}
END_TEST

/* Bytes that are lost -------------------------------------------------------------------------- */

static void shorten_log(void)
{
    char path[STORE_DIR_BYTES + 16];
    snprintf(path, sizeof path, "%s/data.0000", dir);
    ck_assert_int_eq(truncate(path, 8192), 0);
}

/* A value that is not read again before it is shown, since this process has written it. */
static void put_large(const char *key)
{
    static char value[65536];
    memset(value, 'v', sizeof value);
    ck_assert_int_eq(kvstore_put(store, KEY(key), kv_slice(value, sizeof value), NULL, NULL),
                     KV_OK);
}

struct loss {
    unsigned visits;
    bool shortens; /* at the visit of the large value, before it is looked at */
    struct kvstore_position last;
};

static bool take_or_lose(void *context, const struct kvstore_change *change)
{
    struct loss *loss = context;
    bool large = change->value.size == 65536;
    loss->visits++;
    loss->last = change->position;
    if (large && loss->shortens)
        shorten_log();
    if (large)
        ck_assert_int_eq(((const char *)change->value.data)[65535], loss->shortens ? 0 : 'v');
    return true;
}

/* Zeros are no change: before the visit (0), and where it could not be known before it (1). */
START_TEST(bytes_that_are_lost_are_no_change)
{
    struct kvstore_position position;
    struct loss loss = {.shortens = _i == 1};
    bool at_end = true;
    mapguard_install("test");
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    must_put(store, "small", "1");
    put_large("large");
    if (_i == 0)
        shorten_log();
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY(""), 10, take_or_lose, &loss, &at_end), KV_IO);
    ck_assert(!at_end);
    ck_assert_uint_eq(loss.visits, (unsigned)_i + 1);
    if (_i == 0) /* behind the small one */
        ck_assert_int_eq(memcmp(&position, &loss.last, sizeof position), 0);
    else /* before what was shown last */
        ck_assert_uint_lt(position.place, loss.last.place);
    struct kvstore_position before = position;
    loss.visits = 0;
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY(""), 10, take_or_lose, &loss, &at_end), KV_IO);
    ck_assert(!at_end);
    ck_assert_uint_eq(loss.visits, 0);
    ck_assert_int_eq(memcmp(&position, &before, sizeof position), 0);
    kvstore_close(store, NULL);
    store = NULL;
}
END_TEST

Suite *suite_kvstore_changes(void)
{
    Suite *suite = suite_create("kvstore changes");
    TCase *tests = tcase_create("changes");
    tcase_set_timeout(tests, 600);
    one_file_case_add(tests);
    tcase_add_test(tests, all_changes_come_in_their_order);
    tcase_add_test(tests, a_change_tells_all_of_it);
    tcase_add_test(tests, who_has_no_room_goes_on_from_there);
    tcase_add_test(tests, what_expires_is_a_change);
    tcase_add_test(tests, compactions_change_nothing_for_followers);
    tcase_add_test(tests, positions_stay_good_over_restarts);
    tcase_add_loop_test(tests, a_killed_store_goes_on, 0, 2);
    tcase_add_test(tests, what_is_not_kept_is_missed);
    tcase_add_test(tests, positions_of_others_are_missed);
    tcase_add_test(tests, what_expires_on_a_full_disk_is_missed);
    tcase_add_test(tests, what_expires_while_nobody_follows_is_missed);
    tcase_add_test(tests, positions_do_not_tell_the_salt);
    tcase_add_test(tests, past_logs_go_when_their_bound_is_reached);
    tcase_add_test(tests, the_newest_past_log_is_kept_if_that_is_asked_for);
    tcase_add_test(tests, a_start_knows_the_newest_past_log);
    tcase_add_test(tests, who_waits_is_told_once);
    tcase_add_loop_test(tests, followers_keep_up_beside_writers, KVSTORE_IO_MMAP, KVSTORE_IO_COUNT);
    tcase_add_test(tests, after_a_cut_of_the_power_it_is_right_or_missed);
    tcase_add_loop_test(tests, bytes_that_are_lost_are_no_change, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}
