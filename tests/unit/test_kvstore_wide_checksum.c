#include "kvstore/format/wide_checksum.h"

#include <check.h>
#include <xxhash.h>

#include "common/numbers/random.h"
#include "kvstore/format/sizes.h"
#include "tests/support/test_suite.h"

#define MOST_BYTES 70000u

static uint8_t bytes[MOST_BYTES + 64];

static void fill(struct random_state *random)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_next(random);
}

START_TEST(it_is_xxh3_of_any_size_and_anywhere)
{
    struct random_state random;
    random_seed(&random, 1);
    fill(&random);
    for (uint64_t size = 0; size <= MOST_BYTES; size += size < 3000 ? 1 : 997) {
        const uint8_t *at = bytes + random_below(&random, 64);
        uint64_t seed = random_next(&random);
        ck_assert_uint_eq(wide_checksum(at, size, seed), XXH3_64bits_withSeed(at, size, seed));
    }
}
END_TEST

START_TEST(pieces_make_the_checksum_of_the_whole)
{
    struct random_state random;
    random_seed(&random, (uint64_t)_i + 2);
    fill(&random);
    for (int round = 0; round < 200; round++) {
        uint64_t size = random_below(&random, MOST_BYTES + 1);
        uint64_t piece_bytes = 1 + random_below(&random, _i == 0 ? 400 : 40000);
        uint64_t seed = random_next(&random);
        struct wide_stream stream;
        wide_stream_begin(&stream, seed);
        for (uint64_t done = 0; done < size;) {
            uint64_t piece = at_most(size - done, random_below(&random, piece_bytes + 1));
            wide_stream_add(&stream, bytes + done, piece);
            done += piece;
        }
        ck_assert_uint_eq(wide_stream_end(&stream), XXH3_64bits_withSeed(bytes, size, seed));
    }
}
END_TEST

TEST_SUITE(kvstore_wide_checksum)
{
    TCase *tests = tcase_create("wide_checksum");
    tcase_add_test(tests, it_is_xxh3_of_any_size_and_anywhere);
    tcase_add_loop_test(tests, pieces_make_the_checksum_of_the_whole, 0, 2);
    suite_add_tcase(suite, tests);
}
