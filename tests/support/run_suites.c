#include "tests/support/run_suites.h"

#include <stddef.h>

int run_suites(const suite_maker *makers)
{
    SRunner *runner = srunner_create(NULL);
    for (; *makers; makers++)
        srunner_add_suite(runner, (*makers)());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
