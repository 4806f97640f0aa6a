/* queue_name: what is formed is parsed back, and nothing else is. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_suite.h"
#include "wire/queue_name.h"

START_TEST(valid_names)
{
    ck_assert(wire_name_valid("/serverk"));
    ck_assert(wire_name_valid("/a"));
    ck_assert(wire_name_valid("/A-Z_0.9"));
    ck_assert(wire_name_valid("/...")); /* an ordinary name, unlike the two directories */
    char name[80];
    snprintf(name, sizeof name, "/%064d", 0);
    ck_assert(wire_name_valid(name));
}
END_TEST

START_TEST(invalid_names)
{
    static const char *const names[] = {
        "",     "/",         "serverk", "//a",    "/a/b", "/../a", "/.",  "/..",   "/a b", "/a\n",
        "/a%s", "/\xc3\xa4", "/a*",     "/a\x01", "/a:b", "/a+b",  " /a", "a/b/c", "/a\\",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(!wire_name_valid(names[i]), "\"%s\"", names[i]);
    char name[80];
    snprintf(name, sizeof name, "/%065d", 0);
    ck_assert(!wire_name_valid(name));
}
END_TEST

START_TEST(names_are_formed_as_documented)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, "/q", WIRE_LANE, 7, 0);
    ck_assert_str_eq(name, "/q");
    wire_queue_name(name, "/q", WIRE_LANE, 7, 3);
    ck_assert_str_eq(name, "/q.l3");
    wire_queue_name(name, "/q", WIRE_BULK_LANE, 7, 0);
    ck_assert_str_eq(name, "/q.b0");
    wire_queue_name(name, "/q", WIRE_LOCK, 7, 3);
    ck_assert_str_eq(name, "/q.lock");
    wire_queue_name(name, "/q", WIRE_REPLY_QUEUE, 4711, 2);
    ck_assert_str_eq(name, "/q.c4711.2");
    wire_queue_name(name, "/q", WIRE_REPLY_SEGMENT, 4711, 0);
    ck_assert_str_eq(name, "/q.s4711.0");
    wire_queue_name(name, "/q", WIRE_REPLY_RING, 4711, 0);
    ck_assert_str_eq(name, "/q.r4711.0");
}
END_TEST

START_TEST(formed_names_parse_back)
{
    char base[WIRE_BASE_NAME_MAX_CHARS + 2], name[WIRE_QUEUE_NAME_BYTES];
    snprintf(base, sizeof base, "/%064d", 0); /* the longest there is */
    static const unsigned numbers[] = {0, 1, 9, 10, 4294967295u};
    for (unsigned role = WIRE_LANE; role <= WIRE_REPLY_RING; role++) {
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            pid_t pid = -1;
            bool with_pid = role >= WIRE_REPLY_QUEUE;
            wire_queue_name(name, base, (enum wire_queue_role)role, 2147483647, numbers[i]);
            ck_assert_uint_lt(strlen(name), WIRE_QUEUE_NAME_BYTES - 1);
            for (unsigned other = WIRE_LANE; other <= WIRE_REPLY_RING; other++)
                ck_assert_int_eq(wire_queue_name_parse(name, strlen(name), base,
                                                       (enum wire_queue_role)other, &pid),
                                 other == role);
            ck_assert_int_eq(pid, with_pid ? 2147483647 : 0);
            for (size_t cut = 1; cut < strlen(name) && role == WIRE_LOCK; cut++)
                ck_assert(!wire_queue_name_parse(name, strlen(name) - cut, base, WIRE_LOCK, NULL));
        }
    }
}
END_TEST

START_TEST(hostile_names_are_refused)
{
    static const char *const names[] = {
        "",
        "/q",
        "/q.c",
        "/q.c1",
        "/q.c1.",
        "/q.c.1",
        "/q.c0.1",  /* no process has this pid */
        "/q.c01.1", /* would be a second name for the same */
        "/q.c1.01",
        "/q.c-1.1",
        "/q.c+1.1",
        "/q.c 1.1",
        "/q.c1.1 ",
        "/q.c1.1/../../etc",
        "/q.c1.1x",
        "/q.c2147483648.1", /* beyond pid_t */
        "/q.c1.4294967296",
        "/q.c18446744073709551617.1", /* wraps to 1 in 64 bits */
        "/q.d1.1",
        "/q-c1.1",
        "/r.c1.1",
        "/qq.c1.1",
        "q.c1.1",
        "/q.lock",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(
            !wire_queue_name_parse(names[i], strlen(names[i]), "/q", WIRE_REPLY_QUEUE, NULL),
            "\"%s\"", names[i]);
    ck_assert(wire_queue_name_parse("/q.c1.1", 7, "/q", WIRE_REPLY_QUEUE, NULL));
    ck_assert(!wire_queue_name_parse("/q.c1.1", 8, "/q", WIRE_REPLY_QUEUE, NULL)); /* a NUL in it */
    char huge[4096];
    memset(huge, '1', sizeof huge);
    memcpy(huge, "/q.c1.", 6);
    ck_assert(!wire_queue_name_parse(huge, sizeof huge, "/q", WIRE_REPLY_QUEUE, NULL));
    ck_assert(!wire_queue_name_parse("/q.l0", 5, "/q", WIRE_LANE, NULL)); /* lane 0 is "/q" */
}
END_TEST

TEST_SUITE(wire_queue_name)
{
    TCase *names = tcase_create("names");
    tcase_add_test(names, valid_names);
    tcase_add_test(names, invalid_names);
    tcase_add_test(names, names_are_formed_as_documented);
    tcase_add_test(names, formed_names_parse_back);
    tcase_add_test(names, hostile_names_are_refused);
    suite_add_tcase(suite, names);
}
