/* clientk_execute: many operations in few messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)
#define COUNT      5000

static struct clientk_operation operations[COUNT];
static struct clientk_result results[COUNT];
static char keys[COUNT][16];

static void prepare(void)
{
    memset(operations, 0, sizeof operations);
    for (unsigned i = 0; i < COUNT; i++)
        snprintf(keys[i], sizeof keys[i], "key%u", i);
}

static void free_results(void)
{
    for (unsigned i = 0; i < COUNT; i++)
        clientk_value_free(&results[i].value);
}

static void set_all(enum clientk_opcode opcode)
{
    for (unsigned i = 0; i < COUNT; i++)
        operations[i] = (struct clientk_operation){
            .opcode = opcode, .key = TEXT(keys[i]), .value = TEXT(keys[COUNT - 1 - i])};
}

START_TEST(thousands_of_operations_take_few_messages)
{
    struct clientk_info before;
    struct clientk_info after;
    clientk_info(client, &before);
    set_all(CLIENTK_PUT);
    assert_status(clientk_execute(client, operations, COUNT, results), KV_OK);
    set_all(CLIENTK_GET);
    assert_status(clientk_execute(client, operations, COUNT, results), KV_OK);
    clientk_info(client, &after);
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_int_eq(results[i].status, KV_OK);
        ck_assert_str_eq(results[i].value.data, keys[COUNT - 1 - i]);
    }
    ck_assert_uint_eq(after.operations - before.operations, 2 * COUNT);
    /* 36 bytes of a reply are set aside for each result, beside its value. */
    ck_assert_uint_lt(after.messages - before.messages, 2 * COUNT / (after.reply_bytes / 100));
}
END_TEST

START_TEST(operations_on_one_key_take_effect_in_order)
{
    for (unsigned i = 0; i < COUNT; i++)
        operations[i] =
            (struct clientk_operation){.opcode = CLIENTK_ADD, .key = TEXT("counter"), .delta = 1};
    for (unsigned i = 9; i < COUNT; i += 10)
        operations[i] = (struct clientk_operation){.opcode = CLIENTK_GET, .key = TEXT("counter")};
    assert_status(clientk_execute(client, operations, COUNT, results), KV_OK);
    int64_t expected = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        if (operations[i].opcode == CLIENTK_ADD)
            ck_assert_int_eq(results[i].number, ++expected);
        else
            ck_assert_int_eq(atoll(results[i].value.data), expected);
    }
}
END_TEST

/* Each append writes the whole value: the daemon leaves over what a message asks for beyond its
 * bounds, and the library sends that again, in order. */
START_TEST(what_the_daemon_leaves_over_is_sent_again)
{
    enum { APPENDS = 300 };
    size_t size = 1000000;
    char *large = malloc(size);
    memset(large, 'x', size);
    struct clientk_operation put = {
        .opcode = CLIENTK_PUT, .key = TEXT("large"), .value = kv_slice(large, size)};
    assert_status(clientk_execute(client, &put, 1, results), KV_OK);
    free(large);
    for (unsigned i = 0; i < APPENDS; i++)
        operations[i] = (struct clientk_operation){.opcode = CLIENTK_APPEND,
                                                   .key = TEXT("large"),
                                                   .value = kv_slice(&"0123456789"[i % 10], 1)};
    assert_status(clientk_execute(client, operations, APPENDS, results), KV_OK);
    for (unsigned i = 0; i < APPENDS; i++) {
        ck_assert_int_eq(results[i].status, KV_OK);
        ck_assert_int_eq(results[i].number, (int64_t)size + i + 1);
    }
    struct clientk_operation get = {.opcode = CLIENTK_GET, .key = TEXT("large")};
    assert_status(clientk_execute(client, &get, 1, results), KV_OK);
    for (unsigned i = 0; i < APPENDS; i++)
        ck_assert_int_eq(((const char *)results[0].value.data)[size + i], '0' + (int)(i % 10));
}
END_TEST

START_TEST(a_failing_operation_does_not_stop_the_others)
{
    struct clientk_operation mixed[] = {
        {.opcode = CLIENTK_PUT, .key = TEXT("m1"), .value = TEXT("one")},
        {.opcode = CLIENTK_GET, .key = kv_slice("", 0)},
        {.opcode = CLIENTK_GET, .key = TEXT("m none")},
        {.opcode = (enum clientk_opcode)99, .key = TEXT("m1")},
        {.opcode = CLIENTK_PUT,
         .key = TEXT("m1"),
         .write = {.if_absent = true, .if_present = true}},
        {.opcode = CLIENTK_PUT, .key = TEXT("m1"), .write = {.if_absent = true}},
        {.opcode = CLIENTK_APPEND, .key = TEXT("m1"), .value = TEXT(" two")},
        {.opcode = CLIENTK_EXISTS, .key = TEXT("m1")},
        {.opcode = CLIENTK_EXCHANGE, .key = TEXT("m1"), .value = TEXT("three")},
        {.opcode = CLIENTK_GET, .key = TEXT("m1")},
        {.opcode = CLIENTK_TOUCH, .key = TEXT("m1")},
        {.opcode = CLIENTK_DELETE, .key = TEXT("m1")},
        {.opcode = CLIENTK_DELETE, .key = TEXT("m1")},
    };
    static const enum kv_status expected[] = {
        KV_OK, KV_BAD_KEY, KV_NOT_FOUND, KV_USAGE, KV_USAGE, KV_EXISTS,   KV_OK,
        KV_OK, KV_OK,      KV_OK,        KV_OK,    KV_OK,    KV_NOT_FOUND};
    enum { MIXED = sizeof mixed / sizeof *mixed };
    assert_status(clientk_execute(client, mixed, MIXED, results), KV_OK);
    for (unsigned i = 0; i < MIXED; i++)
        ck_assert_msg(results[i].status == expected[i], "operation %u: %s", i,
                      kv_status_name(results[i].status));
    ck_assert_int_eq(results[6].number, 7);
    ck_assert_uint_eq(results[7].value.size, 7);
    ck_assert(results[8].found);
    ck_assert_str_eq(results[8].value.data, "one two");
    ck_assert_str_eq(results[9].value.data, "three");
}
END_TEST

static bool add_up(void *context, const struct clientk_entry *entry)
{
    char text[24] = "";
    ck_assert_uint_lt(entry->value.size, sizeof text);
    memcpy(text, entry->value.data, entry->value.size);
    *(int64_t *)context += atoll(text);
    return true;
}

/* Adds up the page and lets the scan go on behind it. True: nothing follows. */
static bool read_on(struct clientk_operation *scan, const struct clientk_result *page, int64_t *sum)
{
    ck_assert_int_eq(page->status, KV_OK);
    assert_status(clientk_read_page(&page->value, add_up, sum), KV_OK);
    if (page->value.size > 0) {
        struct clientk_value torn = {.data = page->value.data, .size = page->value.size - 1};
        assert_status(clientk_read_page(&torn, add_up, &(int64_t){0}), KV_IO);
    }
    scan->scan.cursor = (uint64_t)page->number;
    return page->number == 0;
}

/* A slow daemon may end a page early. Then the whole trade is made again, and what is left of a
 * scan sees what all of it would have seen. */
START_TEST(a_scan_in_a_batch_sees_what_came_before_it)
{
    struct clientk_operation trade[] = {
        {.opcode = CLIENTK_PUT, .key = TEXT("stock 1"), .value = TEXT("10")},
        {.opcode = CLIENTK_PUT, .key = TEXT("stock 2"), .value = TEXT("20")},
        {.opcode = CLIENTK_SCAN, .key = TEXT("stock "), .scan = {.atomic = true}},
        {.opcode = CLIENTK_ADD,
         .key = TEXT("stock 1"),
         .delta = -4,
         .add = {.has_min = true, .if_present = true}},
        {.opcode = CLIENTK_ADD,
         .key = TEXT("stock 1"),
         .delta = -7,
         .add = {.has_min = true, .if_present = true}},
        {.opcode = CLIENTK_SCAN, .key = TEXT("stock ")},
        {.opcode = CLIENTK_SCAN, .scan = {.cursor = UINT64_MAX}},
    };
    enum { TRADE = sizeof trade / sizeof *trade };
    int64_t sums[TRADE] = {0};
    bool read[TRADE] = {false};
    do {
        assert_status(clientk_execute(client, trade, TRADE, results), KV_OK);
        ck_assert_int_eq(results[3].number, 6);
        ck_assert_int_eq(results[4].status, KV_OUT_OF_BOUNDS);
        ck_assert_int_eq(results[6].status, KV_BAD_REQUEST);
        for (unsigned i = 2; i <= 5; i += 3)
            if (!read[i])
                read[i] = read_on(&trade[i], &results[i], &sums[i]);
    } while (!read[2] || !read[5]);
    ck_assert_int_eq(sums[2], 30);
    ck_assert_int_eq(sums[5], 26);
    assert_status(clientk_read_page(NULL, add_up, NULL), KV_USAGE);
    assert_status(clientk_read_page(&(struct clientk_value){0}, add_up, NULL), KV_OK);
}
END_TEST

START_TEST(batch_of_impossible_operations_sends_nothing)
{
    struct clientk_info before;
    struct clientk_info after;
    clientk_info(client, &before);
    struct clientk_operation none[3] = {{.opcode = CLIENTK_GET}, {.opcode = CLIENTK_PUT}};
    assert_status(clientk_execute(client, none, 3, results), KV_OK);
    ck_assert_int_eq(results[0].status, KV_BAD_KEY);
    ck_assert_int_eq(results[1].status, KV_BAD_KEY);
    ck_assert_int_eq(results[2].status, KV_USAGE);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "opcode"));
    clientk_info(client, &after);
    ck_assert_uint_eq(after.messages, before.messages);
}
END_TEST

TEST_SUITE(clientk_batch)
{
    TCase *tcase = tcase_create("batch");
    served_case_add_client(tcase);
    tcase_add_checked_fixture(tcase, prepare, free_results);
    tcase_add_test(tcase, what_the_daemon_leaves_over_is_sent_again);
    tcase_add_test(tcase, thousands_of_operations_take_few_messages);
    tcase_add_test(tcase, operations_on_one_key_take_effect_in_order);
    tcase_add_test(tcase, a_failing_operation_does_not_stop_the_others);
    tcase_add_test(tcase, a_scan_in_a_batch_sees_what_came_before_it);
    tcase_add_test(tcase, batch_of_impossible_operations_sends_nothing);
    suite_add_tcase(suite, tcase);
}
