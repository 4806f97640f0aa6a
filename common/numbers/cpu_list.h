/*
 * cpu_list: the CPUs that a program is to run on, as `--cpus` says: "0", "0,2", "0-3,6", or "all".
 */
#ifndef MQKV_COMMON_NUMBERS_CPU_LIST_H
#define MQKV_COMMON_NUMBERS_CPU_LIST_H

#include <sched.h>
#include <stdbool.h>

struct cpu_list {
    bool given; /* false: all CPUs; the kernel chooses */
    cpu_set_t cpus;
};

#define CPU_LIST_EXPECTS "all, or CPUs by number: 0, 0,2 or 0-3"

/* Reads a list. False: `text` is none; *list stays as it is. */
bool cpu_list_parse(const char *text, struct cpu_list *list);

/* Binds the calling thread, and the threads that it starts from then on, to the CPUs of *list.
 * False: errno; EINVAL: one of the CPUs is not there, or this process may not use it. */
bool cpu_list_apply(const struct cpu_list *list);

#endif
