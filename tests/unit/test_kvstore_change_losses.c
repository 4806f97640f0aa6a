/* Who follows changes where bytes are lost: what it has is right, or it is told. Cuts of the power
 * are explored (tests/explore/explore_machine_follower.c). */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/mapguard.h"
#include "kvstore/format/record.h"
#include "mqkv/kvstore.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

#define KEY(text) kv_slice_from_string(text)

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

/* Zeros are no change: before the visit (0), where it could not be known before it (1), and where
 * they are the first change after the position (2). */
START_TEST(bytes_that_are_lost_are_no_change)
{
    struct kvstore_position position;
    struct loss loss = {.shortens = _i == 1};
    static const unsigned visits[] = {1, 2, 0};
    bool at_end = true;
    mapguard_install("test");
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    if (_i != 2)
        must_put(store, "small", "1");
    put_large("large");
    if (_i != 1)
        shorten_log();
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY(""), 10, take_or_lose, &loss, &at_end), KV_IO);
    ck_assert(!at_end);
    ck_assert_uint_eq(loss.visits, visits[_i]);
    if (_i == 0) /* behind the small one, and the place that was taken for the large one */
        ck_assert_uint_gt(position.place, loss.last.place);
    else if (_i == 1) /* before what was shown last */
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

static bool count_change(void *context, const struct kvstore_change *change)
{
    (void)change;
    ++*(unsigned *)context;
    return true;
}

/* The last record is damaged: who begins behind it follows what comes. */
START_TEST(who_begins_behind_damage_goes_on)
{
    struct kvstore_position before, last, behind;
    unsigned visits = 0;
    bool at_end = false;
    must_put(store, "first", "1");
    ck_assert_int_eq(kvstore_changes_now(store, 0, &before), KV_OK);
    must_put(store, "last", "1");
    ck_assert_int_eq(kvstore_changes_now(store, 0, &last), KV_OK);
    store_file_flip(dir, (off_t)last.place + RECORD_HEADER_BYTES);
    ck_assert_int_eq(
        kvstore_changes(store, 0, &before, KEY(""), 10, count_change, &visits, &at_end),
        KV_CORRUPT);
    ck_assert_int_eq(kvstore_changes_now(store, 0, &behind), KV_OK);
    ck_assert_int_eq(
        kvstore_changes(store, 0, &behind, KEY(""), 10, count_change, &visits, &at_end), KV_OK);
    ck_assert(at_end);
    must_put(store, "next", "1");
    ck_assert_int_eq(
        kvstore_changes(store, 0, &behind, KEY(""), 10, count_change, &visits, &at_end), KV_OK);
    ck_assert_uint_eq(visits, 1);
}
END_TEST

TEST_SUITE(kvstore_change_losses)
{
    TCase *tests = tcase_create("changes and losses");
    tcase_set_timeout(tests, 600);
    one_file_case_add(tests);
    tcase_add_loop_test(tests, bytes_that_are_lost_are_no_change, 0, 3);
    tcase_add_test(tests, who_begins_behind_damage_goes_on);
    suite_add_tcase(suite, tests);
}
