/* RANGE, RANGE_COUNT and RANGE_DELETE against a real store, as bytes in and bytes out. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/one_client_worker.h"
#include "tests/support/test_suite.h"
#include "wire/range_value.h"

static uint8_t bounds_bytes[WIRE_RANGE_MAX_BYTES];

/* What a request asks for. */
struct asked_range {
    struct kv_slice from;
    struct wire_range_bounds bounds;
    uint16_t flags;
};

static struct wire_result ask(enum wire_opcode opcode, struct asked_range asked)
{
    struct write_cursor cursor = write_cursor(bounds_bytes, sizeof bounds_bytes);
    ck_assert(wire_put_range_bounds(&cursor, &asked.bounds));
    return call(
        (struct wire_operation){.opcode = opcode,
                                .flags = asked.flags,
                                .key = asked.from,
                                .value = kv_slice(bounds_bytes, write_cursor_used(&cursor))});
}

/* The keys of a page, a blank behind each; "*" before one that is a place only. */
static const char *keys_of(struct wire_result result)
{
    static char text[4096];
    struct read_cursor cursor = read_cursor(result.value.data, result.value.size);
    size_t used = 0;
    text[0] = '\0';
    while (result.status == KV_OK && read_cursor_left(&cursor) > 0) {
        struct wire_scan_entry entry;
        ck_assert_int_eq(wire_get_scan_entry(&cursor, &entry), KV_OK);
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%.*s ", entry.passed ? "*" : "",
                             (int)entry.key.size, (const char *)entry.key.data);
    }
    return text;
}

static void put_keys(const char *const *keys)
{
    for (; *keys; keys++)
        ck_assert_int_eq(call(fixture_operation(WIRE_OP_PUT, *keys, "value")).status, KV_OK);
}

static void put_letters(void)
{
    put_keys((const char *const[]){"c", "a", "ab", "b", "abc", "d", NULL});
}

#define TEXT(text)    kv_slice_from_string(text)
#define ASK(...)      ask(WIRE_OP_RANGE, (struct asked_range){__VA_ARGS__})
#define BOUNDS(...)   .bounds = {__VA_ARGS__}
#define MORE_OF(page) wire_range_count((page).number)

START_TEST(keys_come_in_the_order_of_their_bytes)
{
    put_letters();
    struct wire_result all = ASK(.flags = 0);
    ck_assert_uint_eq(MORE_OF(all), 0);
    ck_assert_str_eq(keys_of(all), "a ab abc b c d ");
    ck_assert_str_eq(keys_of(ASK(BOUNDS(.way = WIRE_RANGE_REVERSE))), "d c b abc ab a ");
    ck_assert_str_eq(keys_of(ASK(.from = TEXT("ab"), BOUNDS(.to = TEXT("c")))), "ab abc b ");
    ck_assert_str_eq(keys_of(ASK(.from = TEXT("ab"), BOUNDS(.way = WIRE_RANGE_BEHIND))),
                     "abc b c d ");
    ck_assert_str_eq(keys_of(ASK(BOUNDS(.prefix = TEXT("ab")))), "ab abc ");
    ck_assert_str_eq(keys_of(ASK(.from = TEXT("x"))), "");
    struct wire_result two = ASK(BOUNDS(.limit = 2));
    ck_assert_uint_eq(MORE_OF(two), 1);
    ck_assert_str_eq(keys_of(two), "a ab ");
}
END_TEST

START_TEST(a_page_has_values_versions_and_expiry)
{
    struct wire_operation put = fixture_operation(WIRE_OP_PUT, "key", "value");
    put.flags = WIRE_HAS_EXPIRY;
    put.expiry_ms = clock_realtime_ms() + 3600000;
    uint64_t version = call(put).version;
    struct wire_scan_entry entry;
    struct wire_result page = ASK(.flags = 0);
    struct read_cursor cursor = read_cursor(page.value.data, page.value.size);
    ck_assert_int_eq(wire_get_scan_entry(&cursor, &entry), KV_OK);
    ck_assert(kv_slice_equal(entry.value, TEXT("value")));
    ck_assert_uint_eq(entry.version, version);
    ck_assert_uint_eq(entry.expiry_ms, put.expiry_ms);
    page = ASK(.flags = WIRE_KEYS_ONLY);
    cursor = read_cursor(page.value.data, page.value.size);
    ck_assert_int_eq(wire_get_scan_entry(&cursor, &entry), KV_OK);
    ck_assert_uint_eq(entry.value.size, 0);
    ck_assert_uint_eq(entry.version, version);
}
END_TEST

START_TEST(a_range_goes_on_behind_its_last_key)
{
    char key[16], last[16] = "";
    unsigned seen = 0;
    for (unsigned i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "%04u", i * 7919 % 300);
        put_keys((const char *const[]){key, NULL});
    }
    for (bool more = true; more;) {
        struct wire_result page =
            ASK(.from = TEXT(last), BOUNDS(.way = WIRE_RANGE_BEHIND, .limit = 17));
        struct read_cursor cursor = read_cursor(page.value.data, page.value.size);
        ck_assert_int_eq(page.status, KV_OK);
        while (read_cursor_left(&cursor) > 0) {
            struct wire_scan_entry entry;
            ck_assert_int_eq(wire_get_scan_entry(&cursor, &entry), KV_OK);
            snprintf(key, sizeof key, "%04u", seen++);
            ck_assert(kv_slice_equal(entry.key, TEXT(key)));
        }
        snprintf(last, sizeof last, "%04u", seen - 1);
        more = MORE_OF(page) > 0;
    }
    ck_assert_uint_eq(seen, 300);
}
END_TEST

START_TEST(counts_and_deletions_tell_where_they_go_on)
{
    put_letters();
    struct wire_result result = ask(WIRE_OP_RANGE_COUNT, (struct asked_range){.flags = 0});
    ck_assert_int_eq(result.status, KV_OK);
    ck_assert_uint_eq(wire_range_count(result.number), 6);
    ck_assert_uint_eq(result.value.size, 0);
    result = ask(WIRE_OP_RANGE_COUNT, (struct asked_range){BOUNDS(.prefix = TEXT("ab"))});
    ck_assert_uint_eq(wire_range_count(result.number), 2);

    result = ask(WIRE_OP_RANGE_DELETE, (struct asked_range){BOUNDS(.limit = 2)});
    ck_assert_int_eq(result.status, KV_OK);
    ck_assert_uint_eq(wire_range_count(result.number), 2);
    ck_assert(kv_slice_equal(result.value, TEXT("ab")));
    ck_assert_str_eq(keys_of(ASK(.flags = 0)), "abc b c d ");
    result = ask(WIRE_OP_RANGE_DELETE,
                 (struct asked_range){BOUNDS(.limit = 1, .way = WIRE_RANGE_REVERSE)});
    ck_assert(kv_slice_equal(result.value, TEXT("d")));
    result = ask(WIRE_OP_RANGE_DELETE, (struct asked_range){BOUNDS(.prefix = TEXT("b"))});
    ck_assert_uint_eq(wire_range_count(result.number), 1);
    ck_assert_uint_eq(result.value.size, 0);
    ck_assert_str_eq(keys_of(ASK(.flags = 0)), "abc c ");
}
END_TEST

/* One page, or nothing: the reply has room for 1,024 bytes without parts. */
START_TEST(all_of_one_moment_or_nothing)
{
    put_letters();
    ck_assert_str_eq(keys_of(ASK(.flags = WIRE_ATOMIC, BOUNDS(.limit = 2))), "a ab abc b c d ");
    char key[16];
    for (unsigned i = 0; i <= KVSTORE_RANGE_ENTRIES; i++) {
        snprintf(key, sizeof key, "%05u", i);
        struct kvstore_put_options options = {.condition = KVSTORE_ALWAYS};
        ck_assert_int_eq(kvstore_put(fixture.service.store, TEXT(key), TEXT(""), &options, NULL),
                         KV_OK);
    }
    ck_assert_int_eq(ASK(.flags = WIRE_ATOMIC | WIRE_KEYS_ONLY).status, KV_LIMIT);
    ck_assert_str_eq(keys_of(ASK(.flags = WIRE_ATOMIC, .from = TEXT("a"))), "a ab abc b c d ");
}
END_TEST

START_TEST(only_what_has_expired_is_passed_by_place)
{
    char key[16];
    struct kvstore_put_options options = {.expiry_ms = 1};
    for (unsigned i = 0; i < 2 * KVSTORE_RANGE_ENTRIES; i++) {
        snprintf(key, sizeof key, "%05u", i);
        enum kv_status status =
            kvstore_put(fixture.service.store, TEXT(key), TEXT(""), &options, NULL);
        ck_assert_int_eq(status, KV_OK);
    }
    put_keys((const char *const[]){"z", NULL});
    unsigned pages = 0;
    char last[16] = "";
    struct wire_result page;
    do { /* the sweeper may be faster */
        page = ASK(.from = TEXT(last), BOUNDS(.way = WIRE_RANGE_BEHIND));
        const char *keys = keys_of(page);
        ck_assert_int_eq(page.status, KV_OK);
        ck_assert(keys[0] == '*' || strcmp(keys, "z ") == 0);
        if (keys[0] == '*')
            snprintf(last, sizeof last, "%.5s", keys + 1);
        ck_assert_uint_lt(pages++, 4);
    } while (MORE_OF(page) > 0);
    ck_assert_str_eq(keys_of(page), "z ");
}
END_TEST

START_TEST(bounds_that_are_none_are_refused)
{
    static const enum wire_opcode opcodes[] = {WIRE_OP_RANGE, WIRE_OP_RANGE_COUNT,
                                               WIRE_OP_RANGE_DELETE};
    put_letters();
    for (size_t i = 0; i < 3; i++) {
        struct wire_operation asked = {.opcode = opcodes[i]};
        ck_assert_int_eq(call(asked).status, KV_BAD_REQUEST);
        asked.value = TEXT("01234567890");
        ck_assert_int_eq(call(asked).status, KV_BAD_REQUEST);
        asked.value = kv_slice("\0\0\0\0\4\0\0\0\0\0\0\0", 12);
        ck_assert_int_eq(call(asked).status, KV_UNSUPPORTED);
        asked.value = kv_slice("\0\0\0\0\0\0\1\0\0\0\0\0", 12);
        ck_assert_int_eq(call(asked).status, KV_BAD_REQUEST);
    }
    ck_assert_str_eq(keys_of(ASK(.flags = 0)), "a ab abc b c d ");
}
END_TEST

/* Rules of a user ------------------------------------------------------------------------------ */

static struct access_rules *rules;
static struct access_user *restricted;

/* The session becomes that of a user with these lines of the configuration. */
static void restrict_to(const char *read, const char *write)
{
    struct kv_error error = {0};
    unsigned line = 2;
    fixture.service.access = &fixture.access;
    ck_assert_int_eq(access_rules_take(&rules, "others", "read", read, 1, &line, &error), KV_OK);
    ck_assert_int_eq(access_rules_take(&rules, "others", "write", write, 1, &line, &error), KV_OK);
    ck_assert_int_eq(access_rules_finish(rules, &line, &error), KV_OK);
    pthread_mutex_lock(&fixture.access.lock);
    access_replace(&fixture.access, rules);
    struct access_user *user;
    enum kv_status status = access_enter(&fixture.access, 65533, false, &user, &error);
    pthread_mutex_unlock(&fixture.access.lock);
    ck_assert_msg(status == KV_OK, "%s", error.text);
    only_client.session->access = user;
    restricted = user;
}

START_TEST(a_user_sees_what_it_may_read)
{
    put_letters();
    put_keys((const char *const[]){"e", "ea", "eb", "f", NULL});
    restrict_to("ab c e ea abc ghost", "eb");
    ck_assert_str_eq(keys_of(ASK(.flags = 0)), "ab abc c e ea eb ");
    ck_assert_str_eq(keys_of(ASK(BOUNDS(.way = WIRE_RANGE_REVERSE))), "eb ea e c abc ab ");
    ck_assert_str_eq(keys_of(ASK(BOUNDS(.limit = 3))), "ab abc c ");
    ck_assert_str_eq(keys_of(ASK(.from = TEXT("c"), BOUNDS(.way = WIRE_RANGE_BEHIND))), "e ea eb ");
    ck_assert_str_eq(keys_of(ASK(BOUNDS(.prefix = TEXT("a")))), "ab abc ");
    ck_assert_str_eq(keys_of(ASK(BOUNDS(.prefix = TEXT("b")))), "");
    ck_assert_str_eq(keys_of(ASK(.flags = WIRE_ATOMIC)), "ab abc c e ea eb ");
    struct wire_result result = ask(WIRE_OP_RANGE_COUNT, (struct asked_range){.flags = 0});
    ck_assert_uint_eq(wire_range_count(result.number), 6);
}
END_TEST

/* Lets the user read these prefixes (a blank between two), by rules in place of those in force. */
static void replace_rules(const char *read)
{
    struct kv_error error = {0};
    unsigned line = 2;
    struct access_rules *before = rules;
    rules = NULL;
    ck_assert_int_eq(access_rules_take(&rules, "others", "read", read, 1, &line, &error), KV_OK);
    ck_assert_int_eq(access_rules_finish(rules, &line, &error), KV_OK);
    pthread_mutex_lock(&fixture.access.lock);
    access_replace(&fixture.access, rules);
    pthread_mutex_unlock(&fixture.access.lock);
    access_rules_free(before);
}

/* The parts of keys that the user is given, of which the first ones are by one rule, and the rest,
 * from number `at` on, by another: "prefix|edge ". */
static const char *parts_of(const char *first, const char *then, unsigned at, bool reverse)
{
    static char text[512];
    uint8_t room[WIRE_MAX_KEY_BYTES];
    struct access_part part = {.prefix = {.data = NULL}};
    size_t used = 0;
    text[0] = '\0';
    replace_rules(first);
    for (unsigned number = 0;; number++) {
        if (number == at)
            replace_rules(then);
        if (!access_next_part(restricted, reverse, room, &part))
            return text;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s|%.*s ",
                                 (int)part.prefix.size, (const char *)part.prefix.data,
                                 (int)part.edge.size, (const char *)part.edge.data);
    }
}

START_TEST(other_rules_leave_out_nothing_that_both_allow)
{
    restrict_to("a", "ghost");
    ck_assert_str_eq(parts_of("a c", "*", 1, false), "a| |b ");
    ck_assert_str_eq(parts_of("a c", "*", 1, true), "c| |c ");
    ck_assert_str_eq(parts_of("ab ad c", "a c", 1, false), "ab| a|ac c| ");
    ck_assert_str_eq(parts_of("ab ad c", "a c", 2, true), "c| ad| a|ad ");
    ck_assert_str_eq(parts_of("a\xff\xff c", "a c", 1, false), "a\xff\xff| c| ");
    ck_assert_str_eq(parts_of("ab\xff c", "a c", 1, false), "ab\xff| a|ac c| ");
    ck_assert_str_eq(parts_of("a c", "ab b c", 1, false), "a| b| c| ");
    ck_assert_str_eq(parts_of("*", "a c", 1, false), "| ");
    ck_assert_str_eq(parts_of("a c", "a c", 1, false), "a| c| ");
}
END_TEST

static void *replace_rules_over_and_over(void *stop)
{
    for (unsigned round = 0; !atomic_load((atomic_bool *)stop); round++)
        replace_rules(round % 2 == 0 ? "*" : "a b c d");
    return NULL;
}

START_TEST(a_range_is_whole_while_rules_are_replaced)
{
    atomic_bool stop = false;
    pthread_t thread;
    put_letters();
    restrict_to("a b c d", "ghost");
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_rules_over_and_over, &stop), 0);
    for (unsigned round = 0; round < 3000; round++) {
        bool reverse = round % 2 == 1;
        ck_assert_str_eq(keys_of(ASK(BOUNDS(.way = reverse ? WIRE_RANGE_REVERSE : 0))),
                         reverse ? "d c b abc ab a " : "a ab abc b c d ");
        struct wire_result result = ask(WIRE_OP_RANGE_COUNT, (struct asked_range){.flags = 0});
        ck_assert_uint_eq(wire_range_count(result.number), 6);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_user_deletes_what_it_may_write)
{
    put_letters();
    restrict_to("*", "ab");
    ck_assert_int_eq(ask(WIRE_OP_RANGE_DELETE, (struct asked_range){.flags = 0}).status, KV_DENIED);
    ck_assert_int_eq(
        ask(WIRE_OP_RANGE_DELETE, (struct asked_range){BOUNDS(.prefix = TEXT("a"))}).status,
        KV_DENIED);
    ck_assert_int_eq(
        ask(WIRE_OP_RANGE_DELETE, (struct asked_range){.from = TEXT("ab"), BOUNDS(.to = TEXT("b"))})
            .status,
        KV_DENIED);
    struct wire_result result = ask(
        WIRE_OP_RANGE_DELETE, (struct asked_range){.from = TEXT("abb"), BOUNDS(.to = TEXT("abz"))});
    ck_assert_uint_eq(wire_range_count(result.number), 1);
    result = ask(WIRE_OP_RANGE_DELETE, (struct asked_range){BOUNDS(.prefix = TEXT("ab"))});
    ck_assert_uint_eq(wire_range_count(result.number), 1);
    ck_assert_str_eq(keys_of(ASK(.flags = 0)), "a b c d ");
    restricted->reads_only = true;
    ck_assert_int_eq(
        ask(WIRE_OP_RANGE_DELETE, (struct asked_range){BOUNDS(.prefix = TEXT("ab"))}).status,
        KV_DENIED);
}
END_TEST

/* Stores without order ------------------------------------------------------------------------- */

START_TEST(a_store_without_order_says_so)
{
    static const enum wire_opcode opcodes[] = {WIRE_OP_RANGE, WIRE_OP_RANGE_COUNT,
                                               WIRE_OP_RANGE_DELETE};
    for (size_t i = 0; i < 3; i++) {
        struct wire_result result = ask(opcodes[i], (struct asked_range){.flags = 0});
        ck_assert_int_eq(result.status, KV_UNSUPPORTED);
        ck_assert_msg(memmem(result.value.data, result.value.size, "--ordered", 9),
                      "the sentence says what to do");
    }
}
END_TEST

START_TEST(a_cluster_says_so)
{
    struct wire_header header = fixture_header(&only_client, WIRE_REQUEST, 1);
    struct wire_operation range = {.opcode = WIRE_OP_RANGE,
                                   .value = kv_slice(bounds_bytes, WIRE_RANGE_FIXED_BYTES)};
    struct read_cursor cursor;
    fixture_request(&fixture, &header, &range);
    ck_assert(fixture_reply(&only_client, 1000, &header, &cursor));
    ck_assert_int_eq(header.status, KV_UNSUPPORTED);
    ck_assert(memmem(cursor.at, read_cursor_left(&cursor), "no order", 8));
}
END_TEST

TEST_SUITE(serverk_range)
{
    TCase *ranges = tcase_create("ranges");
    ordered_client_case_add(ranges);
    tcase_set_timeout(ranges, 120);
    tcase_add_test(ranges, keys_come_in_the_order_of_their_bytes);
    tcase_add_test(ranges, a_page_has_values_versions_and_expiry);
    tcase_add_test(ranges, a_range_goes_on_behind_its_last_key);
    tcase_add_test(ranges, counts_and_deletions_tell_where_they_go_on);
    tcase_add_test(ranges, all_of_one_moment_or_nothing);
    tcase_add_test(ranges, only_what_has_expired_is_passed_by_place);
    tcase_add_test(ranges, bounds_that_are_none_are_refused);
    tcase_add_test(ranges, a_user_sees_what_it_may_read);
    tcase_add_test(ranges, other_rules_leave_out_nothing_that_both_allow);
    tcase_add_test(ranges, a_range_is_whole_while_rules_are_replaced);
    tcase_add_test(ranges, a_user_deletes_what_it_may_write);
    suite_add_tcase(suite, ranges);
    TCase *without = tcase_create("without_order");
    one_client_case_add(without);
    tcase_add_test(without, a_store_without_order_says_so);
    suite_add_tcase(suite, without);
    TCase *cluster = tcase_create("cluster");
    late_client_case_add(cluster);
    tcase_add_test(cluster, a_cluster_says_so);
    suite_add_tcase(suite, cluster);
}
