/* Values of every size, through messages, through the segment, and in fragments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)
#define MIB        ((size_t)1 << 20)

static void put_patterned(const char *key, size_t size, unsigned seed)
{
    char *bytes = patterned_bytes(size, seed);
    assert_status(clientk_put(client, TEXT(key), kv_slice(bytes, size), NULL, NULL), KV_OK);
    free(bytes);
}

static void assert_patterned(const struct clientk_value *value, size_t size, unsigned seed)
{
    char *expected = patterned_bytes(size, seed);
    ck_assert_uint_eq(value->size, size);
    ck_assert_int_eq(memcmp(value->data, expected, size), 0);
    ck_assert_int_eq(((char *)value->data)[size], '\0');
    free(expected);
}

static void get_patterned(const char *key, size_t size, unsigned seed)
{
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, TEXT(key), &value), KV_OK);
    assert_patterned(&value, size, seed);
    clientk_value_free(&value);
}

static const size_t sizes[] = {0,     1,     900,    1024,   4095,   4096,   4097,    8000, 8192,
                               65535, 65536, 100000, 262144, 262145, 524288, MIB - 1, MIB};
#define SIZE_COUNT (sizeof sizes / sizeof *sizes)

START_TEST(value_of_every_size_comes_back)
{
    for (unsigned i = 0; i < SIZE_COUNT; i++)
        put_patterned("size", sizes[i], i), get_patterned("size", sizes[i], i);
    for (unsigned i = SIZE_COUNT; i-- > 0;)
        put_patterned("size", sizes[i], i), get_patterned("size", sizes[i], i);
}
END_TEST

START_TEST(first_read_of_a_session_may_be_big)
{
    put_patterned("big", MIB, 1);
    clientk_close(client);
    client = must_connect(server.queue);
    get_patterned("big", MIB, 1);
    get_patterned("big", MIB, 1);
}
END_TEST

START_TEST(value_beyond_the_limit_is_refused)
{
    char *bytes = patterned_bytes(MIB + 1, 1);
    put_patterned("limit", 10, 1);
    struct kv_slice beyond = kv_slice(bytes, MIB + 1);
    assert_status(clientk_put(client, TEXT("limit"), beyond, NULL, NULL), KV_VALUE_TOO_BIG);
    struct clientk_value old = {.size = 0};
    assert_status(clientk_exchange(client, TEXT("limit"), beyond, NULL, &old, NULL, NULL),
                  KV_VALUE_TOO_BIG);
    assert_status(clientk_append(client, TEXT("limit"), kv_slice(bytes, MIB), NULL, NULL, NULL),
                  KV_VALUE_TOO_BIG);
    get_patterned("limit", 10, 1);
    clientk_value_free(&old);
    free(bytes);
}
END_TEST

START_TEST(exchange_carries_big_values_both_ways)
{
    put_patterned("x", MIB, 1);
    char *bytes = patterned_bytes(MIB, 2);
    struct clientk_value old = {.size = 0};
    bool found = false;
    assert_status(
        clientk_exchange(client, TEXT("x"), kv_slice(bytes, MIB), NULL, &old, &found, NULL), KV_OK);
    ck_assert(found);
    assert_patterned(&old, MIB, 1);
    get_patterned("x", MIB, 2);
    clientk_value_free(&old);
    free(bytes);
}
END_TEST

START_TEST(append_builds_a_big_value)
{
    char *bytes = patterned_bytes(400000, 5);
    uint64_t size = 0;
    assert_status(clientk_append(client, TEXT("a"), kv_slice(bytes, 200000), NULL, &size, NULL),
                  KV_OK);
    assert_status(
        clientk_append(client, TEXT("a"), kv_slice(bytes + 200000, 200000), NULL, &size, NULL),
        KV_OK);
    ck_assert_uint_eq(size, 400000);
    get_patterned("a", 400000, 5);
    free(bytes);
}
END_TEST

START_TEST(longest_key_carries_the_biggest_value)
{
    char *key = patterned_bytes(65535, 9);
    const size_t size = MIB; /* the server's max_value_bytes */
    char *bytes = patterned_bytes(size, 4);
    struct kv_slice long_key = kv_slice(key, 65535);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_put(client, long_key, kv_slice(bytes, size), NULL, NULL), KV_OK);
    assert_status(clientk_get(client, long_key, &value), KV_OK);
    assert_patterned(&value, size, 4);
    clientk_value_free(&value);
    free(bytes);
    free(key);
}
END_TEST

#define MIXED 60

/* Sizes from nothing to 200 KB, in no order. */
static size_t mixed_size(unsigned i)
{
    return i % 3 == 0 ? i : i % 3 == 1 ? 1000 * (size_t)i : 3333 * (size_t)i;
}

START_TEST(batch_carries_values_of_all_sizes)
{
    char keys[MIXED][8];
    char *bytes[MIXED];
    struct clientk_operation operations[MIXED];
    struct clientk_result results[MIXED] = {{.status = KV_OK}};
    for (unsigned i = 0; i < MIXED; i++) {
        snprintf(keys[i], sizeof keys[i], "mix%u", i);
        bytes[i] = patterned_bytes(mixed_size(i), i);
        operations[i] = (struct clientk_operation){.opcode = CLIENTK_PUT,
                                                   .key = TEXT(keys[i]),
                                                   .value = kv_slice(bytes[i], mixed_size(i))};
    }
    assert_status(clientk_execute(client, operations, MIXED, results), KV_OK);
    for (unsigned i = 0; i < MIXED; i++) {
        ck_assert_int_eq(results[i].status, KV_OK);
        operations[i] = (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT(keys[i])};
    }
    for (int twice = 0; twice < 2; twice++) {
        assert_status(clientk_execute(client, operations, MIXED, results), KV_OK);
        for (unsigned i = 0; i < MIXED; i++) {
            ck_assert_int_eq(results[i].status, KV_OK);
            assert_patterned(&results[i].value, mixed_size(i), i);
        }
    }
    for (unsigned i = 0; i < MIXED; i++) {
        clientk_value_free(&results[i].value);
        free(bytes[i]);
    }
}
END_TEST

START_TEST(batch_keeps_the_order_of_reads_and_writes_of_big_values)
{
    enum { ROUNDS = 12 };
    struct clientk_operation operations[3 * ROUNDS];
    struct clientk_result results[3 * ROUNDS] = {{.status = KV_OK}};
    char *bytes[ROUNDS + 1];
    for (unsigned i = 0; i <= ROUNDS; i++)
        bytes[i] = patterned_bytes(50000, i);
    for (unsigned i = 0; i < ROUNDS; i++) {
        operations[3 * i] = (struct clientk_operation){
            .opcode = CLIENTK_PUT, .key = TEXT("order"), .value = kv_slice(bytes[i], 50000)};
        operations[3 * i + 1] =
            (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("order")};
        operations[3 * i + 2] = (struct clientk_operation){.opcode = CLIENTK_EXCHANGE,
                                                           .key = TEXT("order"),
                                                           .value = kv_slice(bytes[i + 1], 50000)};
    }
    assert_status(clientk_execute(client, operations, 3 * ROUNDS, results), KV_OK);
    for (unsigned i = 0; i < ROUNDS; i++) {
        assert_patterned(&results[3 * i + 1].value, 50000, i);
        assert_patterned(&results[3 * i + 2].value, 50000, i);
    }
    for (unsigned i = 0; i < 3 * ROUNDS; i++)
        clientk_value_free(&results[i].value);
    for (unsigned i = 0; i <= ROUNDS; i++)
        free(bytes[i]);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, value_of_every_size_comes_back);
    tcase_add_test(tcase, first_read_of_a_session_may_be_big);
    tcase_add_test(tcase, value_beyond_the_limit_is_refused);
    tcase_add_test(tcase, exchange_carries_big_values_both_ways);
    tcase_add_test(tcase, append_builds_a_big_value);
    tcase_add_test(tcase, longest_key_carries_the_biggest_value);
    tcase_add_test(tcase, batch_carries_values_of_all_sizes);
    tcase_add_test(tcase, batch_keeps_the_order_of_reads_and_writes_of_big_values);
}

TEST_SUITE(clientk_values)
{
    TCase *segment = tcase_create("segment");
    served_case_add_client(segment);
    add_tests(segment);
    suite_add_tcase(suite, segment);
    TCase *fragments = tcase_create("fragments");
    served_case_add_client_without_segment(fragments);
    add_tests(fragments);
    suite_add_tcase(suite, fragments);
}
