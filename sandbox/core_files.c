#include "sandbox/core_files.h"

#include <sys/resource.h>

/* A limit of 1 keeps a core from files, for which it is too small, and from programs too, to which
 * 0 is no limit (core(5)). */
#define NO_CORE 1

void core_files_forbid(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return;
    if (limit.rlim_max > NO_CORE)
        limit.rlim_max = NO_CORE;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
}

void core_files_allow(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
}
