#include "serverk/daemon/control.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/die_by_signal.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/notify.h"
#include "serverk/daemon/watchdog.h"

/* data.u64 of the signalfd and the timers; sessions have their ids, which are 32 bits. */
#define SIGNAL_TAG  UINT64_MAX
#define TIMER_TAG   (UINT64_MAX - 1)
#define LANES_TAG   (UINT64_MAX - 2)
#define WATCH_TAG   (UINT64_MAX - 3)
#define METRICS_TAG (UINT64_MAX - 4)
#define UNSEEN_TAG  (UINT64_MAX - 5)

#define EVENTS_AT_ONCE 64

/* A signal to stop that follows the first one within this time is the same request: timeout(1) and
 * service managers signal the process and its group, and people type kill twice. */
#define SAME_REQUEST_NS (1000u * 1000 * 1000)

struct control {
    int epoll;
    int signals;
    atomic_bool hung_up;   /* a SIGHUP came; set by whoever takes signals, as the next */
    atomic_bool log_moved; /* a SIGUSR1 */
    struct watchdog watchdog;
};

static void handled_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
}

enum kv_status control_create(struct control **result, struct kv_error *error)
{
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    sigset_t set;
    handled_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    control->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    control->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = SIGNAL_TAG}};
    if (control->signals < 0 || control->epoll < 0 ||
        epoll_ctl(control->epoll, EPOLL_CTL_ADD, control->signals, &event) != 0) {
        enum kv_status status = kv_error_set_errno(error, "cannot wait for signals");
        control_free(control);
        return status;
    }
    *result = control;
    return KV_OK;
}

int control_signals(const struct control *control)
{
    return control->signals;
}

int control_take_signal(struct control *control)
{
    struct signalfd_siginfo info;
    while (read(control->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            atomic_store(&control->hung_up, true);
        else if (info.ssi_signo == SIGUSR1)
            atomic_store(&control->log_moved, true);
        else
            return (int)info.ssi_signo;
    }
    return 0;
}

void control_free(struct control *control)
{
    if (!control)
        return;
    if (control->signals >= 0)
        close(control->signals);
    if (control->epoll >= 0)
        close(control->epoll);
    free(control);
}

static uint64_t stopping_since_ns; /* written before the handler is set */

static void end_if_impatient(int signal_number)
{
    if (clock_monotonic_ns() - stopping_since_ns >= SAME_REQUEST_NS)
        die_by_signal(signal_number);
}

void control_expect_impatience(void)
{
    struct sigaction action = {.sa_handler = end_if_impatient, .sa_flags = SA_RESTART};
    sigset_t set;
    stopping_since_ns = clock_monotonic_ns();
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    handled_signals(&set); /* the others stay blocked: there is nothing to reload any more */
    sigdelset(&set, SIGHUP);
    sigdelset(&set, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int control_epoll(const struct control *control)
{
    return control->epoll;
}

static void follow(struct control *control, struct reload *reload)
{
    bool log_moved = atomic_exchange(&control->log_moved, false);
    struct kv_error told; /* in the log, too */
    if (atomic_exchange(&control->hung_up, false))
        reload_all(reload, &told);
    else if (log_moved)
        reload_log(reload);
}

/* Adds the timer (-1: none) to the epoll set. */
static void watch_timer(const struct control *control, int timer, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = tag}};
    if (timer >= 0)
        epoll_ctl(control->epoll, EPOLL_CTL_ADD, timer, &event);
}

/* Returns the signal to stop that has come; 0: none. */
static int handle(struct control *control, const struct service *service,
                  struct metrics_file *metrics, uint64_t tag)
{
    switch (tag) {
    case SIGNAL_TAG:
        return control_take_signal(control);
    case TIMER_TAG:
        farewells_tick(service->farewells, service->options->queue);
        return 0;
    case LANES_TAG:
        lanes_tick(service->lanes);
        return 0;
    case WATCH_TAG:
        notify_tick(watchdog_look(&control->watchdog, service->lanes, service->farewells));
        return 0;
    case UNSEEN_TAG:
        session_unseen_tick(service->sessions);
        return 0;
    case METRICS_TAG:
        metrics_file_tick(metrics);
        return 0;
    default:
        session_client_died(service->sessions, (uint32_t)tag);
        return 0;
    }
}

int control_run(struct control *control, const struct service *service, struct reload *reload,
                struct metrics_file *metrics)
{
    watch_timer(control, farewells_timer(service->farewells), TIMER_TAG);
    watch_timer(control, session_unseen_timer(service->sessions), UNSEEN_TAG);
    watch_timer(control, lanes_timer(service->lanes), LANES_TAG);
    watch_timer(control, notify_watchdog(), WATCH_TAG);
    watch_timer(control, metrics_file_timer(metrics), METRICS_TAG);
    notify_send("READY=1");
    for (;;) {
        follow(control, reload);
        struct epoll_event events[EVENTS_AT_ONCE];
        int count = epoll_wait(control->epoll, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            int signal_number = handle(control, service, metrics, events[i].data.u64);
            if (signal_number != 0)
                return signal_number;
        }
    }
}
