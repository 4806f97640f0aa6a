#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_serverk_lane_plan,   suite_serverk_option_file, suite_serverk_options,
        suite_serverk_lanes,       suite_serverk_aside,       suite_serverk_parking,
        suite_serverk_start_guard, suite_serverk_session,     suite_serverk_fragments,
        suite_serverk_overload,    suite_serverk_receiver,    suite_serverk_worker,
        suite_serverk_large,       suite_serverk_commit,      suite_serverk_farewell,
        suite_serverk_stats_json,  suite_serverk_sandbox,     suite_serverk_allowance,
        suite_serverk_shares,      suite_serverk_watchdog,    suite_serverk_watchers,
        suite_serverk_audit,       suite_serverk_orphans,     NULL,
    };
    return run_suites(makers);
}
