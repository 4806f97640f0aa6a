/* statistics and stats_json: what is counted, and that it comes as JSON. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serverk/daemon/stats_json.h"
#include "serverk/execute/hot_keys.h"
#include "serverk/execute/slow_log.h"
#include "tests/support/one_client_worker.h"
#include "tests/support/test_suite.h"

START_TEST(statistics_count_what_was_done)
{
    call(fixture_operation(WIRE_OP_PUT, "a", "1"));
    call(fixture_operation(WIRE_OP_GET, "a", ""));
    call(fixture_operation(WIRE_OP_GET, "none", ""));
    const struct worker_statistics *statistics = fixture.worker.statistics;
    ck_assert_uint_eq(statistics->messages, 3);
    ck_assert_uint_eq(statistics->operations[WIRE_OP_GET], 2);
    ck_assert_uint_eq(statistics->operations[WIRE_OP_PUT], 1);
    ck_assert_uint_eq(statistics->hits, 1);
    ck_assert_uint_eq(statistics->misses, 1);
    ck_assert_uint_eq(statistics->statuses[KV_NOT_FOUND], 1);
    ck_assert_uint_eq(statistics->work[WIRE_OP_GET].total_count, 2);
    ck_assert_uint_gt(statistics->bytes_in, 3 * WIRE_HEADER_BYTES);
    ck_assert_uint_gt(statistics->bytes_out, 3 * WIRE_HEADER_BYTES);
}
END_TEST

static const char *const sections[] = {"server", "operations", "latency", "files", "sessions"};

/* Braces and quotes in balance, and the member asked for. */
static void assert_json(const char *text, size_t size, const char *member)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"' && text[i - 1] != '\\')
            quoted = !quoted;
        else if (!quoted && (text[i] == '{' || text[i] == '['))
            depth++;
        else if (!quoted && (text[i] == '}' || text[i] == ']'))
            ck_assert_int_ge(--depth, 0);
        ck_assert(text[i] != ',' || quoted || (text[i + 1] != '}' && text[i + 1] != ','));
    }
    ck_assert_int_eq(depth, 0);
    ck_assert(!quoted);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":{", member);
    ck_assert_ptr_nonnull(memmem(text, size, wanted, strlen(wanted)));
}

START_TEST(each_section_is_json)
{
    char *text;
    size_t size;
    ck_assert_int_eq(stats_json(&fixture.stats, kv_slice_from_string(sections[_i]), &text, &size),
                     KV_OK);
    assert_json(text, size, sections[_i]);
    free(text);
    ck_assert_int_eq(stats_json(&fixture.stats, kv_slice(NULL, 0), &text, &size), KV_OK);
    assert_json(text, size, sections[_i]);
    free(text);
}
END_TEST

START_TEST(an_unknown_section_is_not_found)
{
    ck_assert_int_eq(call(fixture_operation(WIRE_OP_STATS, "nonsense", "")).status, KV_NOT_FOUND);
}
END_TEST

START_TEST(a_heavy_key_is_found_among_many)
{
    struct hot_keys *hot = hot_keys_create();
    static struct hot_key keys[HOT_KEYS];
    uint8_t message[128];
    uint64_t seen;
    ck_assert(!hot_keys_wanted(hot));
    hot_keys_begin(hot, 60000);
    ck_assert(hot_keys_wanted(hot));
    for (unsigned i = 0; i < 20000; i++) {
        char key[24];
        snprintf(key, sizeof key, i % 20 == 0 ? "heavy" : "light%u", i);
        struct write_cursor writer = write_cursor(message, sizeof message);
        struct wire_operation get = fixture_operation(WIRE_OP_GET, key, "");
        ck_assert(wire_put_operation(&writer, &get));
        hot_keys_show(hot, read_cursor(message, write_cursor_used(&writer)), 1);
    }
    ck_assert_uint_eq(hot_keys_take(hot, keys, &seen), HOT_KEYS);
    ck_assert_uint_eq(seen, 20000);
    ck_assert(kv_slice_equal(hot_key_text(&keys[0]), kv_slice_from_string("heavy")));
    ck_assert_uint_ge(keys[0].count, 1000);
    ck_assert_uint_le(keys[0].count - keys[0].error, 1000);
    hot_keys_free(hot);
}
END_TEST

START_TEST(the_latest_slow_requests_are_kept)
{
    struct slow_log *slow_log = slow_log_create();
    static struct slow_request requests[SLOW_LOG_ENTRIES];
    uint64_t noted;
    for (unsigned i = 0; i < SLOW_LOG_ENTRIES + 10; i++)
        slow_log_note(slow_log, &(struct slow_request){.session = i, .opcode = WIRE_OP_GET});
    ck_assert_uint_eq(slow_log_take(slow_log, requests, &noted), SLOW_LOG_ENTRIES);
    ck_assert_uint_eq(noted, SLOW_LOG_ENTRIES + 10);
    ck_assert_uint_eq(requests[0].session, SLOW_LOG_ENTRIES + 9);
    ck_assert_uint_eq(requests[SLOW_LOG_ENTRIES - 1].session, 10);
    slow_log_clear(slow_log);
    ck_assert_uint_eq(slow_log_take(slow_log, requests, &noted), 0);
    slow_log_free(slow_log);
}
END_TEST

TEST_SUITE(serverk_stats_json)
{
    TCase *statistics = tcase_create("statistics");
    one_client_case_add(statistics);
    tcase_add_test(statistics, statistics_count_what_was_done);
    tcase_add_loop_test(statistics, each_section_is_json, 0, 5);
    tcase_add_test(statistics, an_unknown_section_is_not_found);
    tcase_add_test(statistics, a_heavy_key_is_found_among_many);
    tcase_add_test(statistics, the_latest_slow_requests_are_kept);
    suite_add_tcase(suite, statistics);
}
