#include <stddef.h>
#include <stdlib.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

/* Most of these tests are of messages; reads that need none have suites of their own, which do not
 * look at the environment. With MQKV_DIRECT=map the others read so, too; those fail that count
 * messages or freeze the server. */
int main(void)
{
    setenv("MQKV_DIRECT", "off", 0);
    static const suite_maker makers[] = {
        suite_clientk_batch,        suite_clientk_calls,
        suite_clientk_direct,       suite_clientk_direct_damage,
        suite_clientk_direct_live,  suite_clientk_direct_stopped,
        suite_clientk_linger,       suite_clientk_failures,
        suite_clientk_interruption, suite_clientk_key_set,
        suite_clientk_event_loop,   suite_clientk_pipeline,
        suite_clientk_window,       suite_clientk_scan,
        suite_clientk_session_end,  suite_clientk_sham,
        suite_clientk_threads,      suite_clientk_values,
        suite_clientk_watch,        NULL,
    };
    return run_suites(makers);
}
