#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_clientk_batch,        suite_clientk_calls,
        suite_clientk_direct,       suite_clientk_direct_live,
        suite_clientk_linger,       suite_clientk_failures,
        suite_clientk_interruption, suite_clientk_key_set,
        suite_clientk_event_loop,   suite_clientk_pipeline,
        suite_clientk_window,       suite_clientk_scan,
        suite_clientk_sham,         suite_clientk_threads,
        suite_clientk_values,       NULL,
    };
    return run_suites(makers);
}
