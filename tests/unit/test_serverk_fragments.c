/* fragments: large requests put together from parts, and large replies taken apart, within a
 * budget. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "serverk/session/fragments.h"
#include "tests/support/test_suite.h"

static struct fragment_budget budget;
static struct fragments fragments;
static struct fragmented_message whole;

static void set_up(void)
{
    budget = (struct fragment_budget){.max_bytes = 4000, .message_max_bytes = 1000};
    fragments_init(&fragments, 1);
}

static void tear_down(void)
{
    fragments_clear(&fragments, &budget);
    ck_assert_uint_eq(budget.used_bytes, 0);
}

static enum kv_status take(uint64_t request_id, uint32_t total, uint32_t offset, const char *text)
{
    struct wire_part part = {
        .total_bytes = total, .offset = offset, .bytes = kv_slice_from_string(text)};
    return fragments_take_part(&fragments, &budget, request_id, &part, &whole);
}

START_TEST(parts_make_a_whole)
{
    ck_assert_int_eq(take(7, 60, 0, "twenty bytes of part"), KV_OK);
    ck_assert_ptr_null(whole.data);
    ck_assert_int_eq(take(7, 60, 20, "and twenty more of it"), KV_OK);
    ck_assert_ptr_null(whole.data);
    ck_assert_int_eq(take(7, 60, 41, "nineteen at the end"), KV_OK);
    ck_assert_ptr_nonnull(whole.data);
    ck_assert_uint_eq(whole.size, 60);
    ck_assert_mem_eq(whole.data, "twenty bytes of partand twenty more of itnineteen at the end",
                     60);
    fragmented_message_free(&whole, &budget);
}
END_TEST

START_TEST(a_gap_gives_up)
{
    ck_assert_int_eq(take(1, 60, 0, "twenty bytes of part"), KV_OK);
    ck_assert_int_eq(take(1, 60, 21, "gap"), KV_BAD_REQUEST);
    ck_assert_uint_eq(budget.used_bytes, 0);
    ck_assert_int_eq(take(1, 60, 20, "too late"), KV_BAD_REQUEST);
}
END_TEST

START_TEST(another_request_or_total_gives_up)
{
    ck_assert_int_eq(take(1, 60, 0, "twenty bytes of part"), KV_OK);
    ck_assert_int_eq(take(2, 60, 20, "other request"), KV_BAD_REQUEST);
    ck_assert_int_eq(take(1, 60, 0, "twenty bytes of part"), KV_OK);
    ck_assert_int_eq(take(1, 61, 20, "other total"), KV_BAD_REQUEST);
}
END_TEST

START_TEST(offset_zero_starts_anew)
{
    ck_assert_int_eq(take(1, 60, 0, "twenty bytes of part"), KV_OK);
    ck_assert_int_eq(take(2, 6, 0, "other!"), KV_OK);
    ck_assert_uint_eq(whole.size, 6);
    fragmented_message_free(&whole, &budget);
    ck_assert_uint_eq(budget.used_bytes, 0);
}
END_TEST

START_TEST(size_and_memory_are_bounded)
{
    ck_assert_int_eq(take(1, 1001, 0, "x"), KV_VALUE_TOO_BIG);
    budget.used_bytes = 3500;
    ck_assert_int_eq(take(1, 501, 0, "x"), KV_OVERLOADED);
    ck_assert_int_eq(take(1, 500, 0, "x"), KV_OK);
    budget.used_bytes -= 3500;
}
END_TEST

/* What is announced and never comes takes nothing. */
START_TEST(what_has_come_is_charged)
{
    budget.max_bytes = budget.message_max_bytes = 64u << 20;
    ck_assert_int_eq(take(1, 60u << 20, 0, "twenty bytes of part"), KV_OK);
    ck_assert_uint_le(budget.used_bytes, 64u << 10);
    ck_assert_uint_ge(budget.used_bytes, 20);
    static char fragment[8001];
    memset(fragment, 'x', sizeof fragment - 1);
    uint32_t done = 20;
    for (; done < 1000000; done += sizeof fragment - 1)
        ck_assert_int_eq(take(1, 60u << 20, done, fragment), KV_OK);
    ck_assert_uint_ge(budget.used_bytes, done);
    ck_assert_uint_le(budget.used_bytes, 2 * (uint64_t)done);
}
END_TEST

START_TEST(a_user_has_a_part_of_it)
{
    struct fragments others;
    budget.user_max_bytes = 3000;
    budget.owner = 99;
    fragments_init(&others, 2);
    ck_assert(fragments_reserve(&fragments, &budget));
    ck_assert(fragments_reserve(&fragments, &budget));
    struct fragments same;
    fragments_init(&same, 1);
    ck_assert(fragments_reserve(&same, &budget));
    ck_assert(!fragments_reserve(&same, &budget)); /* 4,000 in all, but not for one user */
    ck_assert(fragments_reserve(&others, &budget));
    fragments_cancel(&others, &budget);
    fragments_cancel(&same, &budget);
    same.uid = budget.owner;
    ck_assert(fragments_reserve(&same, &budget));
    ck_assert(fragments_reserve(&same, &budget));
    for (unsigned i = 0; i < 2; i++) {
        fragments_cancel(&same, &budget);
        fragments_cancel(&fragments, &budget);
    }
    fragments_clear(&same, &budget);
    fragments_clear(&others, &budget);
}
END_TEST

START_TEST(what_does_not_get_on_is_given_up_when_it_is_short)
{
    struct fragments late;
    struct fragmented_message none;
    struct wire_part part = {
        .total_bytes = 1000, .offset = 0, .bytes = kv_slice_from_string("twenty bytes of part")};
    fragments_init(&late, 3);
    ck_assert(fragments_reserve(&late, &budget));
    ck_assert(fragments_store(&late, &budget, 7, "reply", 5));
    ck_assert_int_eq(fragments_take_part(&late, &budget, 8, &part, &none), KV_OK);
    budget.max_bytes = 1500;
    ck_assert_int_eq(take(1, 1000, 0, "x"), KV_OVERLOADED); /* it may yet get on */
    late.progress_ms -= FRAGMENTS_PATIENCE_MS;
    ck_assert_int_eq(take(1, 1000, 0, "x"), KV_OK);
    part.offset = 20;
    ck_assert_int_eq(fragments_take_part(&late, &budget, 8, &part, &none), KV_OVERLOADED);
    ck_assert(fragments_reply_given_up(&late, 7));
    ck_assert(!fragments_reply_given_up(&late, 8));
    fragments_clear(&late, &budget);
}
END_TEST

/* Fetches the stored reply fragment by fragment, `room` bytes of message at a time. */
static size_t fetch(uint64_t request_id, size_t room, uint8_t *text, size_t total)
{
    struct wire_header header = {.kind = WIRE_REPLY_PART, .request_id = request_id};
    size_t done = 0;
    while (done < total) {
        uint8_t message[512];
        struct write_cursor cursor = write_cursor(message, room);
        if (!fragments_next_fragment(&fragments, &budget, &header, (uint32_t)done, &cursor))
            break;
        struct read_cursor read = read_cursor(message, write_cursor_used(&cursor));
        struct wire_part part;
        ck_assert_int_eq(wire_get_header(&read, &header), KV_OK);
        ck_assert_int_eq(header.kind, WIRE_REPLY_PART);
        ck_assert_int_eq(wire_get_part(&read, &part), KV_OK);
        ck_assert_uint_eq(part.total_bytes, total);
        ck_assert_uint_eq(part.offset, done);
        memcpy(text + done, part.bytes.data, part.bytes.size);
        done += part.bytes.size;
    }
    return done;
}

START_TEST(a_reply_is_fetched_in_fragments)
{
    uint8_t reply[700], text[700];
    for (size_t i = 0; i < sizeof reply; i++)
        reply[i] = (uint8_t)i;
    ck_assert(fragments_reserve(&fragments, &budget));
    ck_assert_uint_eq(budget.used_bytes, 1000);
    ck_assert(fragments_store(&fragments, &budget, 5, reply, sizeof reply));
    ck_assert_uint_eq(budget.used_bytes, 700);
    ck_assert_uint_eq(fetch(4, 128, text, sizeof text), 0);
    ck_assert_uint_eq(fetch(5, 128, text, sizeof text), 700);
    ck_assert_mem_eq(reply, text, sizeof reply);
    ck_assert_uint_eq(budget.used_bytes, 0);
    ck_assert_uint_eq(fetch(5, 128, text, sizeof text), 0);
}
END_TEST

START_TEST(reservations_are_bounded)
{
    for (unsigned i = 0; i < FRAGMENTS_MAX_STORED; i++)
        ck_assert(fragments_reserve(&fragments, &budget));
    ck_assert(!fragments_reserve(&fragments, &budget));
    ck_assert(fragments_store(&fragments, &budget, 1, "reply", 5));
    ck_assert(!fragments_reserve(&fragments, &budget));
    for (unsigned i = 1; i < FRAGMENTS_MAX_STORED; i++)
        fragments_cancel(&fragments, &budget);
    ck_assert(fragments_reserve(&fragments, &budget));
    fragments_cancel(&fragments, &budget);
}
END_TEST

TEST_SUITE(serverk_fragments)
{
    TCase *cases = tcase_create("fragments");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, parts_make_a_whole);
    tcase_add_test(cases, a_gap_gives_up);
    tcase_add_test(cases, another_request_or_total_gives_up);
    tcase_add_test(cases, offset_zero_starts_anew);
    tcase_add_test(cases, size_and_memory_are_bounded);
    tcase_add_test(cases, what_has_come_is_charged);
    tcase_add_test(cases, a_user_has_a_part_of_it);
    tcase_add_test(cases, what_does_not_get_on_is_given_up_when_it_is_short);
    tcase_add_test(cases, a_reply_is_fetched_in_fragments);
    tcase_add_test(cases, reservations_are_bounded);
    suite_add_tcase(suite, cases);
}
