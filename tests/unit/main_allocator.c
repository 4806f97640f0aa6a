#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_allocator_freelist,
        suite_allocator_calls,
        suite_allocator_threads,
        NULL,
    };
    return run_suites(makers);
}
