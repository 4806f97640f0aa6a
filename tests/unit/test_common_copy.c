#include <check.h>
#include <stdlib.h>

#include "common/memory/copy.h"
#include "tests/support/test_suite.h"

#define MOST_BYTES (3 * COPY_PAGE_BYTES + 100)
#define MOST_APART 64u

/* Copies `size` bytes to a place `apart` bytes further in their page, and checks both sides. */
static void copy_and_check(uint8_t *to_page, const uint8_t *from, size_t apart, size_t size)
{
    memset(to_page, 0xee, MOST_BYTES + 2 * MOST_APART);
    uint8_t *to = to_page + apart;
    copy_bytes(to, from, size);
    ck_assert(size == 0 || memcmp(to, from, size) == 0);
    for (size_t i = 0; i < apart; i++)
        ck_assert_uint_eq(to_page[i], 0xee);
    for (size_t i = 0; i < MOST_APART; i++)
        ck_assert_uint_eq(to[size + i], 0xee);
}

START_TEST(every_byte_arrives_and_none_beside)
{
    static const size_t sizes[] = {0,
                                   1,
                                   40,
                                   COPY_PIECE_BYTES - 1,
                                   COPY_PIECE_BYTES,
                                   COPY_PIECE_BYTES + 1,
                                   2 * COPY_PIECE_BYTES,
                                   2 * COPY_PIECE_BYTES + 1,
                                   COPY_PAGE_BYTES * 3,
                                   MOST_BYTES};
    uint8_t *from = aligned_alloc(COPY_PAGE_BYTES, 4 * COPY_PAGE_BYTES);
    uint8_t *to = aligned_alloc(COPY_PAGE_BYTES, 4 * COPY_PAGE_BYTES);
    ck_assert(from && to);
    for (size_t i = 0; i < MOST_BYTES; i++)
        from[i] = (uint8_t)(i * 31 + i / 251);
    for (size_t apart = 0; apart <= MOST_APART; apart++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            copy_and_check(to, from, apart, sizes[i]);
    free(from);
    free(to);
}
END_TEST

START_TEST(nothing_is_copied_from_or_to_nowhere)
{
    uint8_t byte = 7;
    copy_bytes(NULL, &byte, 0);
    copy_bytes(&byte, NULL, 0);
    ck_assert_uint_eq(byte, 7);
}
END_TEST

TEST_SUITE(common_copy)
{
    TCase *test_case = tcase_create("copy");
    tcase_add_test(test_case, every_byte_arrives_and_none_beside);
    tcase_add_test(test_case, nothing_is_copied_from_or_to_nowhere);
    suite_add_tcase(suite, test_case);
}
