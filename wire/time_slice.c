#include "wire/time_slice.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of sched_setattr(2), in its first version. The C library has neither the struct
 * nor the call. */
struct slice_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns; /* slice_ns: sched_runtime */
};
_Static_assert(sizeof(struct slice_attributes) == 48, "SCHED_ATTR_SIZE_VER0 of the kernel");

bool time_slice_shorten(void)
{
    struct slice_attributes attributes = {.size = sizeof attributes};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
        attributes.policy != SCHED_OTHER)
        return false;
    attributes.slice_ns = TIME_SLICE_SHORT_NS;
    return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}
