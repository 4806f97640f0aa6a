/* explore removes directories that its store's harnesses leave behind; those of labs make none. */
#include "tests/explore/explored_store.h"

void explore_remove_directories(pid_t process)
{
    (void)process;
}

void explore_remove_stale_directories(void)
{
}
