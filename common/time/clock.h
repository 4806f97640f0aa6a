/*
 * clock: the clocks of mqkv. None can fail, and all but the thread's own are cheap (vDSO or a
 * register).
 */
#ifndef MQKV_COMMON_TIME_CLOCK_H
#define MQKV_COMMON_TIME_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC: durations, deadlines. */
static inline uint64_t clock_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Milliseconds of CLOCK_MONOTONIC_COARSE: a tick old at worst (4 ms), a few ns to read. */
static inline uint64_t clock_monotonic_coarse_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Milliseconds since 1970 (CLOCK_REALTIME): expiry times, which outlive a reboot. */
static inline uint64_t clock_realtime_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Nanoseconds of CPU time that the thread has had: a system call. */
static inline uint64_t clock_thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns the time of `clock` in `ms` milliseconds. */
struct timespec clock_time_after_ms(clockid_t clock, uint64_t ms);

/* Sleeps for `ms` milliseconds; a signal does not cut it short. */
void clock_sleep_ms(uint64_t ms);

#endif
