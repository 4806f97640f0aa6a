#include "serverk/daemon/start_guard.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/report/die_by_signal.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/notify.h"
#include "serverk/daemon/effort.h"

/* How often the guard looks whether the start goes on, and how long that holds for the
 * service manager: as long as TimeoutStartSec= of the units. */
#define LOOK_MS 1000
#define GOES_ON "EXTEND_TIMEOUT_USEC=300000000"

struct start_guard {
    struct control *control;
    struct lanes *lanes;
    struct pidfile *pidfile;
    int over; /* an eventfd */
    pthread_t thread;
};

static _Noreturn void end_process(const struct start_guard *guard, int signal_number)
{
    log_info("signal %d (%s): stopping, before the store was open", signal_number,
             strsignal(signal_number));
    lanes_close(guard->lanes);
    pidfile_remove(guard->pidfile);
    die_by_signal(signal_number);
}

static void *guard_start(void *argument)
{
    const struct start_guard *guard = argument;
    struct effort effort = {0};
    struct pollfd events[] = {{.fd = guard->over, .events = POLLIN},
                              {.fd = control_signals(guard->control), .events = POLLIN}};
    for (;;) {
        int count = poll(events, 2, LOOK_MS);
        if (count == 0 && effort_look(&effort)) /* else it hangs, and the manager ends it */
            notify_send(GOES_ON);
        if (count <= 0)
            continue;
        if (events[0].revents)
            return NULL;
        int signal_number = control_take_signal(guard->control);
        if (signal_number != 0)
            end_process(guard, signal_number);
    }
}

enum kv_status start_guard_create(struct control *control, struct lanes *lanes,
                                  struct pidfile *pidfile, struct start_guard **result,
                                  struct kv_error *error)
{
    struct start_guard *guard = malloc(sizeof *guard);
    if (!guard)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    *guard = (struct start_guard){.control = control, .lanes = lanes, .pidfile = pidfile};
    guard->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard->over < 0) {
        free(guard);
        return kv_error_set_errno(error, "cannot wait for signals");
    }
    int started = pthread_create(&guard->thread, NULL, guard_start, guard);
    if (started != 0) {
        close(guard->over);
        free(guard);
        return kv_error_set_no_thread(error, started, "cannot start the thread for signals");
    }
    *result = guard;
    return KV_OK;
}

void start_guard_free(struct start_guard *guard)
{
    eventfd_write(guard->over, 1);
    pthread_join(guard->thread, NULL);
    close(guard->over);
    free(guard);
}
