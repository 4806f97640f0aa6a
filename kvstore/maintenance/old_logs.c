#include "kvstore/maintenance/old_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "kvstore/log/fileio.h"
#include "kvstore/maintenance/holds.h"

#define GRACE_NS UINT64_C(100000000)

/* How long after a look that found a hold the compactor looks again. */
#define HOLD_LOOK_NS UINT64_C(1000000000)

/* Frees the blocks of the oldest log, unless they are held, and drops it. A file that has a name
 * still is somebody's copy. */
static void clear_first(struct old_logs *logs, bool held)
{
    KV_ASSERT(logs->count > 0 && logs->count <= OLD_LOGS_MAX);
    int fd = logs->waiting[0].fd;
    struct stat facts;
    if (!held && fstat(fd, &facts) == 0 && facts.st_nlink == 0 && facts.st_size > 0)
        fileio->punch(fd, facts.st_size);
    close(fd);
    logs->count--;
    for (unsigned i = 0; i < logs->count; i++)
        logs->waiting[i] = logs->waiting[i + 1];
}

void old_logs_add(struct old_logs *logs, const struct logfile *log)
{
    int fd = fcntl(log->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) /* then its space comes back with the last mapping */
        return;
    if (logs->count == OLD_LOGS_MAX)
        clear_first(logs, holds_any(logs->holds));
    logs->waiting[logs->count].fd = fd;
    logs->waiting[logs->count++].due_ns = clock_monotonic_ns() + GRACE_NS;
}

uint64_t old_logs_due_ns(const struct old_logs *logs)
{
    return logs->count > 0 ? logs->waiting[0].due_ns : UINT64_MAX;
}

uint64_t old_logs_last_due_ns(const struct old_logs *logs)
{
    return logs->count > 0 ? logs->waiting[logs->count - 1].due_ns : 0;
}

void old_logs_clear(struct old_logs *logs)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (old_logs_due_ns(logs) > now_ns)
        return;
    if (holds_any(logs->holds)) {
        logs->waiting[0].due_ns = now_ns + HOLD_LOOK_NS;
        return;
    }
    while (old_logs_due_ns(logs) <= now_ns)
        clear_first(logs, false);
}

void old_logs_clear_all(struct old_logs *logs)
{
    while (logs->count > 0)
        clear_first(logs, holds_any(logs->holds));
}
