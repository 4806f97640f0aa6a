#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {suite_mirror_state, suite_mirror_copy_page, NULL};
    return run_suites(makers);
}
