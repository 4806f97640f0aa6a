/* Scans against a real server: pages, cursors, one moment, visitors that stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

#define SCAN_KEYS 2500

struct scan_visits {
    unsigned seen[SCAN_KEYS];
    unsigned total;
    unsigned stop_after;
    bool with_values;
};

static bool count_visit(void *context, const struct clientk_entry *entry)
{
    struct scan_visits *visits = context;
    char text[32];
    ck_assert_uint_lt(entry->key.size, sizeof text);
    memcpy(text, entry->key.data, entry->key.size);
    text[entry->key.size] = '\0';
    ck_assert_int_eq(strncmp(text, "scan.", 5), 0);
    int number = atoi(text + 5);
    ck_assert_int_lt(number, SCAN_KEYS);
    visits->seen[number]++;
    visits->total++;
    if (visits->with_values)
        ck_assert(kv_slice_equal(entry->value, kv_slice_from_string(text + 5)));
    else
        ck_assert_uint_eq(entry->value.size, 0);
    ck_assert_uint_gt(entry->version, 0);
    return visits->total != visits->stop_after;
}

static void assert_each_seen_once(const struct scan_visits *visits)
{
    for (int i = 0; i < SCAN_KEYS; i++)
        ck_assert_uint_eq(visits->seen[i], 1);
    ck_assert_uint_eq(visits->total, SCAN_KEYS);
}

static void put_scan_keys(void)
{
    static char keys[SCAN_KEYS][20];
    static struct clientk_operation operations[SCAN_KEYS];
    static struct clientk_result results[SCAN_KEYS];
    for (int i = 0; i < SCAN_KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "scan.%d", i);
        operations[i] = (struct clientk_operation){
            .opcode = CLIENTK_PUT, .key = TEXT(keys[i]), .value = TEXT(keys[i] + 5)};
    }
    assert_status(clientk_execute(client, operations, SCAN_KEYS, results), KV_OK);
}

START_TEST(scan_visits_each_entry_of_the_prefix_once)
{
    put_scan_keys();
    must_put_text(client, "other", "not to be seen");
    static struct scan_visits visits = {.with_values = true};
    assert_status(clientk_scan(client, TEXT("scan."), false, NULL, 0, count_visit, &visits), KV_OK);
    assert_each_seen_once(&visits);
    static struct scan_visits keys_only;
    assert_status(clientk_scan(client, TEXT("scan."), true, NULL, 0, count_visit, &keys_only),
                  KV_OK);
    assert_each_seen_once(&keys_only);
}
END_TEST

START_TEST(scan_goes_on_from_its_cursor)
{
    put_scan_keys();
    static struct scan_visits visits = {.with_values = true};
    uint64_t cursor = 0;
    unsigned calls = 0;
    do {
        unsigned before = visits.total;
        assert_status(
            clientk_scan(client, TEXT("scan."), false, &cursor, 300, count_visit, &visits), KV_OK);
        ck_assert(cursor == 0 || visits.total - before == 300);
        calls++;
    } while (cursor != 0);
    ck_assert_uint_ge(calls, SCAN_KEYS / 300);
    assert_each_seen_once(&visits);
}
END_TEST

START_TEST(scan_does_not_go_on_from_the_cursor_of_another_store)
{
    static struct scan_visits visits;
    uint64_t cursor = (uint64_t)4000 << 52; /* of a data file that is not there */
    assert_status(clientk_scan(client, TEXT(""), false, &cursor, 0, count_visit, &visits),
                  KV_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "begin again"));
    ck_assert_uint_eq(visits.total, 0);
}
END_TEST

START_TEST(scan_stops_when_the_visitor_says_so)
{
    put_scan_keys();
    static struct scan_visits visits = {.with_values = true, .stop_after = 10};
    uint64_t cursor = 0;
    assert_status(clientk_scan(client, TEXT("scan."), false, &cursor, 0, count_visit, &visits),
                  KV_OK);
    ck_assert_uint_eq(visits.total, 10);
    assert_status(clientk_scan(client, TEXT("scan."), false, NULL, 0, NULL, NULL), KV_USAGE);
}
END_TEST

START_TEST(an_atomic_scan_visits_each_entry_once)
{
    put_scan_keys();
    must_put_text(client, "other", "not to be seen");
    static struct scan_visits visits = {.with_values = true};
    assert_status(clientk_scan_atomic(client, TEXT("scan."), false, count_visit, &visits), KV_OK);
    assert_each_seen_once(&visits);
    static struct scan_visits keys_only;
    assert_status(clientk_scan_atomic(client, TEXT("scan."), true, count_visit, &keys_only), KV_OK);
    assert_each_seen_once(&keys_only);
    static struct scan_visits stopped = {.with_values = true, .stop_after = 10};
    assert_status(clientk_scan_atomic(client, TEXT("scan."), false, count_visit, &stopped), KV_OK);
    ck_assert_uint_eq(stopped.total, 10);
    assert_status(clientk_scan_atomic(client, TEXT(""), false, NULL, NULL), KV_USAGE);
}
END_TEST

#define BIG_BYTES 300000

static bool big_visit(void *context, const struct clientk_entry *entry)
{
    unsigned *visited = context;
    char *expected = patterned_bytes(BIG_BYTES, 3);
    ck_assert(kv_slice_equal(entry->value, kv_slice(expected, BIG_BYTES)));
    free(expected);
    (*visited)++;
    return true;
}

START_TEST(scan_carries_big_values)
{
    char *bytes = patterned_bytes(BIG_BYTES, 3);
    for (int i = 0; i < 6; i++) {
        char key[24];
        snprintf(key, sizeof key, "big.%d", i);
        assert_status(clientk_put(client, TEXT(key), kv_slice(bytes, BIG_BYTES), NULL, NULL),
                      KV_OK);
    }
    unsigned visited = 0;
    assert_status(clientk_scan(client, TEXT("big."), false, NULL, 0, big_visit, &visited), KV_OK);
    ck_assert_uint_eq(visited, 6);
    visited = 0;
    assert_status(clientk_scan_atomic(client, TEXT("big."), false, big_visit, &visited), KV_OK);
    ck_assert_uint_eq(visited, 6);
    free(bytes);
}
END_TEST

TEST_SUITE(clientk_scan)
{
    TCase *tcase = tcase_create("scan");
    served_case_add_client(tcase);
    tcase_add_test(tcase, scan_visits_each_entry_of_the_prefix_once);
    tcase_add_test(tcase, scan_goes_on_from_its_cursor);
    tcase_add_test(tcase, scan_does_not_go_on_from_the_cursor_of_another_store);
    tcase_add_test(tcase, scan_stops_when_the_visitor_says_so);
    tcase_add_test(tcase, an_atomic_scan_visits_each_entry_once);
    tcase_add_test(tcase, scan_carries_big_values);
    suite_add_tcase(suite, tcase);
}
