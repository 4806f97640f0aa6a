#include "kvstore/index/segmentpool.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "tests/unit/suites.h"

#define CHUNK_BLOCKS (SEGMENTPOOL_CHUNK_BYTES / SEGMENTPOOL_BLOCK_BYTES)
#define MANY         (3 * (unsigned)CHUNK_BLOCKS + 7)

static bool is_filled_with(const uint8_t *block, uint8_t byte)
{
    return block[0] == byte && memcmp(block, block + 1, SEGMENTPOOL_BLOCK_BYTES - 1) == 0;
}

static uint8_t *take_zeroed(void)
{
    uint8_t *block = segmentpool_take();
    if (!block || (uintptr_t)block % 16 != 0 || !is_filled_with(block, 0))
        ck_abort_msg("a block at %p is none, not aligned, or not zeroed", (void *)block);
    return block;
}

START_TEST(blocks_are_zeroed_apart_and_given_back_whole)
{
    static uint8_t *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = take_zeroed();
        memset(blocks[i], (int)(i % 255 + 1), SEGMENTPOOL_BLOCK_BYTES);
    }
    ck_assert_uint_eq(segmentpool_counts().blocks, MANY);
    ck_assert_uint_eq(segmentpool_counts().chunks, 4);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert(is_filled_with(blocks[i], (uint8_t)(i % 255 + 1)));
        segmentpool_give(blocks[i]);
    }
    ck_assert_uint_eq(segmentpool_counts().blocks, 0);
    ck_assert_uint_eq(segmentpool_counts().chunks, 0);
    segmentpool_give(NULL);
}
END_TEST

START_TEST(what_is_given_back_is_taken_before_new_memory)
{
    static uint8_t *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = take_zeroed();
    for (unsigned i = 0; i < MANY; i += 2) {
        memset(blocks[i], 0xff, SEGMENTPOOL_BLOCK_BYTES);
        segmentpool_give(blocks[i]);
    }
    for (unsigned i = 0; i < MANY; i += 2)
        blocks[i] = take_zeroed();
    ck_assert_uint_eq(segmentpool_counts().chunks, 4);
    for (unsigned i = 0; i < MANY; i++)
        segmentpool_give(blocks[i]);
    ck_assert_uint_eq(segmentpool_counts().chunks, 0);
}
END_TEST

/* More than SEGMENTPOOL_SMALL_CHUNKS, so that chunks of both kinds are there. */
START_TEST(chunks_of_large_pages_are_like_the_others)
{
    unsigned count = (SEGMENTPOOL_SMALL_CHUNKS + 2) * (unsigned)CHUNK_BLOCKS;
    uint8_t **blocks = malloc(count * sizeof *blocks);
    for (unsigned i = 0; i < count; i++)
        blocks[i] = take_zeroed();
    ck_assert_uint_eq(segmentpool_counts().chunks, SEGMENTPOOL_SMALL_CHUNKS + 2);
    segmentpool_give(blocks[count - 1]);
    blocks[count - 1] = take_zeroed();
    for (unsigned i = 0; i < count; i++)
        segmentpool_give(blocks[i]);
    ck_assert_uint_eq(segmentpool_counts().chunks, 0);
    free(blocks);
}
END_TEST

#define HELD_BY_A_THREAD 700u

static void *take_and_give(void *seed)
{
    uint8_t *held[HELD_BY_A_THREAD] = {NULL};
    uint8_t own = *(uint8_t *)seed;
    struct random_state random;
    random_seed(&random, own);
    for (unsigned i = 0; i < 5000; i++) {
        uint8_t **at = &held[random_below(&random, HELD_BY_A_THREAD)];
        if (!*at) {
            *at = take_zeroed();
            memset(*at, own, SEGMENTPOOL_BLOCK_BYTES);
            continue;
        }
        if (!is_filled_with(*at, own))
            ck_abort_msg("a block that is in use was changed");
        segmentpool_give(*at);
        *at = NULL;
    }
    for (unsigned i = 0; i < HELD_BY_A_THREAD; i++)
        segmentpool_give(held[i]);
    return NULL;
}

START_TEST(threads_share_it)
{
    pthread_t threads[4];
    uint8_t seeds[4] = {1, 2, 3, 4};
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, &seeds[i]), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(segmentpool_counts().blocks, 0);
    ck_assert_uint_eq(segmentpool_counts().chunks, 0);
}
END_TEST

Suite *suite_kvstore_segmentpool(void)
{
    Suite *suite = suite_create("kvstore segmentpool");
    TCase *tests = tcase_create("segmentpool");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, blocks_are_zeroed_apart_and_given_back_whole);
    tcase_add_test(tests, what_is_given_back_is_taken_before_new_memory);
    tcase_add_test(tests, chunks_of_large_pages_are_like_the_others);
    tcase_add_test(tests, threads_share_it);
    suite_add_tcase(suite, tests);
    return suite;
}
