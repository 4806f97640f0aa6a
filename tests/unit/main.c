/* The program of every room's unit tests (unit_<room>): runs the suites that it is linked with as
 * one run, whose summary tests/run reads. With the argument --suites it prints their names, one a
 * line; CK_RUN_SUITE runs one of them. Check's other environment variables apply: CK_RUN_CASE,
 * CK_FORK=no under a debugger. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_suite.h"

/* The linker's names for the ends of that section. */
extern const struct test_suite *const __start_test_suites[]; /* NOLINT */
extern const struct test_suite *const __stop_test_suites[];  /* NOLINT */

static void print_names(void)
{
    for (const struct test_suite *const *suite = __start_test_suites; suite < __stop_test_suites;
         suite++)
        puts((*suite)->name);
}

static int run_suites(void)
{
    SRunner *runner = srunner_create(NULL);
    for (const struct test_suite *const *suite = __start_test_suites; suite < __stop_test_suites;
         suite++) {
        Suite *cases = suite_create((*suite)->name);
        (*suite)->add_cases(cases);
        srunner_add_suite(runner, cases);
    }
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    /* Most of these tests are of messages; reads that need none have suites of their own, which do
     * not look at the environment. With MQKV_DIRECT=map the others read so, too; those fail that
     * count messages or freeze the server. */
    setenv("MQKV_DIRECT", "off", 0);
    if (argc == 2 && strcmp(argv[1], "--suites") == 0) {
        print_names();
        return EXIT_SUCCESS;
    }
    return run_suites();
}
