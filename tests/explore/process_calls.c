/* Processes and users: who they are, signals to their threads, and the pidfds that show their end.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/fiber.h"
#include "tests/explore/kernel_objects.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define FIRST_PID 1000000 /* of process 0, where processes have numbers of their own */

static struct {
    bool are_simulated; /* explore_simulate_processes */
    bool has_uid[SCHEDULE_MAX_PROCESSES];
    uid_t uids[SCHEDULE_MAX_PROCESSES];
    bool has_ended[SCHEDULE_MAX_PROCESSES];
    bool is_signalled[FIBERS_MAX];
} processes;

static uint32_t pidfd_ready(const struct object *object)
{
    return processes.has_ended[object->process] ? EPOLLIN : 0;
}

static const struct object_kind pidfd_kind = {.ready = pidfd_ready};

void kernel_processes_reset(void)
{
    memset(&processes, 0, sizeof processes);
}

void kernel_note_ended(unsigned process)
{
    processes.has_ended[process] = true;
}

bool kernel_is_signalled(unsigned thread)
{
    return processes.is_signalled[thread];
}

void kernel_set_signalled(unsigned thread, bool is_signalled)
{
    processes.is_signalled[thread] = is_signalled;
}

void explore_simulate_processes(void)
{
    processes.are_simulated = true;
}

void explore_set_uid(unsigned process, uid_t uid)
{
    processes.has_uid[process] = true;
    processes.uids[process] = uid;
}

pid_t explore_pid(unsigned process)
{
    return FIRST_PID + (pid_t)process;
}

void explore_exit(void)
{
    kernel_end_process(schedule_process());
}

pid_t explored_getpid(void)
{
    return schedule_is_running() && processes.are_simulated ? explore_pid(schedule_process())
                                                            : getpid();
}

uid_t explored_geteuid(void)
{
    return schedule_is_running() && processes.has_uid[schedule_process()]
               ? processes.uids[schedule_process()]
               : geteuid();
}

bool kernel_has_processes(void)
{
    return processes.are_simulated;
}

int kernel_open_pidfd(pid_t pid)
{
    unsigned process = (unsigned)(pid - FIRST_PID);
    if (process >= SCHEDULE_MAX_PROCESSES || processes.has_ended[process]) {
        errno = ESRCH;
        return -1;
    }
    struct object *object = kernel_new_object(&pidfd_kind);
    object->process = process;
    return kernel_open_object(object, false, true, false);
}

int explored_kill(pid_t pid, int number)
{
    (void)pid;
    schedule_fail("the code sends itself signal %d", number);
}

/* Interrupts a receive that blocks. */
int explored_pthread_kill(pthread_t thread, int number)
{
    (void)number;
    kernel_enter(HERE);
    processes.is_signalled[schedule_thread_of(thread)] = true;
    schedule_note_wake();
    return 0;
}

int explored_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    return schedule_is_running() ? 0 : sigaction(number, action, before);
}
