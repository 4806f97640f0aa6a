#include "tests/bench/instructions.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define RUNNING_ON_VALGRIND               0
#define CALLGRIND_START_INSTRUMENTATION   ((void)0)
#define CALLGRIND_STOP_INSTRUMENTATION    ((void)0)
#define CALLGRIND_ZERO_STATS              ((void)0)
#define CALLGRIND_DUMP_STATS_AT(position) ((void)(position))
#endif

static enum instructions_source source;
static int counter_fd = -1;

enum instructions_source instructions_open(void)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof attributes,
        .config = PERF_COUNT_HW_INSTRUCTIONS,
        .disabled = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    source = INSTRUCTIONS_NONE;
    if (RUNNING_ON_VALGRIND)
        return source = INSTRUCTIONS_CALLGRIND;
    counter_fd = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (counter_fd >= 0)
        source = INSTRUCTIONS_CPU;
    return source;
}

void instructions_close(void)
{
    if (counter_fd >= 0)
        close(counter_fd);
    counter_fd = -1;
}

void instructions_begin(void)
{
    if (source == INSTRUCTIONS_CALLGRIND) {
        CALLGRIND_START_INSTRUMENTATION;
        CALLGRIND_ZERO_STATS;
    } else if (source == INSTRUCTIONS_CPU) {
        ioctl(counter_fd, PERF_EVENT_IOC_RESET, 0);
        ioctl(counter_fd, PERF_EVENT_IOC_ENABLE, 0);
    }
}

uint64_t instructions_end(const char *name)
{
    uint64_t count = 0;
    if (source == INSTRUCTIONS_CALLGRIND) {
        CALLGRIND_DUMP_STATS_AT(name);
        CALLGRIND_STOP_INSTRUMENTATION;
    } else if (source == INSTRUCTIONS_CPU) {
        ioctl(counter_fd, PERF_EVENT_IOC_DISABLE, 0);
        if (read(counter_fd, &count, sizeof count) != sizeof count)
            count = 0;
    }
    return count;
}
