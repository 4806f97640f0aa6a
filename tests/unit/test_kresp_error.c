/* What Redis' clients are told of the store's failures: they decide by the first word. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/session/redis_error.h"
#include "tests/support/test_suite.h"

static struct resp_reply reply;

static void free_reply(void)
{
    byte_buffer_free(&reply.bytes);
    reply = (struct resp_reply){0};
}

/* The error without "-" and the end of the line. */
static const char *error_of(enum kv_status status)
{
    static char text[256];
    reply_status(&reply, status);
    struct kv_slice written = byte_buffer_slice(&reply.bytes);
    ck_assert_uint_lt(written.size, sizeof text);
    snprintf(text, sizeof text, "%.*s", (int)written.size, (const char *)written.data);
    byte_buffer_consume(&reply.bytes, written.size);
    ck_assert_uint_gt(strlen(text), 3);
    ck_assert_int_eq(text[0], '-');
    char *end = strstr(text, "\r\n");
    ck_assert_ptr_nonnull(end);
    ck_assert_str_eq(end, "\r\n");
    *end = '\0';
    return text + 1;
}

static void check_first_word(enum kv_status status, const char *word)
{
    const char *text = error_of(status);
    size_t size = strlen(word);
    ck_assert_msg(strncmp(text, word, size) == 0 && text[size] == ' ', "status %d: %s, expected %s",
                  status, text, word);
}

START_TEST(the_first_word_tells_what_may_be_tried)
{
    static const struct {
        enum kv_status status;
        const char *word;
    } told[] = {
        {KV_NO_SPACE, "OOM"},       {KV_FULL, "OOM"},         {KV_QUOTA, "OOM"},
        {KV_READ_ONLY, "READONLY"}, {KV_OVERLOADED, "BUSY"},  {KV_BUSY, "BUSY"},
        {KV_NO_SERVER, "LOADING"},  {KV_DEADLINE, "LOADING"}, {KV_DENIED, "NOPERM"},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        check_first_word(told[i].status, told[i].word);
}
END_TEST

/* LOADING makes clients send it again: a write that may have been executed must not say so. */
START_TEST(an_unknown_outcome_is_not_to_be_tried_again)
{
    ck_assert_ptr_nonnull(strstr(error_of(KV_TIMEOUT), "outcome unknown"));
    ck_assert_ptr_nonnull(strstr(error_of(KV_OUTCOME_UNKNOWN), "outcome unknown"));
    check_first_word(KV_TIMEOUT, "ERR");
    check_first_word(KV_OUTCOME_UNKNOWN, "ERR");
}
END_TEST

START_TEST(errors_of_redis_have_its_words)
{
    ck_assert_str_eq(error_of(KV_NOT_A_NUMBER), "ERR value is not an integer or out of range");
    ck_assert_str_eq(error_of(KV_OUT_OF_BOUNDS), "ERR increment or decrement would overflow");
    ck_assert_str_eq(error_of(KV_VALUE_TOO_BIG),
                     "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
}
END_TEST

START_TEST(each_status_is_one_line_that_names_itself)
{
    for (int status = KV_OK + 1; status < KV_STATUS_COUNT; status++) {
        const char *text = error_of((enum kv_status)status);
        ck_assert_msg(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= 3, "status %d: %s", status,
                      text);
    }
}
END_TEST

TEST_SUITE(kresp_error)
{
    TCase *tcase = tcase_create("of the store");
    tcase_add_checked_fixture(tcase, NULL, free_reply);
    tcase_add_test(tcase, the_first_word_tells_what_may_be_tried);
    tcase_add_test(tcase, an_unknown_outcome_is_not_to_be_tried_again);
    tcase_add_test(tcase, errors_of_redis_have_its_words);
    tcase_add_test(tcase, each_status_is_one_line_that_names_itself);
    suite_add_tcase(suite, tcase);
}
