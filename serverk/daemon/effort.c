#include "serverk/daemon/effort.h"

#include <sys/resource.h>

/* Less than this from one look to the next is what timers take in a process that hangs. */
#define LEAST_CPU_US 5000

static int64_t microseconds(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

bool effort_look(struct effort *effort)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return false;
    const struct effort before = *effort;
    effort->cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    effort->transfers = usage.ru_inblock + usage.ru_oublock + usage.ru_majflt;
    return effort->cpu_us - before.cpu_us >= LEAST_CPU_US || effort->transfers > before.transfers;
}
