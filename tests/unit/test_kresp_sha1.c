#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/protocol/sha1.h"
#include "tests/support/test_suite.h"

START_TEST(hashes_are_those_of_the_standard)
{
    char hex[SHA1_HEX_BYTES];
    char *long_text = malloc(1000000);
    sha1_hex(kv_slice_from_string("abc"), hex);
    ck_assert_str_eq(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_hex(kv_slice(NULL, 0), hex);
    ck_assert_str_eq(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    sha1_hex(kv_slice_from_string("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), hex);
    ck_assert_str_eq(hex, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(long_text, 'a', 1000000);
    sha1_hex(kv_slice(long_text, 1000000), hex);
    ck_assert_str_eq(hex, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(long_text);
}
END_TEST

TEST_SUITE(kresp_sha1)
{
    TCase *hashes = tcase_create("hashes");
    tcase_add_test(hashes, hashes_are_those_of_the_standard);
    suite_add_tcase(suite, hashes);
}
