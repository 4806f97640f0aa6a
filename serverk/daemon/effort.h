/*
 * effort: whether this process has done anything since somebody last looked: used CPU time, or
 * moved data to or from the disk. Tells work that takes long from threads that hang.
 */
#ifndef MQKV_SERVERK_DAEMON_EFFORT_H
#define MQKV_SERVERK_DAEMON_EFFORT_H

#include <stdbool.h>
#include <stdint.h>

/* What had been used at the last look; zeroed before the first. */
struct effort {
    int64_t cpu_us;
    int64_t transfers; /* blocks read and written, and pages that were read for a mapping */
};

/* Looks once. True: all threads together used more of either since the look before. The little that
 * is used by threads which wake up now and then does not count. */
bool effort_look(struct effort *effort);

#endif
