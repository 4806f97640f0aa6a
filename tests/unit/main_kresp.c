/* The suites of kresp: linked with its objects but the one with main, and with libclientk.a. None
 * of them needs a queue or a server. */
#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_kresp_request,
        suite_kresp_reply,
        suite_kresp_decimal,
        suite_kresp_glob,
        suite_kresp_buffer,
        suite_kresp_scripts,
        suite_kresp_shares,
        suite_kresp_transaction,
        suite_kresp_steps,
        suite_kresp_connection,
        suite_kresp_error,
        suite_kresp_sandbox,
        NULL,
    };
    return run_suites(makers);
}
