/* The places of SCANs by prefix: cursors stand for keys. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/session/scan_places.h"
#include "tests/support/test_suite.h"

static struct scan_places places = SCAN_PLACES_EMPTY;

static void forget_all(void)
{
    scan_places_free(&places);
}

enum { USER = 1000, GREEDY = 1001 };

static uint64_t keep_for(uint32_t uid, uint64_t before, const char *key)
{
    uint64_t cursor = scan_places_keep(&places, uid, before, kv_slice_from_string(key));
    ck_assert(cursor != 0 && scan_places_owns(cursor));
    return cursor;
}

static uint64_t keep(uint64_t before, const char *key)
{
    return keep_for(USER, before, key);
}

/* Returns true if the cursor stands for the key; NULL: for none. */
static bool stands_for(uint64_t cursor, const char *key)
{
    struct byte_buffer found = {0};
    bool is_known = scan_places_find(&places, cursor, &found);
    bool agrees =
        key ? is_known && kv_slice_equal(byte_buffer_slice(&found), kv_slice_from_string(key))
            : !is_known;
    byte_buffer_free(&found);
    return agrees;
}

START_TEST(the_last_cursor_and_the_one_before_are_known)
{
    uint64_t first = keep(0, "a"), other = keep(0, "x");
    ck_assert(stands_for(first, "a"));
    uint64_t second = keep(first, "b");
    ck_assert(stands_for(first, "a") && stands_for(second, "b"));
    uint64_t third = keep(second, "");
    ck_assert(stands_for(first, NULL) && stands_for(second, "b") && stands_for(third, ""));
    ck_assert(stands_for(other, "x"));
}
END_TEST

/* A client that has lost a reply asks again with the cursor before: whoever has the last cursor
 * goes on from its own place. */
START_TEST(who_asks_again_gets_a_scan_of_its_own)
{
    uint64_t first = keep(0, "a");
    uint64_t second = keep(first, "c");
    uint64_t again = keep(first, "b");
    ck_assert(again != second);
    ck_assert(stands_for(second, "c") && stands_for(again, "b"));
}
END_TEST

START_TEST(cursors_are_exact_as_doubles_and_none_of_other_scans)
{
    uint64_t cursor = keep(0, "a");
    for (unsigned i = 0; i < 40000; i++) {
        ck_assert_uint_eq((uint64_t)(double)cursor, cursor);
        ck_assert_uint_eq(cursor & 3, 2);
        cursor = keep(cursor, "a");
    }
    ck_assert(!scan_places_owns(0) && !scan_places_owns(UINT64_MAX));
    ck_assert(!scan_places_owns(cursor | 1) && !scan_places_owns(cursor & ~UINT64_C(2)));
    ck_assert(!scan_places_owns(cursor | UINT64_C(1) << 52) && !scan_places_owns(cursor >> 1));
    ck_assert(stands_for(cursor ^ UINT64_C(1) << 30, NULL));
    ck_assert(stands_for(cursor + (1 << 2), NULL));
}
END_TEST

START_TEST(the_scan_that_was_used_the_longest_ago_is_forgotten)
{
    char key[32];
    uint64_t kept = keep(0, "kept"), left = keep(0, "left");
    for (unsigned i = 0; i < 3 * SCANS_KEPT; i++) {
        snprintf(key, sizeof key, "%u", i);
        keep(0, key);
        if (i % 500 == 0)
            ck_assert(stands_for(kept, "kept"));
    }
    ck_assert(stands_for(kept, "kept") && stands_for(left, NULL));
}
END_TEST

START_TEST(long_keys_are_kept_up_to_a_bound)
{
    static char key[65536];
    memset(key, 'k', sizeof key - 1);
    uint64_t first = keep(0, key);
    uint64_t last = 0;
    for (unsigned i = 0; i < SCANS_KEPT; i++) {
        last = keep(i % 3 == 0 ? 0 : last, key);
        ck_assert_uint_le(places.bytes, SCAN_PLACE_BYTES);
    }
    ck_assert(stands_for(last, key) && stands_for(first, NULL));
}
END_TEST

START_TEST(a_user_does_not_take_the_places_of_others)
{
    static char key[60001];
    uint64_t one = keep(0, "one"), two = keep(0, "two");
    for (unsigned i = 0; i < 3 * SCANS_KEPT; i++)
        keep_for(GREEDY, 0, "z");
    ck_assert(stands_for(one, "one") && stands_for(two, "two"));
    memset(key, 'k', sizeof key - 1);
    for (unsigned i = 0; i < 3 * SCANS_KEPT; i++)
        keep_for(GREEDY + i % 3, 0, key);
    ck_assert(stands_for(one, "one") && stands_for(two, "two"));
    ck_assert(stands_for(keep(one, "three"), "three"));
}
END_TEST

TEST_SUITE(kresp_scan_places)
{
    TCase *cursors = tcase_create("cursors");
    tcase_add_checked_fixture(cursors, NULL, forget_all);
    tcase_add_test(cursors, the_last_cursor_and_the_one_before_are_known);
    tcase_add_test(cursors, who_asks_again_gets_a_scan_of_its_own);
    tcase_add_test(cursors, cursors_are_exact_as_doubles_and_none_of_other_scans);
    tcase_add_test(cursors, the_scan_that_was_used_the_longest_ago_is_forgotten);
    tcase_add_test(cursors, long_keys_are_kept_up_to_a_bound);
    tcase_add_test(cursors, a_user_does_not_take_the_places_of_others);
    suite_add_tcase(suite, cursors);
}
