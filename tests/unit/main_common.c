#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_common_assert,
        suite_common_status,
        suite_common_slice,
        suite_common_error,
        suite_common_option_table,
        suite_common_parse,
        suite_common_escape,
        suite_common_cursor,
        suite_common_copy,
        suite_common_histogram,
        suite_common_random,
        suite_common_clock,
        suite_common_log,
        suite_common_mapguard,
        suite_common_delay,
        suite_common_written_file,
        NULL,
    };
    return run_suites(makers);
}
