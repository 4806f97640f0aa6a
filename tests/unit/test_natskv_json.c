/* nats_json: members of JetStream's answers, and whatever else a server may send. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "bridges/cluster/natskv/nats_json.h"
#include "tests/support/test_suite.h"

#define ANSWER                                                                                    \
    "{ \"type\":\"x\", \"error\" : {\"code\":400,\"err_code\":10071,\"description\":\"wrong \\\"" \
    "last\\\" sequence: 4\"},\n\"list\":[1,{\"seq\":7},\"]\"],\"seq\":12,\"yes\":true,"           \
    "\"data\":\"aGk=\" }"

static struct kv_slice text_of(const char *text)
{
    return kv_slice_from_string(text);
}

START_TEST(members_are_found)
{
    uint64_t number;
    struct kv_slice text, answer = text_of(ANSWER), error = nats_json_member(answer, "error");
    ck_assert(nats_json_number(error, "err_code", &number));
    ck_assert_uint_eq(number, 10071);
    ck_assert(nats_json_string(error, "description", &text));
    ck_assert(kv_slice_equal(text, text_of("wrong \\\"last\\\" sequence: 4")));
    ck_assert(nats_json_number(answer, "seq", &number)); /* not that of the list */
    ck_assert_uint_eq(number, 12);
    ck_assert(nats_json_flag(answer, "yes"));
    ck_assert(!nats_json_flag(answer, "seq"));
    ck_assert(!nats_json_number(answer, "type", &number));
    ck_assert(!nats_json_number(answer, "none", &number));
    ck_assert(!nats_json_string(answer, "seq", &text));
}
END_TEST

START_TEST(numbers_that_are_none)
{
    static const char *const bad[] = {"{\"n\":-1}", "{\"n\":1.5}", "{\"n\":99999999999999999999}",
                                      "{\"n\":}",   "{\"n\":",     "{\"n\"",
                                      "{\"n",       "{",           "",
                                      "[1]",        "null",        "{\"n\":\"1\"}"};
    uint64_t number;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!nats_json_number(text_of(bad[i]), "n", &number), "%s", bad[i]);
}
END_TEST

/* Each in memory of its own size, so that a sanitizer sees every byte that is read beyond it. */
static void look_at(const char *text, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    uint8_t bytes[256];
    uint64_t number;
    size_t decoded;
    struct kv_slice found, whole = kv_slice(copy, size);
    memcpy(copy, text, size);
    nats_json_number(nats_json_member(whole, "error"), "err_code", &number);
    nats_json_number(whole, "seq", &number);
    if (nats_json_string(whole, "data", &found))
        nats_json_base64(found, bytes, &decoded);
    free(copy);
}

START_TEST(any_bytes_are_read_to_an_end)
{
    struct random_state state;
    char text[sizeof ANSWER];
    random_seed(&state, 4);
    for (size_t cut = 0; cut < sizeof ANSWER; cut++)
        look_at(ANSWER, cut);
    for (unsigned i = 0; i < 20000; i++) {
        memcpy(text, ANSWER, sizeof ANSWER);
        for (unsigned j = 0; j < 3; j++)
            text[random_below(&state, sizeof ANSWER - 1)] =
                "\"{}[]:,\\ 0a\xff"[random_below(&state, 12)];
        look_at(text, sizeof ANSWER - 1);
    }
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    look_at(deep, sizeof deep);
}
END_TEST

START_TEST(base64_comes_back)
{
    static const struct {
        const char *text, *bytes;
    } good[] = {{"", ""}, {"aA==", "h"}, {"aGk=", "hi"}, {"aGkh", "hi!"}, {"+/8=", "\xfb\xff"}};
    static const char *const bad[] = {"a", "aG", "aGk", "====", "a===", "aG k", "aG=k", "-_8="};
    uint8_t bytes[16];
    size_t size;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert(nats_json_base64(text_of(good[i].text), bytes, &size));
        ck_assert_uint_eq(size, strlen(good[i].bytes));
        ck_assert_mem_eq(bytes, good[i].bytes, size);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!nats_json_base64(text_of(bad[i]), bytes, &size), "%s", bad[i]);
}
END_TEST

TEST_SUITE(natskv_json)
{
    TCase *cases = tcase_create("json");
    tcase_add_test(cases, members_are_found);
    tcase_add_test(cases, numbers_that_are_none);
    tcase_add_test(cases, any_bytes_are_read_to_an_end);
    tcase_add_test(cases, base64_comes_back);
    suite_add_tcase(suite, cases);
}
