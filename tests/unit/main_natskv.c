#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {suite_natskv_subject, suite_natskv_json,
                                         suite_natskv_rewrite, suite_natskv_sweep,
                                         suite_natskv_walk,    NULL};
    return run_suites(makers);
}
