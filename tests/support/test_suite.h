/*
 * test_suite: a suite of unit tests registers itself where it stands, so that a new one is one
 * file:
 *
 *     TEST_SUITE(wire_wait)
 *     {
 *         TCase *tcase = tcase_create("wait");
 *         tcase_add_test(tcase, ...);
 *         suite_add_tcase(suite, tcase);
 *     }
 *
 * tests/unit/main.c runs all suites that a binary is linked with, in the order of their files.
 */
#ifndef MQKV_TESTS_SUPPORT_TEST_SUITE_H
#define MQKV_TESTS_SUPPORT_TEST_SUITE_H

#include <check.h>

struct test_suite {
    const char *name;
    void (*add_cases)(Suite *suite);
};

/* Defines the suite `suite_name`, which is that of its file, tests/unit/test_<suite_name>.c. The
 * body that follows adds its cases to `suite`. The linker gathers the pointers to all suites. */
#define TEST_SUITE(suite_name)                                                                   \
    static void suite_name##_add_cases(Suite *suite);                                            \
    static const struct test_suite suite_name##_suite = {#suite_name, suite_name##_add_cases};   \
    __attribute__((                                                                              \
        used,                                                                                    \
        section("test_suites"))) static const struct test_suite *const suite_name##_registered = \
        &suite_name##_suite;                                                                     \
    static void suite_name##_add_cases(Suite *suite)

#endif
