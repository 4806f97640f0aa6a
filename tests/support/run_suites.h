/*
 * run_suites: the body of the main function of every unit test binary.
 */
#ifndef MQKV_TESTS_SUPPORT_RUN_SUITES_H
#define MQKV_TESTS_SUPPORT_RUN_SUITES_H

#include <check.h>

typedef Suite *(*suite_maker)(void);

/* Runs the suites (the list ends with NULL) as one run, whose summary tests/run reads. Check's
 * environment variables apply: CK_RUN_SUITE, CK_RUN_CASE, CK_FORK=no under a debugger. Returns the
 * exit status: 0 if every check passed, else 1. */
int run_suites(const suite_maker *makers);

#endif
