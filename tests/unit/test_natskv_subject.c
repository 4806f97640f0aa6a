/* nats_subject: every key comes back, and none breaks a subject. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_subject.h"
#include "bridges/cluster/natskv/natskv_options.h"
#include "tests/support/test_suite.h"

static void assert_subject(const char *key, const char *expected)
{
    char text[64];
    uint8_t back[64];
    size_t size;
    ck_assert(nats_subject_encode(kv_slice_from_string(key), text, sizeof text));
    ck_assert_str_eq(text, expected);
    ck_assert(nats_subject_decode(text, back, sizeof back, &size));
    ck_assert_uint_eq(size, strlen(key));
    ck_assert_mem_eq(back, key, size);
}

START_TEST(bytes_that_mean_something_are_written_otherwise)
{
    assert_subject("user/4-7_a", "user/4-7_a");
    assert_subject("a.b", "a=2Eb");
    assert_subject("*", "=2A");
    assert_subject(">", "=3E");
    assert_subject("a b\n", "a=20b=0A");
    assert_subject("=20", "=3D20");
    assert_subject("\xff\xc3\xbc", "=FF=C3=BC");
}
END_TEST

START_TEST(the_longest_keys_fit)
{
    static char text[NATSKV_MAX_KEY_BYTES + 1];
    char plain[NATSKV_MAX_KEY_BYTES + 1], odd[NATSKV_MAX_KEY_BYTES / 3 + 1];
    memset(plain, 'k', sizeof plain);
    memset(odd, '.', sizeof odd);
    ck_assert(nats_subject_encode(kv_slice(plain, sizeof plain - 1), text, sizeof text));
    ck_assert(!nats_subject_encode(kv_slice(plain, sizeof plain), text, sizeof text));
    ck_assert(nats_subject_encode(kv_slice(odd, sizeof odd - 1), text, sizeof text));
    ck_assert(!nats_subject_encode(kv_slice(odd, sizeof odd), text, sizeof text));
}
END_TEST

START_TEST(what_is_no_key_of_ours_is_refused)
{
    static const char *const bad[] = {"",    "=",    "=2",  "=2g",      "=2e",
                                      "a=",  "a.b",  "*",   ">",        "a b",
                                      "=41", "\xc3", "=2D", "=sweeper", "12345678901234567"};
    uint8_t key[16];
    size_t size;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!nats_subject_decode(bad[i], key, sizeof key, &size), "%s", bad[i]);
}
END_TEST

START_TEST(names_of_buckets)
{
    ck_assert(natskv_bucket_name_valid("a_B-9"));
    ck_assert(!natskv_bucket_name_valid(""));
    ck_assert(!natskv_bucket_name_valid("a.b"));
    ck_assert(!natskv_bucket_name_valid(
        "12345678901234567890123456789012345678901234567890123456789012345"));
}
END_TEST

TEST_SUITE(natskv_subject)
{
    TCase *cases = tcase_create("subject");
    tcase_add_test(cases, bytes_that_mean_something_are_written_otherwise);
    tcase_add_test(cases, the_longest_keys_fit);
    tcase_add_test(cases, what_is_no_key_of_ours_is_refused);
    tcase_add_test(cases, names_of_buckets);
    suite_add_tcase(suite, cases);
}
