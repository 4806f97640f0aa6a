#include "tests/explore/descriptors.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/explore/kernel_calls.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE            __builtin_return_address(0)
#define DESCRIPTORS_MAX 1024

/* The number of the process + 1; 0: of nobody. */
static uint8_t owners[DESCRIPTORS_MAX];

void descriptors_reset(void)
{
    memset(owners, 0, sizeof owners);
    kernel_reset();
}

void descriptors_close(unsigned process)
{
    kernel_end_process(process);
    for (int i = 0; i < DESCRIPTORS_MAX; i++)
        if (owners[i] == process + 1) {
            owners[i] = 0;
            close(i);
        }
}

static int owned(int descriptor)
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
    return owned(open(path, flags, mode));
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
    return owned(openat(directory, path, flags, mode));
}

int explored_shm_open(const char *name, int flags, mode_t mode)
{
    schedule_step(HERE);
    if (machine_runs() && flags & O_CREAT)
        machine_note_shared(name);
    return owned(shm_open(name, flags, mode));
}

int explored_close(int descriptor)
{
    if (machine_has(descriptor))
        return machine_close(descriptor, HERE);
    schedule_step(HERE);
    if (kernel_close(descriptor))
        return 0;
    if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX)
        owners[descriptor] = 0;
    return close(descriptor);
}
