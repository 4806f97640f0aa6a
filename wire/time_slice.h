/*
 * time_slice: how long the scheduler lets a thread run before the others of its CPU have a turn.
 *
 * Who asks for short turns gets them early: Linux (6.12 and later) puts a thread that wakes before
 * one whose turn is long, and the thread's share of the CPU stays the same. That is what a side of
 * a conversation needs where other programs keep the CPUs busy, and it needs no privilege.
 */
#ifndef MQKV_WIRE_TIME_SLICE_H
#define MQKV_WIRE_TIME_SLICE_H

#include <stdbool.h>

/* The shortest that the kernel grants. */
#define TIME_SLICE_SHORT_NS 100000u

/* Asks for short turns of the calling thread, for as long as it lives, and of the threads that it
 * starts from now on. Its policy, nice value and share stay. False: the kernel refuses, or the
 * thread is not scheduled in the usual way (SCHED_OTHER), and is left as it is. Older kernels take
 * the call and change nothing. */
bool time_slice_shorten(void);

#endif
