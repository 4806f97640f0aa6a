#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {suite_lab_schedule, suite_lab_cost_estimate,
                                         suite_lab_slots, suite_lab_optimistic, NULL};
    return run_suites(makers);
}
