#include "lab/allocator/freelist.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_suite.h"

/* Memory that the lists of a test are made of, in cells of the smallest block. */
#define CELLS 64
static _Alignas(16) char memory[CELLS][BLOCK_SMALLEST_BYTES];
static struct free_list list;

static void put(struct free_list *to, unsigned cell, unsigned cells)
{
    block_start(memory[cell], cells * BLOCK_SMALLEST_BYTES);
    free_list_put(to, (struct freelist_block *)memory[cell]);
    ck_assert(free_list_is_sound(to));
}

/* The cell whose block a taken payload is. */
static unsigned take(unsigned cells)
{
    char *payload = free_list_take(&list, cells * BLOCK_SMALLEST_BYTES);
    ck_assert_ptr_nonnull(payload);
    ck_assert(free_list_is_sound(&list));
    ck_assert_uint_eq(block_of(payload)->bytes, cells * BLOCK_SMALLEST_BYTES);
    return (unsigned)((payload - BLOCK_HEADER_BYTES - memory[0]) / (long)BLOCK_SMALLEST_BYTES);
}

static void check_list(unsigned blocks, unsigned cells)
{
    ck_assert_uint_eq(free_list_blocks(&list), blocks);
    ck_assert_uint_eq(free_list_bytes(&list), cells * BLOCK_SMALLEST_BYTES);
}

START_TEST(blocks_are_kept_in_order_of_address)
{
    static const unsigned cells[] = {8, 2, 12, 0, 10, 4, 6};
    for (unsigned i = 0; i < 7; i++)
        put(&list, cells[i], 1);
    check_list(7, 7);
    unsigned cell = 0;
    for (const struct freelist_block *block = list.first; block; block = block->next, cell += 2)
        ck_assert_ptr_eq(block, memory[cell]);
}
END_TEST

START_TEST(touching_blocks_become_one)
{
    put(&list, 0, 2);
    put(&list, 4, 2);
    check_list(2, 4);
    put(&list, 2, 2); /* touches both */
    check_list(1, 6);
    put(&list, 6, 1); /* the one before it */
    check_list(1, 7);
    put(&list, 8, 1);
    put(&list, 7, 1);
    check_list(1, 9);
    ck_assert_ptr_null(list.first->next);
}
END_TEST

START_TEST(the_smallest_that_fits_is_taken)
{
    put(&list, 0, 8);
    put(&list, 10, 3);
    put(&list, 20, 5);
    put(&list, 30, 3);
    ck_assert_uint_eq(take(3), 10); /* exactly; the lower of two */
    ck_assert_uint_eq(take(4), 21); /* the end of the 5 */
    ck_assert_uint_eq(take(1), 20); /* what is left of them, as it fits exactly */
    ck_assert_uint_eq(take(2), 31);
    ck_assert_uint_eq(take(7), 1);
    check_list(2, 2);
    ck_assert_ptr_null(free_list_take(&list, 2 * BLOCK_SMALLEST_BYTES));
}
END_TEST

START_TEST(a_rest_too_small_for_a_block_stays_with_the_taken)
{
    put(&list, 0, 2);
    size_t asked_bytes = 2 * BLOCK_SMALLEST_BYTES - BLOCK_ALIGNMENT;
    void *payload = free_list_take(&list, asked_bytes);
    ck_assert_ptr_nonnull(payload);
    ck_assert_uint_eq(block_of(payload)->bytes, 2 * BLOCK_SMALLEST_BYTES);
    check_list(0, 0);
    ck_assert(free_list_is_sound(&list));
}
END_TEST

START_TEST(lists_merge_in_order_and_coalesce)
{
    struct free_list other = {0};
    put(&list, 0, 1);
    put(&list, 4, 1);
    put(&list, 20, 1);
    put(&other, 1, 1);
    put(&other, 3, 1);
    put(&other, 5, 2);
    put(&other, 30, 1);
    free_list_merge(&list, &other);
    ck_assert(free_list_is_sound(&list));
    ck_assert(free_list_is_sound(&other));
    ck_assert_ptr_null(other.first);
    check_list(4, 8); /* 0-1, 3-6, 20, 30 */
    free_list_merge(&list, &other);
    check_list(4, 8);
    free_list_merge(&other, &list);
    ck_assert_uint_eq(free_list_blocks(&other), 4);
    ck_assert(free_list_is_sound(&other));
}
END_TEST

START_TEST(sizes_are_rounded_and_bounded)
{
    ck_assert_uint_eq(block_bytes_for(0), BLOCK_SMALLEST_BYTES);
    ck_assert_uint_eq(block_bytes_for(16), 32);
    ck_assert_uint_eq(block_bytes_for(17), 48);
    errno = 0;
    ck_assert_uint_eq(block_bytes_for(SIZE_MAX), 0);
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_uint_eq(block_bytes_for((size_t)PTRDIFF_MAX), 0);
    ck_assert_uint_ne(block_bytes_for((size_t)PTRDIFF_MAX - 64), 0);
}
END_TEST

/* What the check must not overlook. */
START_TEST(damage_is_noticed)
{
    put(&list, 0, 2);
    put(&list, 4, 2);
    struct freelist_block *first = list.first, *second = first->next;
    struct freelist_block sound_first = *first, sound_second = *second;
    switch (_i) {
    case 0:
        second->previous = NULL;
        break;
    case 1:
        first->bytes = 4 * BLOCK_SMALLEST_BYTES; /* touches the second */
        break;
    case 2:
        first->mark++;
        break;
    case 3:
        first->next = NULL;
        break;
    default:
        second->bytes += 1;
        break;
    }
    ck_assert(!free_list_is_sound(&list));
    *first = sound_first;
    *second = sound_second;
    ck_assert(free_list_is_sound(&list));
}
END_TEST

/* A random walk beside a map of the cells: a block is what the map says, and as many pieces of free
 * cells as the map has are in the list. */
START_TEST(random_puts_and_takes_agree_with_a_map)
{
    unsigned owned[CELLS]; /* cells of the live block that starts here; 0: none does */
    bool is_free[CELLS];
    unsigned seed = (unsigned)_i + 1;
    memset(owned, 0, sizeof owned);
    memset(is_free, 1, sizeof is_free);
    put(&list, 0, CELLS);
    for (int step = 0; step < 20000; step++) {
        unsigned cell = (unsigned)rand_r(&seed) % CELLS, cells = (unsigned)rand_r(&seed) % 6 + 1;
        if (owned[cell] > 0) {
            memset(&is_free[cell], 1, owned[cell]);
            put(&list, cell, owned[cell]);
            owned[cell] = 0;
            continue;
        }
        char *payload = free_list_take(&list, cells * BLOCK_SMALLEST_BYTES);
        if (!payload)
            continue;
        unsigned taken =
            (unsigned)((payload - BLOCK_HEADER_BYTES - memory[0]) / (long)BLOCK_SMALLEST_BYTES);
        owned[taken] = cells;
        for (unsigned i = taken; i < taken + cells; i++) {
            ck_assert(is_free[i]);
            is_free[i] = false;
        }
        memset(payload, 0xa5, cells * BLOCK_SMALLEST_BYTES - BLOCK_HEADER_BYTES);
    }
    unsigned pieces = 0, free_cells = 0;
    for (unsigned i = 0; i < CELLS; i++) {
        pieces += is_free[i] && (i == 0 || !is_free[i - 1]);
        free_cells += is_free[i];
    }
    ck_assert(free_list_is_sound(&list));
    check_list(pieces, free_cells);
}
END_TEST

TEST_SUITE(allocator_freelist)
{
    TCase *tests = tcase_create("freelist");
    tcase_add_test(tests, blocks_are_kept_in_order_of_address);
    tcase_add_test(tests, touching_blocks_become_one);
    tcase_add_test(tests, the_smallest_that_fits_is_taken);
    tcase_add_test(tests, a_rest_too_small_for_a_block_stays_with_the_taken);
    tcase_add_test(tests, lists_merge_in_order_and_coalesce);
    tcase_add_test(tests, sizes_are_rounded_and_bounded);
    tcase_add_loop_test(tests, damage_is_noticed, 0, 5);
    tcase_add_loop_test(tests, random_puts_and_takes_agree_with_a_map, 0, 5);
    suite_add_tcase(suite, tests);
}
