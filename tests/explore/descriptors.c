#include "tests/explore/descriptors.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/message_queues.h"
#include "tests/explore/seeded_schedule.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE __builtin_return_address(0)

/* The number of the process + 1; 0: of nobody. */
static uint8_t owners[DESCRIPTORS_MAX];

static bool timers[DESCRIPTORS_MAX]; /* they are set */

void descriptors_reset(void)
{
    memset(owners, 0, sizeof owners);
    memset(timers, 0, sizeof timers);
    message_queues_reset();
}

void descriptors_close(unsigned process)
{
    for (int i = 0; i < DESCRIPTORS_MAX; i++)
        if (owners[i] == process + 1) {
            owners[i] = 0;
            message_queues_forget(i, process);
            close(i);
        }
    message_queues_end_process(process);
}

int explored_timerfd_settime(int timer, int flags, const struct itimerspec *time,
                             struct itimerspec *before)
{
    (void)flags, (void)before;
    schedule_step(HERE);
    timers[timer] = time->it_value.tv_sec != 0 || time->it_value.tv_nsec != 0;
    return 0;
}

bool explore_timer_runs(int timer)
{
    return timers[timer];
}

int descriptors_own(int descriptor)
{
    if (schedule_is_running() && descriptor >= 0 && descriptor < DESCRIPTORS_MAX)
        owners[descriptor] = (uint8_t)(schedule_process() + 1);
    return descriptor;
}

int explored_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    int machines;
    if (machine_runs() && machine_openat(AT_FDCWD, path, flags, mode, &machines, HERE))
        return machines;
    schedule_step(HERE);
    return descriptors_own(open(path, flags, mode));
}

int explored_openat(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    int machines;
    if (machine_runs() && machine_openat(directory, path, flags, mode, &machines, HERE))
        return machines;
    schedule_step(HERE);
    return descriptors_own(openat(directory, path, flags, mode));
}

int explored_shm_open(const char *name, int flags, mode_t mode)
{
    schedule_step(HERE);
    if (machine_runs() && flags & O_CREAT)
        machine_note_shared(name);
    return descriptors_own(shm_open(name, flags, mode));
}

int explored_close(int descriptor)
{
    if (machine_has(descriptor))
        return machine_close(descriptor, HERE);
    schedule_step(HERE);
    if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX) {
        message_queues_forget(descriptor, schedule_process());
        owners[descriptor] = 0;
    }
    return close(descriptor);
}
