/*
 * kernel_calls: message queues, events, timers, epoll, pidfds and record locks of a schedule, in
 * place of the kernel's. Descriptors of these begin at KERNEL_FIRST_DESCRIPTOR, beyond all that the
 * kernel gives. What a process has open goes when it is killed.
 */
#ifndef MQKV_TESTS_EXPLORE_KERNEL_CALLS_H
#define MQKV_TESTS_EXPLORE_KERNEL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define KERNEL_FIRST_DESCRIPTOR 100000

void kernel_reset(void);

/* The process is no more: its descriptors are closed, its locks gone, its pidfds readable. */
void kernel_end_process(unsigned process);

/* When the next timer that is set is due, in the clock of the schedule; UINT64_MAX: never. */
uint64_t kernel_next_timer_ns(void);

/* Adds to the text what waits in queues and events. */
void kernel_describe(char *text, size_t size);

/* False: the descriptor is the real kernel's. */
bool kernel_close(int descriptor);

/* As the C library's, of any descriptor but a machine's. */
int kernel_fstat(int descriptor, struct stat *facts);
int kernel_fchmod(int descriptor, mode_t mode);
int kernel_fchown(int descriptor, uid_t uid, gid_t gid);

/* Whether processes have numbers of their own (explore_simulate_processes), and what pidfd_open
 * gives then. */
bool kernel_has_processes(void);
int kernel_open_pidfd(pid_t pid);

#endif
