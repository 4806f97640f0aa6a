/*
 * fiber: threads of a program that all run in one thread of the operating system, so that going
 * from one to another costs nanoseconds. Each has a stack, and the thread-local variables of a
 * sleeping thread of its own: the FS register goes with it.
 */
#ifndef MQKV_TESTS_EXPLORE_FIBER_H
#define MQKV_TESTS_EXPLORE_FIBER_H

#include <pthread.h>
#include <stdint.h>

#define FIBERS_MAX        48u
#define FIBER_STACK_BYTES (UINT64_C(512) * 1024)

struct fiber;

/* The fiber that calls it, which has the stack and the variables of the process. */
struct fiber *fiber_of_process(void);

/* The fiber with that number (0 .. FIBERS_MAX - 1), about to call run(argument), which must not
 * return. Its thread-local variables have their first values. */
struct fiber *fiber_prepare(unsigned number, void (*run)(void *), void *argument);

/* Leaves `from`, which calls it, and goes on with `to`. */
void fiber_switch(struct fiber *from, struct fiber *to);

/* What pthread_self gives in it. */
pthread_t fiber_pthread(const struct fiber *fiber);

#endif
