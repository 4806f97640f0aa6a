#ifndef MQKV_TESTS_MESSAGE_QUEUES_H
#define MQKV_TESTS_MESSAGE_QUEUES_H

#include <stdbool.h>
#include <sys/types.h>

/* A schedule begins, or has ended: nothing is left of the one before. */
void message_queues_reset(void);

/* The process closes the descriptor, which is open still. */
void message_queues_forget(int descriptor, unsigned process);

/* The process has ended: its locks are free, and its pidfds readable. */
void message_queues_end_process(unsigned process);

/* Whether a lock's owner of that pid is a process of the schedule; and a pidfd of it. */
bool message_queues_has_pid(pid_t pid);
int message_queues_open_pidfd(pid_t pid);

#endif
