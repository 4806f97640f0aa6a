#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_wire_message,    suite_wire_operation, suite_wire_change,  suite_wire_queue_name,
        suite_wire_queue,      suite_wire_identity,  suite_wire_wait,    suite_wire_value_segment,
        suite_wire_reply_ring, suite_wire_timeslice, suite_wire_example, NULL,
    };
    return run_suites(makers);
}
