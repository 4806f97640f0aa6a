#include <check.h>
#include <errno.h>
#include <string.h>

#include "common/report/error.h"
#include "tests/support/test_suite.h"

START_TEST(set_formats_and_returns_the_status)
{
    struct kv_error error = {0};
    ck_assert_int_eq(kv_error_set(&error, KV_BUSY, "owned by pid %d", 42), KV_BUSY);
    ck_assert_int_eq(error.status, KV_BUSY);
    ck_assert_str_eq(error.text, "owned by pid 42");
}
END_TEST

START_TEST(without_an_error_only_the_status_is_returned)
{
    errno = ENOSPC;
    ck_assert_int_eq(kv_error_set(NULL, KV_BUSY, "owned"), KV_BUSY);
    ck_assert_int_eq(kv_error_set_errno(NULL, "file"), KV_NO_SPACE);
    ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

START_TEST(set_errno_takes_status_and_reason_from_errno)
{
    struct kv_error error = {0};
    errno = EACCES;
    ck_assert_int_eq(kv_error_set_errno(&error, "open %s", "/x"), KV_DENIED);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_eq(error.status, KV_DENIED);
    ck_assert_str_eq(error.text, "open /x: Permission denied");
}
END_TEST

START_TEST(a_limit_is_named_with_what_raises_it)
{
    struct kv_error error = {0};
    errno = EMFILE;
    ck_assert_int_eq(kv_error_set_errno(&error, "open x"), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "ulimit -n"));
    ck_assert_int_eq(kv_error_set_no_thread(&error, EAGAIN, "thread %d", 7), KV_LIMIT);
    ck_assert_int_eq(error.status, KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "thread 7: Resource temporarily unavailable (raise"));
    ck_assert_ptr_nonnull(strstr(error.text, "ulimit -u"));
    ck_assert_int_eq(kv_error_set_no_thread(NULL, EAGAIN, "thread"), KV_LIMIT);
}
END_TEST

/* What a sentence repeats may be somebody else's. */
START_TEST(a_sentence_does_not_command_a_terminal)
{
    struct kv_error error = {0};
    kv_error_set(&error, KV_IO, "option --%s", "caf\u00e9");
    ck_assert_str_eq(error.text, "option --caf\u00e9");
    kv_error_set(&error, KV_IO, "option --%s.", "\x1b[31m\n\x7f");
    ck_assert_str_eq(error.text, "option --?[31m??.");
    kv_error_set(&error, KV_IO, "option --%s.",
                 "\xc2\x9b"
                 "31m");
    ck_assert_str_eq(error.text, "option --??31m.");
    errno = EIO;
    kv_error_set_errno(&error, "file %s", "\x07");
    ck_assert_str_eq(error.text, "file ?: Input/output error");
}
END_TEST

START_TEST(a_long_sentence_is_cut_with_dots)
{
    char sentence[KV_ERROR_TEXT_BYTES + 1] = {0};
    struct kv_error error = {0};

    memset(sentence, 'x', KV_ERROR_TEXT_BYTES - 1);
    kv_error_set(&error, KV_IO, "%s", sentence);
    ck_assert_str_eq(error.text, sentence);

    sentence[KV_ERROR_TEXT_BYTES - 1] = 'x';
    kv_error_set(&error, KV_IO, "%s", sentence);
    ck_assert_uint_eq(strlen(error.text), KV_ERROR_TEXT_BYTES - 1);
    ck_assert_str_eq(error.text + KV_ERROR_TEXT_BYTES - 5, "x...");
}
END_TEST

/* For every length of sentence around the limit: the end is either the whole reason or dots. */
START_TEST(a_reason_that_does_not_fit_is_cut_with_dots)
{
    char sentence[KV_ERROR_TEXT_BYTES + 4];
    for (size_t size = KV_ERROR_TEXT_BYTES - 16; size < sizeof sentence; size++) {
        memset(sentence, 'x', size);
        sentence[size] = '\0';
        struct kv_error error = {0};
        errno = EIO;
        kv_error_set_errno(&error, "%s", sentence);
        ck_assert_uint_eq(strlen(error.text), KV_ERROR_TEXT_BYTES - 1);
        ck_assert_str_eq(error.text + KV_ERROR_TEXT_BYTES - 4, "...");
    }
}
END_TEST

START_TEST(the_old_text_may_be_part_of_the_new)
{
    struct kv_error error = {0};
    kv_error_set(&error, KV_CORRUPT, "bad checksum");
    kv_error_set(&error, error.status, "file 3: %s", error.text);
    ck_assert_int_eq(error.status, KV_CORRUPT);
    ck_assert_str_eq(error.text, "file 3: bad checksum");
}
END_TEST

TEST_SUITE(common_error)
{
    TCase *tests = tcase_create("error");
    tcase_add_test(tests, set_formats_and_returns_the_status);
    tcase_add_test(tests, without_an_error_only_the_status_is_returned);
    tcase_add_test(tests, set_errno_takes_status_and_reason_from_errno);
    tcase_add_test(tests, a_limit_is_named_with_what_raises_it);
    tcase_add_test(tests, a_sentence_does_not_command_a_terminal);
    tcase_add_test(tests, a_long_sentence_is_cut_with_dots);
    tcase_add_test(tests, a_reason_that_does_not_fit_is_cut_with_dots);
    tcase_add_test(tests, the_old_text_may_be_part_of_the_new);
    suite_add_tcase(suite, tests);
}
