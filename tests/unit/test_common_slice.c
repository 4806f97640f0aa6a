#include <check.h>

#include "mqkv/slice.h"
#include "tests/support/test_suite.h"

static const struct kv_slice nothing = {NULL, 0};

START_TEST(equality_is_of_bytes_and_length)
{
    ck_assert(kv_slice_equal(kv_slice_from_string("abc"), kv_slice("abcd", 3)));
    ck_assert(!kv_slice_equal(kv_slice_from_string("abc"), kv_slice_from_string("abcd")));
    ck_assert(!kv_slice_equal(kv_slice("a\0b", 3), kv_slice("a\0c", 3)));
    ck_assert(kv_slice_equal(nothing, kv_slice("x", 0)));
}
END_TEST

START_TEST(prefix)
{
    struct kv_slice abc = kv_slice_from_string("abc");
    ck_assert(kv_slice_has_prefix(abc, kv_slice_from_string("ab")));
    ck_assert(kv_slice_has_prefix(abc, abc));
    ck_assert(kv_slice_has_prefix(abc, nothing));
    ck_assert(kv_slice_has_prefix(nothing, nothing));
    ck_assert(!kv_slice_has_prefix(abc, kv_slice_from_string("abcd")));
    ck_assert(!kv_slice_has_prefix(abc, kv_slice_from_string("b")));
    ck_assert(!kv_slice_has_prefix(nothing, abc));
}
END_TEST

TEST_SUITE(common_slice)
{
    TCase *tests = tcase_create("slice");
    tcase_add_test(tests, equality_is_of_bytes_and_length);
    tcase_add_test(tests, prefix);
    suite_add_tcase(suite, tests);
}
