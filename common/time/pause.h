/*
 * pause: what a thread does between two looks at something that another CPU is about to change.
 */
#ifndef MQKV_COMMON_TIME_PAUSE_H
#define MQKV_COMMON_TIME_PAUSE_H

/* Some ten nanoseconds in which the CPU does nothing, for the sake of the core's other thread. */
static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

#endif
