/* Every operation against a real server, with its conditions and its failures. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

START_TEST(put_then_get_gives_value_and_version)
{
    uint64_t version = 0;
    assert_status(clientk_put(client, TEXT("name"), TEXT("Ada"), NULL, &version), KV_OK);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, TEXT("name"), &value), KV_OK);
    ck_assert_str_eq(value.data, "Ada");
    ck_assert_uint_eq(value.size, 3);
    ck_assert_uint_eq(value.version, version);
    ck_assert_uint_eq(value.expiry_ms, 0);

    uint64_t second_version = 0;
    assert_status(clientk_put(client, TEXT("name"), TEXT("Grace"), NULL, &second_version), KV_OK);
    ck_assert_uint_gt(second_version, version);
    assert_text(client, "name", "Grace");
    clientk_value_free(&value);
}
END_TEST

START_TEST(get_of_an_absent_key_empties_the_value)
{
    must_put_text(client, "there", "something");
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, TEXT("there"), &value), KV_OK);
    assert_status(clientk_get(client, TEXT("not there"), &value), KV_NOT_FOUND);
    ck_assert_uint_eq(value.size, 0);
    ck_assert_uint_eq(value.version, 0);
    clientk_value_free(&value);
}
END_TEST

START_TEST(empty_value_is_a_value)
{
    must_put_text(client, "empty", "");
    struct clientk_value value = {.size = 99};
    assert_status(clientk_get(client, TEXT("empty"), &value), KV_OK);
    ck_assert_uint_eq(value.size, 0);
    ck_assert_str_eq(value.data, "");
    clientk_value_free(&value);
}
END_TEST

START_TEST(keys_and_values_are_bytes)
{
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    struct kv_slice all = kv_slice(bytes, sizeof bytes);
    assert_status(clientk_put(client, all, all, NULL, NULL), KV_OK);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, all, &value), KV_OK);
    ck_assert(kv_slice_equal(kv_slice(value.data, value.size), all));
    assert_status(clientk_get(client, kv_slice(bytes, 255), &value), KV_NOT_FOUND);
    clientk_value_free(&value);
}
END_TEST

START_TEST(keys_of_impossible_size_are_refused)
{
    char *key = patterned_bytes(65536, 1);
    assert_status(clientk_put(client, kv_slice(key, 0), TEXT("v"), NULL, NULL), KV_BAD_KEY);
    assert_status(clientk_put(client, kv_slice(key, 65536), TEXT("v"), NULL, NULL), KV_BAD_KEY);
    assert_status(clientk_put(client, kv_slice(key, 65535), TEXT("v"), NULL, NULL), KV_OK);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, kv_slice(key, 65535), &value), KV_OK);
    ck_assert_str_eq(value.data, "v");
    clientk_value_free(&value);
    free(key);
}
END_TEST

START_TEST(put_conditions_hold)
{
    struct clientk_write_options absent = {.if_absent = true};
    struct clientk_write_options present = {.if_present = true};
    assert_status(clientk_put(client, TEXT("cond"), TEXT("0"), &present, NULL), KV_NOT_FOUND);
    uint64_t version = 0;
    assert_status(clientk_put(client, TEXT("cond"), TEXT("1"), &absent, &version), KV_OK);
    assert_status(clientk_put(client, TEXT("cond"), TEXT("2"), &absent, NULL), KV_EXISTS);
    struct clientk_write_options expected = {.if_version = version};
    assert_status(clientk_put(client, TEXT("cond"), TEXT("3"), &expected, NULL), KV_OK);
    assert_status(clientk_put(client, TEXT("cond"), TEXT("4"), &expected, NULL),
                  KV_VERSION_MISMATCH);
    assert_text(client, "cond", "3");
    struct clientk_write_options two = {.if_absent = true, .if_present = true};
    assert_status(clientk_put(client, TEXT("cond"), TEXT("5"), &two, NULL), KV_USAGE);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "if_absent, if_present and if_version"));
    assert_text(client, "cond", "3");
}
END_TEST

START_TEST(exists_tells_all_but_the_value)
{
    uint64_t expiry_ms = clock_realtime_ms() + 1000000;
    struct clientk_write_options options = {.expiry_ms = expiry_ms};
    uint64_t version = 0;
    assert_status(clientk_put(client, TEXT("e"), TEXT("12345"), &options, &version), KV_OK);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_exists(client, TEXT("e"), &value), KV_OK);
    ck_assert_uint_eq(value.size, 5);
    ck_assert_uint_eq(value.version, version);
    ck_assert_uint_eq(value.expiry_ms, expiry_ms);
    ck_assert_ptr_null(value.data);
    assert_status(clientk_exists(client, TEXT("no e"), NULL), KV_NOT_FOUND);
}
END_TEST

START_TEST(delete_removes_only_the_version_it_names)
{
    uint64_t version = 0;
    assert_status(clientk_put(client, TEXT("d"), TEXT("1"), NULL, &version), KV_OK);
    struct clientk_write_options expected = {.if_version = version + 1};
    assert_status(clientk_delete(client, TEXT("d"), &expected, NULL), KV_VERSION_MISMATCH);
    assert_text(client, "d", "1");
    expected.if_version = version;
    uint64_t deletion = 0;
    assert_status(clientk_delete(client, TEXT("d"), &expected, &deletion), KV_OK);
    ck_assert_uint_gt(deletion, version);
    assert_status(clientk_delete(client, TEXT("d"), NULL, NULL), KV_NOT_FOUND);
}
END_TEST

START_TEST(add_counts_within_its_bounds)
{
    int64_t sum = 0;
    assert_status(clientk_add(client, TEXT("n"), 5, NULL, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, 5);
    assert_status(clientk_add(client, TEXT("n"), -7, NULL, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, -2);
    assert_text(client, "n", "-2");
    struct clientk_add_options bounded = {.has_min = true, .min = -2, .has_max = true, .max = 3};
    assert_status(clientk_add(client, TEXT("n"), -1, &bounded, &sum, NULL), KV_OUT_OF_BOUNDS);
    assert_text(client, "n", "-2");
    assert_status(clientk_add(client, TEXT("n"), 5, &bounded, &sum, NULL), KV_OK);
    struct clientk_add_options existing = {.if_present = true};
    assert_status(clientk_add(client, TEXT("m"), 1, &existing, &sum, NULL), KV_NOT_FOUND);
    struct clientk_add_options from_hundred = {.initial = 100};
    assert_status(clientk_add(client, TEXT("m"), 1, &from_hundred, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, 101);
    struct clientk_add_options canonical = {.canonical = true};
    must_put_text(client, "zeros", "007");
    assert_status(clientk_add(client, TEXT("zeros"), 1, &canonical, &sum, NULL), KV_NOT_A_NUMBER);
    assert_status(clientk_add(client, TEXT("zeros"), 1, NULL, &sum, NULL), KV_OK);
    assert_status(clientk_add(client, TEXT("zeros"), 1, &canonical, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, 9);
    must_put_text(client, "word", "abc");
    assert_status(clientk_add(client, TEXT("word"), 1, NULL, &sum, NULL), KV_NOT_A_NUMBER);
}
END_TEST

START_TEST(append_grows_the_value)
{
    uint64_t size = 0;
    assert_status(clientk_append(client, TEXT("log"), TEXT("one "), NULL, &size, NULL), KV_OK);
    ck_assert_uint_eq(size, 4);
    assert_status(clientk_append(client, TEXT("log"), TEXT("two"), NULL, &size, NULL), KV_OK);
    ck_assert_uint_eq(size, 7);
    assert_text(client, "log", "one two");
}
END_TEST

START_TEST(exchange_gives_the_old_value)
{
    struct clientk_value old = {.size = 0};
    bool found = true;
    assert_status(clientk_exchange(client, TEXT("x"), TEXT("first"), NULL, &old, &found, NULL),
                  KV_OK);
    ck_assert(!found);
    ck_assert_uint_eq(old.size, 0);
    assert_status(clientk_exchange(client, TEXT("x"), TEXT("second"), NULL, &old, &found, NULL),
                  KV_OK);
    ck_assert(found);
    ck_assert_str_eq(old.data, "first");
    assert_text(client, "x", "second");
    clientk_value_free(&old);
}
END_TEST

START_TEST(touch_sets_and_takes_away_the_expiry)
{
    must_put_text(client, "t", "v");
    uint64_t expiry_ms = clock_realtime_ms() + 500000;
    assert_status(clientk_touch(client, TEXT("t"), expiry_ms, NULL, NULL), KV_OK);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_exists(client, TEXT("t"), &value), KV_OK);
    ck_assert_uint_eq(value.expiry_ms, expiry_ms);
    struct clientk_write_options keep = {.keep_expiry = true};
    assert_status(clientk_put(client, TEXT("t"), TEXT("w"), &keep, NULL), KV_OK);
    assert_status(clientk_exists(client, TEXT("t"), &value), KV_OK);
    ck_assert_uint_eq(value.expiry_ms, expiry_ms);
    assert_status(clientk_touch(client, TEXT("t"), 0, NULL, NULL), KV_OK);
    assert_status(clientk_exists(client, TEXT("t"), &value), KV_OK);
    ck_assert_uint_eq(value.expiry_ms, 0);
    assert_status(clientk_touch(client, TEXT("t"), 1, NULL, NULL), KV_OK); /* long ago */
    assert_status(clientk_exists(client, TEXT("t"), &value), KV_NOT_FOUND);
    assert_status(clientk_touch(client, TEXT("t"), 0, NULL, NULL), KV_NOT_FOUND);
}
END_TEST

START_TEST(durable_writes_and_sync_are_acknowledged)
{
    struct clientk_write_options always = {.durability = CLIENTK_SYNC_ALWAYS};
    struct clientk_write_options interval = {.durability = CLIENTK_SYNC_INTERVAL};
    assert_status(clientk_put(client, TEXT("s"), TEXT("1"), &always, NULL), KV_OK);
    assert_status(clientk_put(client, TEXT("s"), TEXT("2"), &interval, NULL), KV_OK);
    assert_status(clientk_sync(client), KV_OK);
    assert_text(client, "s", "2");
}
END_TEST

START_TEST(every_write_takes_durability_and_gives_its_version)
{
    struct clientk_write_options always = {.durability = CLIENTK_SYNC_ALWAYS};
    struct clientk_add_options add = {.durability = CLIENTK_SYNC_ALWAYS};
    struct clientk_value old = {.size = 0};
    uint64_t versions[8] = {0};
    assert_status(clientk_put(client, TEXT("v"), TEXT("1"), &always, &versions[1]), KV_OK);
    assert_status(clientk_add(client, TEXT("v"), 1, &add, NULL, &versions[2]), KV_OK);
    assert_status(clientk_append(client, TEXT("v"), TEXT("0"), &always, NULL, &versions[3]), KV_OK);
    assert_status(clientk_exchange(client, TEXT("v"), TEXT("2"), &always, &old, NULL, &versions[4]),
                  KV_OK);
    assert_status(clientk_touch(client, TEXT("v"), UINT64_C(1) << 50, &always, &versions[5]),
                  KV_OK);
    always.if_version = versions[5];
    assert_status(clientk_delete(client, TEXT("v"), &always, &versions[6]), KV_OK);
    for (int i = 1; i <= 6; i++)
        ck_assert_uint_gt(versions[i], versions[i - 1]);
    assert_status(clientk_delete(client, TEXT("v"), NULL, &versions[6]), KV_NOT_FOUND);
    ck_assert_uint_eq(versions[6], 0);
    clientk_value_free(&old);
}
END_TEST

START_TEST(options_from_zeros_are_the_defaults)
{
    int64_t sum = 0;
    struct clientk_add_options zeros = {0};
    assert_status(clientk_add(client, TEXT("zero"), -5, &zeros, &sum, NULL), KV_OK);
    ck_assert_int_eq(sum, -5);
    struct clientk_operation operation = {.opcode = CLIENTK_ADD, .key = TEXT("zero 2")};
    struct clientk_result result = {.status = KV_IO};
    operation.delta = 7;
    assert_status(clientk_execute(client, &operation, 1, &result), KV_OK);
    assert_status(result.status, KV_OK);
    ck_assert_int_eq(result.number, 7);
    clientk_value_free(&result.value);
}
END_TEST

static void assert_last_error_names(const char *what)
{
    ck_assert_msg(strstr(clientk_last_error(), what), "'%s' does not name %s", clientk_last_error(),
                  what);
}

START_TEST(options_that_a_call_does_not_take_are_refused)
{
    must_put_text(client, "o", "1");
    struct clientk_write_options absent = {.if_absent = true}, version = {.if_version = 1},
                                 expiry = {.expiry_ms = 1}, newer = {.reserved = {1}};
    assert_status(clientk_delete(client, TEXT("o"), &absent, NULL), KV_USAGE);
    assert_last_error_names("delete does not take the option if_absent");
    assert_status(clientk_append(client, TEXT("o"), TEXT("2"), &version, NULL, NULL), KV_USAGE);
    assert_last_error_names("append does not take the option if_version");
    assert_status(clientk_touch(client, TEXT("o"), 0, &version, NULL), KV_USAGE);
    assert_last_error_names("touch does not take the option if_version");
    assert_status(clientk_touch(client, TEXT("o"), 0, &expiry, NULL), KV_USAGE);
    assert_last_error_names("expiry_ms");
    assert_status(clientk_put(client, TEXT("o"), TEXT("2"), &newer, NULL), KV_UNSUPPORTED);
    assert_last_error_names("reserved");
    struct clientk_add_options bound_not_given = {.min = 1}, newer_add = {.reserved = {1}},
                               newer_byte = {.reserved_bytes = {1}};
    assert_status(clientk_add(client, TEXT("o"), 1, &bound_not_given, NULL, NULL), KV_USAGE);
    assert_last_error_names("has_min");
    assert_status(clientk_add(client, TEXT("o"), 1, &newer_add, NULL, NULL), KV_UNSUPPORTED);
    assert_status(clientk_add(client, TEXT("o"), 1, &newer_byte, NULL, NULL), KV_UNSUPPORTED);
    struct clientk_operation operations[] = {
        {.opcode = CLIENTK_GET, .key = TEXT("o"), .reserved = {1}},
        {.opcode = CLIENTK_SCAN, .scan = {.reserved = {1}}}};
    struct clientk_result results[2] = {{.status = KV_OK}};
    assert_status(clientk_execute(client, operations, 2, results), KV_OK);
    assert_status(results[0].status, KV_UNSUPPORTED);
    assert_status(results[1].status, KV_UNSUPPORTED);
    struct clientk_options newer_options = {.reserved = {[5] = 1}};
    struct clientk *other;
    struct kv_error error = {0};
    assert_status(clientk_open(&newer_options, &other, &error), KV_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "newer version"));
    assert_text(client, "o", "1");
    ck_assert_str_eq(clientk_version(), MQKV_VERSION_STRING);
}
END_TEST

START_TEST(stats_and_ping_answer)
{
    struct clientk_value json = {.size = 0};
    assert_status(clientk_stats(client, NULL, &json), KV_OK);
    ck_assert_ptr_nonnull(strchr(json.data, '{'));
    assert_status(clientk_stats(client, "no such section", &json), KV_NOT_FOUND);
    uint64_t round_trip_ns = 0;
    assert_status(clientk_ping(client, &round_trip_ns), KV_OK);
    ck_assert_uint_gt(round_trip_ns, 0);
    clientk_value_free(&json);
}
END_TEST

START_TEST(info_counts_messages_and_operations)
{
    struct clientk_info before;
    struct clientk_info after;
    clientk_info(client, &before);
    assert_text((must_put_text(client, "i", "1"), client), "i", "1");
    clientk_info(client, &after);
    ck_assert_uint_eq(after.messages - before.messages, 2);
    ck_assert_uint_eq(after.operations - before.operations, 2);
    ck_assert_uint_eq(after.sessions, 1);
    ck_assert_uint_eq(after.server_pid, (uint32_t)server.pid);
    ck_assert_uint_gt(after.max_value_bytes, 0);
    ck_assert_uint_gt(after.reply_depth, 0);
}
END_TEST

START_TEST(misuse_is_refused_with_a_sentence)
{
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(NULL, TEXT("k"), &value), KV_USAGE);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "NULL"));
    assert_status(clientk_get(client, TEXT("k"), NULL), KV_USAGE);
    assert_status(clientk_execute(client, NULL, 1, NULL), KV_USAGE);
    assert_status(clientk_execute(client, NULL, 0, NULL), KV_OK);
    clientk_close(NULL);
    clientk_abandon(NULL);
    clientk_value_free(NULL);
    clientk_pipeline_close(NULL);
}
END_TEST

START_TEST(open_refuses_impossible_options)
{
    static const struct clientk_options impossible[] = {
        {.queue = "no slash"}, {.queue = "/a/b"},       {.queue = "/"},
        {.spin = "sometimes"}, {.combine_above = 1000}, {.priority = 32},
    };
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        struct clientk *none = NULL;
        struct kv_error error = {.status = KV_OK};
        ck_assert_int_eq(clientk_open(&impossible[i], &none, &error), KV_USAGE);
        ck_assert_ptr_null(none);
        ck_assert_int_eq(error.status, KV_USAGE);
        ck_assert_str_ne(error.text, "");
        ck_assert_str_eq(clientk_last_error(), error.text);
    }
}
END_TEST

START_TEST(open_without_server_says_so)
{
    struct clientk *none = NULL;
    struct kv_error error = {.status = KV_OK};
    struct clientk_options at_once = {.queue = "/tck.nobody", .fail_fast = true};
    ck_assert_int_eq(clientk_open(&at_once, &none, &error), KV_NO_SERVER);
    ck_assert_ptr_nonnull(strstr(error.text, "/tck.nobody"));
    struct clientk_options patient = {.queue = "/tck.nobody", .timeout_ms = 50};
    uint64_t start_ms = clock_monotonic_coarse_ms();
    ck_assert_int_eq(clientk_open(&patient, &none, NULL), KV_NO_SERVER);
    ck_assert_uint_ge(clock_monotonic_coarse_ms() - start_ms, 40);
}
END_TEST

START_TEST(queue_name_comes_from_the_environment)
{
    setenv("MQKV_QUEUE", server.queue, 1);
    struct clientk *other = must_connect_with(NULL);
    assert_status(clientk_ping(other, NULL), KV_OK);
    clientk_close(other);
}
END_TEST

static void add_operations(TCase *tcase)
{
    tcase_add_test(tcase, put_then_get_gives_value_and_version);
    tcase_add_test(tcase, get_of_an_absent_key_empties_the_value);
    tcase_add_test(tcase, empty_value_is_a_value);
    tcase_add_test(tcase, keys_and_values_are_bytes);
    tcase_add_test(tcase, keys_of_impossible_size_are_refused);
    tcase_add_test(tcase, put_conditions_hold);
    tcase_add_test(tcase, exists_tells_all_but_the_value);
    tcase_add_test(tcase, delete_removes_only_the_version_it_names);
    tcase_add_test(tcase, add_counts_within_its_bounds);
    tcase_add_test(tcase, append_grows_the_value);
    tcase_add_test(tcase, exchange_gives_the_old_value);
    tcase_add_test(tcase, touch_sets_and_takes_away_the_expiry);
    tcase_add_test(tcase, durable_writes_and_sync_are_acknowledged);
    tcase_add_test(tcase, every_write_takes_durability_and_gives_its_version);
    tcase_add_test(tcase, options_from_zeros_are_the_defaults);
    tcase_add_test(tcase, options_that_a_call_does_not_take_are_refused);
    tcase_add_test(tcase, stats_and_ping_answer);
    tcase_add_test(tcase, info_counts_messages_and_operations);
    tcase_add_test(tcase, misuse_is_refused_with_a_sentence);
}

TEST_SUITE(clientk_calls)
{
    TCase *tcase = tcase_create("calls");
    served_case_add_client(tcase);
    add_operations(tcase);
    suite_add_tcase(suite, tcase);

    TCase *opening = tcase_create("opening");
    served_case_add(opening);
    tcase_add_test(opening, open_refuses_impossible_options);
    tcase_add_test(opening, open_without_server_says_so);
    tcase_add_test(opening, queue_name_comes_from_the_environment);
    suite_add_tcase(suite, opening);
}
