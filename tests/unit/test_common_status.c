#include <check.h>
#include <errno.h>
#include <string.h>

#include "common/report/error.h"
#include "mqkv/status.h"
#include "tests/support/test_suite.h"

START_TEST(every_status_has_a_word_and_a_phrase_of_its_own)
{
    for (int i = 0; i < KV_STATUS_COUNT; i++) {
        ck_assert_str_ne(kv_status_name((enum kv_status)i), "unknown_status");
        ck_assert_uint_gt(strlen(kv_status_text((enum kv_status)i)), 0);
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(kv_status_name((enum kv_status)i), kv_status_name((enum kv_status)j));
            ck_assert_str_ne(kv_status_text((enum kv_status)i), kv_status_text((enum kv_status)j));
        }
    }
}
END_TEST

START_TEST(names_are_lower_case_words)
{
    for (int i = 0; i < KV_STATUS_COUNT; i++) {
        const char *name = kv_status_name((enum kv_status)i);
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
    }
    ck_assert_str_eq(kv_status_name(KV_NOT_FOUND), "not_found");
    ck_assert_str_eq(kv_status_text(KV_NOT_FOUND), "key not found");
}
END_TEST

START_TEST(numbers_outside_the_list_are_unknown)
{
    const int foreign[] = {KV_STATUS_COUNT, KV_STATUS_COUNT + 1, 65535, -1, -2147483647};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        ck_assert_str_eq(kv_status_name((enum kv_status)foreign[i]), "unknown_status");
        ck_assert_str_eq(kv_status_text((enum kv_status)foreign[i]), "unknown status");
    }
}
END_TEST

START_TEST(numbers_of_the_protocol_keep_their_meaning)
{
    ck_assert_int_eq(KV_OK, 0);
    ck_assert_int_eq(KV_VERSION_MISMATCH, 3);
    ck_assert_int_eq(KV_BAD_REQUEST, 9);
    ck_assert_int_eq(KV_NO_SPACE, 13);
    ck_assert_int_eq(KV_OVERLOADED, 21);
    ck_assert_int_eq(KV_NO_SESSION, 27);
    ck_assert_int_eq(KV_CROWDED, 28);
    ck_assert_int_eq(KV_FULL, 29);
    ck_assert_int_eq(KV_QUOTA, 30);
    ck_assert_int_eq(KV_MISSED, 31);
    ck_assert_int_eq(KV_APART, 32);
}
END_TEST

START_TEST(errno_maps_to_a_status)
{
    ck_assert_int_eq(kv_status_from_errno(ENOSPC), KV_NO_SPACE);
    ck_assert_int_eq(kv_status_from_errno(EDQUOT), KV_NO_SPACE);
    ck_assert_int_eq(kv_status_from_errno(EFBIG), KV_NO_SPACE);
    ck_assert_int_eq(kv_status_from_errno(ENOMEM), KV_NO_MEMORY);
    ck_assert_int_eq(kv_status_from_errno(EACCES), KV_DENIED);
    ck_assert_int_eq(kv_status_from_errno(EPERM), KV_DENIED);
    ck_assert_int_eq(kv_status_from_errno(EMFILE), KV_LIMIT);
    ck_assert_int_eq(kv_status_from_errno(ENFILE), KV_LIMIT);
    ck_assert_int_eq(kv_status_from_errno(EIO), KV_IO);
    ck_assert_int_eq(kv_status_from_errno(0), KV_IO);
}
END_TEST

TEST_SUITE(common_status)
{
    TCase *tests = tcase_create("status");
    tcase_add_test(tests, every_status_has_a_word_and_a_phrase_of_its_own);
    tcase_add_test(tests, names_are_lower_case_words);
    tcase_add_test(tests, numbers_outside_the_list_are_unknown);
    tcase_add_test(tests, numbers_of_the_protocol_keep_their_meaning);
    tcase_add_test(tests, errno_maps_to_a_status);
    suite_add_tcase(suite, tests);
}
