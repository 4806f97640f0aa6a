/*
 * cpu_list: the CPUs that a program is to run on, as `--cpus` says: "0", "0,2", "0-3,6", or "all".
 */
#ifndef MQKV_COMMON_NUMBERS_CPU_LIST_H
#define MQKV_COMMON_NUMBERS_CPU_LIST_H

#include <sched.h>
#include <stdbool.h>

struct cpu_list {
    bool given; /* false: all, wherever the kernel sees fit */
    cpu_set_t cpus;
};

#define CPU_LIST_EXPECTS "all, or CPUs by number: 0, 0,2 or 0-3"

/* False: it is no such list; *list is left alone. */
bool cpu_list_parse(const char *text, struct cpu_list *list);

/* Binds the calling thread, and those that it starts from then on. False: errno; EINVAL: one of the
 * CPUs is not there, or this process may not use it. */
bool cpu_list_apply(const struct cpu_list *list);

#endif
