#include "mqkv/allocator.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lab/allocator/memory_segment.h"
#include "tests/support/skip.h"
#include "tests/support/test_suite.h"

/* The whole interface of each of the two, as one table. */
static const struct {
    const struct allocator *allocator;
    void *(*calloc)(size_t count, size_t bytes);
    void *(*realloc)(void *block, size_t bytes);
} kinds[] = {
    {&kv_allocator_locked, kv_locked_calloc, kv_locked_realloc},
    {&kv_allocator_thread_local, kv_local_calloc, kv_local_realloc},
};
#define KINDS 2

static struct allocator_statistics statistics_of(const struct allocator *allocator)
{
    struct allocator_statistics statistics;
    allocator->statistics(&statistics);
    ck_assert(allocator->is_sound());
    return statistics;
}

/* Not a check a byte: each of those is a system call. */
static bool holds_only(const unsigned char *bytes, size_t size, unsigned char fill)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != fill)
            return false;
    return true;
}

START_TEST(names_are_those_of_the_option)
{
    ck_assert_str_eq(kv_allocator_system.name, "system");
    ck_assert_str_eq(kv_allocator_locked.name, "locked");
    ck_assert_str_eq(kv_allocator_thread_local.name, "thread-local");
}
END_TEST

START_TEST(blocks_are_aligned_and_of_any_size)
{
    const struct allocator *allocator = kinds[_i].allocator;
    static const size_t sizes[] = {0, 1, 15, 16, 17, 64, 4095, 65536, 1 << 20, 100 << 20};
    char *blocks[sizeof sizes / sizeof *sizes];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        blocks[i] = allocator->allocate(sizes[i]);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
        if (sizes[i] > 0)
            blocks[i][0] = blocks[i][sizes[i] - 1] = (char)i;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        allocator->release(blocks[i]);
    allocator->release(NULL);
    struct allocator_statistics statistics = statistics_of(allocator);
    ck_assert_uint_eq(statistics.free_bytes, statistics.segment_bytes);
}
END_TEST

START_TEST(memory_that_was_freed_is_used_again)
{
    const struct allocator *allocator = kinds[_i].allocator;
    void *blocks[100];
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < 100; i++)
            ck_assert_ptr_nonnull(blocks[i] = allocator->allocate(100 + i * 10));
        for (size_t i = 0; i < 100; i++)
            allocator->release(blocks[i * 7 % 100]);
    }
    struct allocator_statistics statistics = statistics_of(allocator);
    ck_assert_uint_le(statistics.segment_bytes, 100 * (100 + 100 * 10 + 32));
    ck_assert_uint_eq(statistics.free_bytes, statistics.segment_bytes);
    ck_assert_uint_eq(statistics.free_blocks, 1);
}
END_TEST

static void check_refused(void *block)
{
    ck_assert_ptr_null(block);
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
}

START_TEST(sizes_that_can_not_be_are_refused)
{
    void *block = kinds[_i].allocator->allocate(100);
    memset(block, 7, 100);
    struct allocator_statistics before = statistics_of(kinds[_i].allocator);
    errno = 0;
    check_refused(kinds[_i].allocator->allocate(SIZE_MAX));
    check_refused(kinds[_i].allocator->allocate((size_t)PTRDIFF_MAX));
    check_refused(kinds[_i].allocator->allocate((size_t)PTRDIFF_MAX - 1000));
    check_refused(kinds[_i].calloc(SIZE_MAX / 2, 3));
    check_refused(kinds[_i].calloc(SIZE_MAX, 1));
    check_refused(kinds[_i].realloc(block, SIZE_MAX - 8));
    check_refused(kinds[_i].realloc(block, (size_t)PTRDIFF_MAX - 1000));
    check_refused(kinds[_i].realloc(NULL, SIZE_MAX));
    struct allocator_statistics after = statistics_of(kinds[_i].allocator);
    ck_assert_uint_eq(before.segment_bytes, after.segment_bytes);
    ck_assert_uint_eq(((unsigned char *)block)[99], 7);
    kinds[_i].allocator->release(block);
}
END_TEST

START_TEST(calloc_zeroes_what_was_used_before)
{
    unsigned char *used = kinds[_i].allocator->allocate(1000);
    memset(used, 0xff, 1000);
    kinds[_i].allocator->release(used);
    unsigned char *block = kinds[_i].calloc(10, 100);
    ck_assert_ptr_eq(block, used);
    ck_assert(holds_only(block, 1000, 0));
    kinds[_i].allocator->release(block);
    kinds[_i].allocator->release(kinds[_i].calloc(0, 5));
}
END_TEST

START_TEST(realloc_keeps_the_bytes)
{
    char *block = kinds[_i].realloc(NULL, 10);
    memcpy(block, "0123456789", 10);
    block = kinds[_i].realloc(block, 5000);
    ck_assert_mem_eq(block, "0123456789", 10);
    memset(block + 10, 'x', 4990);
    char *smaller = kinds[_i].realloc(block, 12);
    ck_assert_ptr_eq(smaller, block);
    ck_assert_mem_eq(smaller, "0123456789xx", 12);
    ck_assert_uint_ge(statistics_of(kinds[_i].allocator).free_bytes, 4900);
    smaller = kinds[_i].realloc(smaller, 0);
    ck_assert_ptr_nonnull(smaller);
    kinds[_i].allocator->release(smaller);
    struct allocator_statistics statistics = statistics_of(kinds[_i].allocator);
    ck_assert_uint_eq(statistics.free_bytes, statistics.segment_bytes);
}
END_TEST

/* With less address space than a whole range, and then with none: what is there stays good. */
START_TEST(exhaustion_is_an_answer)
{
#ifdef MQKV_SANITIZER
    SKIP_TEST("the sanitizer's own maps are larger than any limit");
#endif
    const struct allocator *allocator = kinds[_i].allocator;
    FILE *maps = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    ck_assert_int_eq(fscanf(maps, "%lu", &pages), 1);
    fclose(maps);
    rlim_t limit_bytes = pages * 4096 + (20 << 20);
    ck_assert(limit_bytes < pages * 4096 + SEGMENT_RANGE_BYTES);
    setrlimit(RLIMIT_AS, &(struct rlimit){limit_bytes, limit_bytes});
    enum { BLOCK_BYTES = 1 << 20 };
    char *blocks[64];
    unsigned count = 0;
    errno = 0;
    while (count < 64 && (blocks[count] = allocator->allocate(BLOCK_BYTES)))
        memset(blocks[count], (int)count, BLOCK_BYTES), count++;
    ck_assert_uint_ge(count, 10);
    ck_assert_uint_lt(count, 64);
    ck_assert_int_eq(errno, ENOMEM);
    for (unsigned i = 0; i < count; i++)
        ck_assert(holds_only((unsigned char *)blocks[i], BLOCK_BYTES, (unsigned char)i));
    for (unsigned i = 0; i < count; i++)
        allocator->release(blocks[i]);
    ck_assert(allocator->is_sound());
    for (unsigned i = 0; i < count; i++)
        ck_assert_ptr_nonnull(allocator->allocate(BLOCK_BYTES));
}
END_TEST

/* Misuse that is recognised ends the process, with a message that would look like a failure. */
static void silence(void)
{
    ck_assert_ptr_nonnull(freopen("/dev/null", "we", stderr));
}

START_TEST(a_block_can_not_be_freed_twice)
{
    silence();
    void *block = kinds[_i].allocator->allocate(100);
    kinds[_i].allocator->release(block);
    kinds[_i].allocator->release(block);
}
END_TEST

START_TEST(a_pointer_into_a_block_can_not_be_freed)
{
    silence();
    char *block = kinds[_i].calloc(1, 100);
    kinds[_i].allocator->release(block + (_i == 0 ? 32 : 4));
}
END_TEST

/* Each block is filled with a byte of its own, and looked at before it is freed. */
START_TEST(random_calls_keep_every_block_whole)
{
    enum { BLOCKS = 200, STEPS = 20000 };
    struct {
        unsigned char *bytes;
        size_t size;
        unsigned char fill;
    } blocks[BLOCKS] = {0};
    const struct allocator *allocator = kinds[_i % KINDS].allocator;
    unsigned seed = (unsigned)_i;
    for (int step = 0; step < STEPS; step++) {
        size_t i = (unsigned)rand_r(&seed) % BLOCKS, old_size = blocks[i].size;
        ck_assert(holds_only(blocks[i].bytes, old_size, blocks[i].fill));
        size_t size = (unsigned)rand_r(&seed) % ((unsigned)rand_r(&seed) % 100 == 0 ? 20000 : 300);
        if (blocks[i].bytes && rand_r(&seed) % 3 == 0) {
            blocks[i].bytes = kinds[_i % KINDS].realloc(blocks[i].bytes, size);
            ck_assert(
                holds_only(blocks[i].bytes, old_size < size ? old_size : size, blocks[i].fill));
        } else {
            allocator->release(blocks[i].bytes);
            blocks[i].bytes = allocator->allocate(size);
        }
        ck_assert_ptr_nonnull(blocks[i].bytes);
        blocks[i].size = size;
        blocks[i].fill = (unsigned char)rand_r(&seed);
        memset(blocks[i].bytes, blocks[i].fill, size);
        ck_assert(step % 256 != 0 || allocator->is_sound());
    }
    for (size_t i = 0; i < BLOCKS; i++)
        allocator->release(blocks[i].bytes);
    struct allocator_statistics statistics = statistics_of(allocator);
    ck_assert_uint_eq(statistics.free_bytes, statistics.segment_bytes);
    ck_assert_uint_eq(statistics.free_blocks, 1);
}
END_TEST

START_TEST(the_system_s_allocator_answers_too)
{
    void *block = kv_allocator_system.allocate(1000);
    ck_assert_ptr_nonnull(block);
    struct allocator_statistics statistics = {.free_blocks = 99};
    kv_allocator_system.statistics(&statistics);
    ck_assert_uint_eq(statistics.free_blocks, 0);
    ck_assert_uint_le(statistics.free_bytes, statistics.segment_bytes);
    ck_assert(kv_allocator_system.is_sound());
    kv_allocator_system.release(block);
}
END_TEST

TEST_SUITE(allocator_calls)
{
    TCase *tests = tcase_create("calls");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, names_are_those_of_the_option);
    tcase_add_loop_test(tests, blocks_are_aligned_and_of_any_size, 0, KINDS);
    tcase_add_loop_test(tests, memory_that_was_freed_is_used_again, 0, KINDS);
    tcase_add_loop_test(tests, sizes_that_can_not_be_are_refused, 0, KINDS);
    tcase_add_loop_test(tests, calloc_zeroes_what_was_used_before, 0, KINDS);
    tcase_add_loop_test(tests, realloc_keeps_the_bytes, 0, KINDS);
    tcase_add_loop_test(tests, exhaustion_is_an_answer, 0, KINDS);
    tcase_add_loop_test_raise_signal(tests, a_block_can_not_be_freed_twice, SIGABRT, 0, KINDS);
    tcase_add_loop_test_raise_signal(tests, a_pointer_into_a_block_can_not_be_freed, SIGABRT, 0,
                                     KINDS);
    tcase_add_loop_test(tests, random_calls_keep_every_block_whole, 0, 3 * KINDS);
    tcase_add_test(tests, the_system_s_allocator_answers_too);
    suite_add_tcase(suite, tests);
}
