#include "common/time/clock.h"

#include <errno.h>

struct timespec clock_time_after_ms(clockid_t clock, uint64_t ms)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += (time_t)(ms / 1000);
    time.tv_nsec += (long)(ms % 1000) * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

void clock_sleep_ms(uint64_t ms)
{
    const struct timespec until = clock_time_after_ms(CLOCK_MONOTONIC, ms);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
