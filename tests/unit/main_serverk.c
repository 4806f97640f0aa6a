#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_serverk_options,     suite_serverk_lanes,    suite_serverk_crew,
        suite_serverk_start_guard, suite_serverk_schedule, suite_serverk_session,
        suite_serverk_transfer,    suite_serverk_worker,   suite_serverk_large,
        suite_serverk_commit,      suite_serverk_farewell, suite_serverk_report,
        suite_serverk_vacancies,   suite_serverk_work,     suite_serverk_sandbox,
        suite_serverk_allowance,   suite_serverk_shares,   NULL,
    };
    return run_suites(makers);
}
