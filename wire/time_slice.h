/*
 * time_slice: how long the scheduler lets a thread run before other threads of its CPU run.
 *
 * A thread with short slices runs soon after it was woken: Linux (6.12 and later) places it before
 * threads whose slices are long, and its share of the CPU stays the same. Client and server need
 * that where other programs keep the CPUs busy, and it needs no privilege.
 */
#ifndef MQKV_WIRE_TIME_SLICE_H
#define MQKV_WIRE_TIME_SLICE_H

#include <stdbool.h>

/* The shortest slice that the kernel grants. */
#define TIME_SLICE_SHORT_NS 100000u

/* Asks for short slices for the calling thread, for as long as it lives, and for the threads that
 * it starts from now on. Its policy, nice value and share stay. Returns false if the kernel
 * refuses, or if the thread is not scheduled in the usual way (SCHED_OTHER); then nothing changes.
 * Older kernels accept the call and change nothing. */
bool time_slice_shorten(void);

#endif
