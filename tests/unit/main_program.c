/* The suites of clientk/program: linked with its objects but main.o, with libclientk.a, -ledit and
 * -lm. None of them needs a queue or a server. */
#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_program_line,        suite_program_arguments,
        suite_program_output,      suite_program_workload,
        suite_program_dump,        suite_program_json,
        suite_program_command,     suite_program_metrics,
        suite_program_migration,   suite_program_live_records,
        suite_program_line_source, suite_program_diagnosis,
        suite_program_listing,     NULL,
    };
    return run_suites(makers);
}
