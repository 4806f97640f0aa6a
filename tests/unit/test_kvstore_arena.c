/* The memory of indexes, with a shared-memory object and without one. */
#include "kvstore/index/arena.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "kvstore/index/arena_move.h"
#include "tests/support/test_suite.h"

#define FIRST_BYTES SHARED_STORE_HEADER_BYTES
#define FIRST       2u /* blocks that these are */
#define MANY        (3 * (unsigned)ARENA_CHUNK_BLOCKS + 7)

/* Loop tests run with both kinds. */
enum { OWN, SHARED, KINDS };

static struct arena *arena;
static int object = -1; /* another view of it */

static int make_object(void)
{
    char name[64];
    snprintf(name, sizeof name, "/mqkv.test.arena.%ld", (long)getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    shm_unlink(name);
    return fd;
}

static void begin(int kind)
{
    int fd = kind == SHARED ? make_object() : -1;
    object = fd < 0 ? -1 : dup(fd);
    arena = arena_create(fd, FIRST_BYTES);
    ck_assert_ptr_nonnull(arena);
    ck_assert(arena_is_shared(arena) == (kind == SHARED));
}

static void end(void)
{
    arena_free(arena);
    if (object >= 0)
        close(object);
    object = -1;
}

static uint8_t *at(uint32_t reference)
{
    return (uint8_t *)arena_base(arena) + (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT;
}

static bool is_filled_with(uint32_t reference, uint64_t bytes, uint8_t byte)
{
    const uint8_t *block = at(reference);
    return block[0] == byte && memcmp(block, block + 1, bytes - 1) == 0;
}

static uint32_t take_zeroed(uint64_t bytes)
{
    uint32_t reference = arena_take(arena, bytes);
    if (!reference || !is_filled_with(reference, bytes, 0))
        ck_abort_msg("%ju bytes at %u are none or not zeroed", (uintmax_t)bytes, reference);
    return reference;
}

static uint64_t object_bytes(void)
{
    struct stat facts;
    ck_assert_int_eq(fstat(object, &facts), 0);
    return (uint64_t)facts.st_blocks * 512;
}

START_TEST(blocks_are_zeroed_apart_and_given_back_whole)
{
    static uint32_t blocks[MANY];
    begin(_i);
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
        memset(at(blocks[i]), (int)(i % 255 + 1), ARENA_BLOCK_BYTES);
    }
    ck_assert_uint_eq(arena_counts(arena).blocks, MANY);
    ck_assert_uint_eq(arena_counts(arena).chunks, 4);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert(is_filled_with(blocks[i], ARENA_BLOCK_BYTES, (uint8_t)(i % 255 + 1)));
        arena_give(arena, blocks[i], ARENA_BLOCK_BYTES);
    }
    ck_assert_uint_eq(arena_counts(arena).blocks, 0);
    ck_assert_uint_eq(arena_counts(arena).chunks, 1);
    arena_give(arena, 0, ARENA_BLOCK_BYTES);
    end();
}
END_TEST

START_TEST(what_is_given_back_is_taken_before_new_memory)
{
    static uint32_t blocks[MANY];
    begin(_i);
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
    for (unsigned i = 0; i < MANY; i += 2) {
        memset(at(blocks[i]), 0xff, ARENA_BLOCK_BYTES);
        arena_give(arena, blocks[i], ARENA_BLOCK_BYTES);
    }
    for (unsigned i = 0; i < MANY; i += 2)
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
    ck_assert_uint_eq(arena_counts(arena).chunks, 4);
    end();
}
END_TEST

/* More than ARENA_SMALL_CHUNKS, so that chunks of both kinds are there. */
START_TEST(chunks_of_large_pages_are_like_the_others)
{
    unsigned count = (ARENA_SMALL_CHUNKS + 2) * (unsigned)ARENA_CHUNK_BLOCKS - FIRST;
    uint32_t *blocks = malloc(count * sizeof *blocks);
    begin(_i);
    for (unsigned i = 0; i < count; i++)
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
    ck_assert_uint_eq(arena_counts(arena).chunks, ARENA_SMALL_CHUNKS + 2);
    arena_give(arena, blocks[count - 1], ARENA_BLOCK_BYTES);
    blocks[count - 1] = take_zeroed(ARENA_BLOCK_BYTES);
    for (unsigned i = 0; i < count; i++)
        arena_give(arena, blocks[i], ARENA_BLOCK_BYTES);
    ck_assert_uint_eq(arena_counts(arena).chunks, 1);
    if (_i == SHARED)
        ck_assert_uint_le(object_bytes(), ARENA_CHUNK_BYTES);
    free(blocks);
    end();
}
END_TEST

/* All sizes of directories, with what is in them kept apart. */
START_TEST(other_sizes_have_their_places)
{
    enum { SIZES = 21, EACH = 5 };
    uint32_t references[EACH][SIZES];
    begin(_i);
    for (int i = 0; i < EACH; i++) {
        for (int size = 0; size < SIZES; size++) {
            uint64_t bytes = UINT64_C(4) << size;
            references[i][size] = take_zeroed(bytes);
            ck_assert_uint_eq((uintptr_t)at(references[i][size]) % 16, 0);
            memset(at(references[i][size]), i * SIZES + size + 1, bytes);
        }
    }
    for (int i = 0; i < EACH; i++) {
        for (int size = 0; size < SIZES; size++) {
            uint64_t bytes = UINT64_C(4) << size;
            ck_assert(is_filled_with(references[i][size], bytes, (uint8_t)(i * SIZES + size + 1)));
            arena_give(arena, references[i][size], bytes);
        }
    }
    ck_assert_uint_eq(arena_counts(arena).blocks, 0);
    ck_assert_uint_eq(arena_counts(arena).chunks, 1);
    end();
}
END_TEST

START_TEST(little_memory_stays_little)
{
    begin(SHARED);
    ck_assert_uint_le(object_bytes(), UINT64_C(64) << 10);
    for (int i = 0; i < 16; i++)
        take_zeroed(ARENA_BLOCK_BYTES);
    ck_assert_uint_le(object_bytes(), UINT64_C(128) << 10);
    ck_assert_uint_eq(arena_counts(arena).shared_bytes, object_bytes());
    end();
}
END_TEST

/* What others see of it is the same. */
START_TEST(the_object_has_what_is_below_its_size)
{
    static uint32_t blocks[MANY];
    begin(SHARED);
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
        memcpy(at(blocks[i]), &blocks[i], sizeof blocks[i]);
    }
    uint64_t shared_bytes = arena_counts(arena).shared_bytes;
    const struct shared_store *view = mmap(NULL, shared_bytes, PROT_READ, MAP_SHARED, object, 0);
    ck_assert_ptr_ne(view, MAP_FAILED);
    ck_assert_uint_eq(view->shared_bytes, shared_bytes);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t offset = (uint64_t)blocks[i] * SHARED_STORE_REFERENCE_UNIT;
        ck_assert_uint_le(offset + ARENA_BLOCK_BYTES, shared_bytes);
        ck_assert_mem_eq((const char *)view + offset, &blocks[i], sizeof blocks[i]);
    }
    munmap((void *)(uintptr_t)view, shared_bytes);
    end();
}
END_TEST

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A limit of the size of files is to the object what a full file system is. */
START_TEST(where_the_object_cannot_grow_own_memory_goes_on)
{
    static uint32_t blocks[4 * MANY];
    unsigned count = 4 * MANY;
    signal(SIGXFSZ, SIG_IGN);
    begin(SHARED);
    limit_files(ARENA_CHUNK_BYTES + (UINT64_C(200) << 10) + (rlim_t)_i * 4096);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
        memcpy(at(blocks[i]), &blocks[i], sizeof blocks[i]);
    }
    uint32_t large = take_zeroed(4 * ARENA_CHUNK_BYTES);
    struct arena_counts counts = arena_counts(arena);
    ck_assert_uint_ge(counts.own_chunks, 13);
    ck_assert_uint_le(counts.shared_bytes, ARENA_CHUNK_BYTES + (UINT64_C(300) << 10));
    for (unsigned i = 0; i < count; i++)
        ck_assert_mem_eq(at(blocks[i]), &blocks[i], sizeof blocks[i]);

    arena_give(arena, large, 4 * ARENA_CHUNK_BYTES);
    for (unsigned i = 0; i < count; i++)
        arena_give(arena, blocks[i], ARENA_BLOCK_BYTES);
    ck_assert_uint_eq(arena_counts(arena).own_chunks, 0);
    limit_files(RLIM_INFINITY);
    for (unsigned i = 0; i < count; i++)
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
    ck_assert_uint_eq(arena_counts(arena).own_chunks, 0);
    end();
}
END_TEST

static void fill_numbered(uint32_t *blocks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = take_zeroed(ARENA_BLOCK_BYTES);
        memcpy(at(blocks[i]), &blocks[i], sizeof blocks[i]);
    }
}

static void move_to(int fd)
{
    close(object);
    object = dup(fd);
    ck_assert(arena_prepare_move(arena, fd));
    ck_assert(arena_move(arena, fd));
    arena_restore_large_pages(arena);
}

/* With memory of its own, too: what is taken once that was given back is in the new object. */
START_TEST(what_is_in_an_object_moves_to_another)
{
    static uint32_t blocks[2 * MANY], others[2 * MANY];
    bool with_own = _i == 1;
    signal(SIGXFSZ, SIG_IGN);
    begin(SHARED);
    int old = dup(object);
    uint32_t large = take_zeroed(2 * ARENA_CHUNK_BYTES);
    memset(at(large), 7, 2 * ARENA_CHUNK_BYTES);
    uint32_t unit = take_zeroed(4);
    memset(at(unit), 5, 4);
    fill_numbered(blocks, MANY);
    if (with_own)
        limit_files(object_bytes());
    fill_numbered(blocks + MANY, MANY);
    ck_assert((arena_counts(arena).own_chunks > 0) == with_own);
    for (unsigned i = 1; i < MANY; i += 2)
        arena_give(arena, blocks[i], ARENA_BLOCK_BYTES);

    uint64_t blocks_before = arena_counts(arena).blocks;
    move_to(make_object());
    ck_assert_uint_eq(arena_counts(arena).blocks, blocks_before);
    memset(at(unit), 6, 4); /* which the old one does not see */
    uint8_t seen[4];
    off_t offset = (off_t)unit * SHARED_STORE_REFERENCE_UNIT;
    ck_assert_int_eq(pread(old, seen, 4, offset), 4);
    ck_assert_mem_eq(seen, "\5\5\5\5", 4);
    ck_assert_int_eq(pread(object, seen, 4, offset), 4);
    ck_assert_mem_eq(seen, "\6\6\6\6", 4);
    ck_assert(is_filled_with(large, 2 * ARENA_CHUNK_BYTES, 7));
    for (unsigned i = 0; i < 2 * MANY; i += i < MANY ? 2 : 1)
        ck_assert_mem_eq(at(blocks[i]), &blocks[i], sizeof blocks[i]);

    limit_files(RLIM_INFINITY);
    for (unsigned i = MANY; i < 2 * MANY; i++)
        arena_give(arena, blocks[i], ARENA_BLOCK_BYTES);
    ck_assert_uint_eq(arena_counts(arena).own_chunks, 0);
    fill_numbered(others, 2 * MANY);
    ck_assert_uint_eq(arena_counts(arena).own_chunks, 0);
    for (unsigned i = 0; i < 2 * MANY; i++) {
        offset = (off_t)others[i] * SHARED_STORE_REFERENCE_UNIT;
        ck_assert_int_eq(pread(object, seen, 4, offset), 4);
        ck_assert_mem_eq(seen, &others[i], 4);
    }
    close(old);
    end();
}
END_TEST

START_TEST(an_object_without_room_takes_nothing_over)
{
    static uint32_t blocks[MANY];
    signal(SIGXFSZ, SIG_IGN);
    begin(SHARED);
    fill_numbered(blocks, MANY);
    int fd = make_object();
    limit_files(ARENA_CHUNK_BYTES);
    ck_assert(!arena_prepare_move(arena, fd));
    ck_assert_int_eq(errno, EFBIG);
    ck_assert(!arena_move(arena, fd));
    ck_assert_int_eq(errno, EFBIG);
    limit_files(RLIM_INFINITY);
    close(fd);
    for (unsigned i = 0; i < MANY; i++) {
        ++*at(blocks[i]);
        uint8_t seen;
        off_t offset = (off_t)blocks[i] * SHARED_STORE_REFERENCE_UNIT;
        ck_assert_int_eq(pread(object, &seen, 1, offset), 1);
        ck_assert_uint_eq(seen, *at(blocks[i]));
    }
    end();
}
END_TEST

START_TEST(an_object_without_room_is_none)
{
    signal(SIGXFSZ, SIG_IGN);
    int fd = make_object();
    limit_files(4096);
    ck_assert_ptr_null(arena_create(fd, FIRST_BYTES));
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    limit_files(RLIM_INFINITY);
}
END_TEST

#define HELD_BY_A_THREAD 700u

static void *take_and_give(void *seed)
{
    static const uint64_t sizes[] = {ARENA_BLOCK_BYTES, ARENA_BLOCK_BYTES, 4, 300, 9000, 1 << 20};
    uint32_t held[HELD_BY_A_THREAD] = {0};
    uint64_t held_bytes[HELD_BY_A_THREAD];
    uint8_t own = *(uint8_t *)seed;
    struct random_state random;
    random_seed(&random, own);
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t place = random_below(&random, HELD_BY_A_THREAD);
        uint64_t kind = random_below(&random, 60);
        uint64_t bytes = sizes[kind < 6 ? kind : 0];
        if (!held[place]) {
            held[place] = take_zeroed(bytes);
            held_bytes[place] = bytes;
            memset(at(held[place]), own, bytes);
            continue;
        }
        if (!is_filled_with(held[place], held_bytes[place], own))
            ck_abort_msg("a block that is in use was changed");
        arena_give(arena, held[place], held_bytes[place]);
        held[place] = 0;
    }
    for (unsigned i = 0; i < HELD_BY_A_THREAD; i++)
        arena_give(arena, held[i], held_bytes[i]);
    return NULL;
}

START_TEST(threads_share_it)
{
    pthread_t threads[4];
    uint8_t seeds[4] = {1, 2, 3, 4};
    begin(_i);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, &seeds[i]), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(arena_counts(arena).blocks, 0);
    ck_assert_uint_eq(arena_counts(arena).chunks, 1);
    end();
}
END_TEST

TEST_SUITE(kvstore_arena)
{
    TCase *tests = tcase_create("arena");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, blocks_are_zeroed_apart_and_given_back_whole, 0, KINDS);
    tcase_add_loop_test(tests, what_is_given_back_is_taken_before_new_memory, 0, KINDS);
    tcase_add_loop_test(tests, chunks_of_large_pages_are_like_the_others, 0, KINDS);
    tcase_add_loop_test(tests, other_sizes_have_their_places, 0, KINDS);
    tcase_add_loop_test(tests, threads_share_it, 0, KINDS);
    tcase_add_test(tests, little_memory_stays_little);
    tcase_add_test(tests, the_object_has_what_is_below_its_size);
    tcase_add_loop_test(tests, where_the_object_cannot_grow_own_memory_goes_on, 0, 20);
    tcase_add_loop_test(tests, what_is_in_an_object_moves_to_another, 0, 2);
    tcase_add_test(tests, an_object_without_room_takes_nothing_over);
    tcase_add_test(tests, an_object_without_room_is_none);
    suite_add_tcase(suite, tests);
}
