#include "serverk/daemon/control.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/die_by_signal.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/notify.h"
#include "serverk/daemon/effort.h"
#include "serverk/daemon/name_watch.h"
#include "serverk/daemon/watchdog.h"

/* data.u64 of the signalfd and the timers; sessions have their ids, which are 32 bits. */
#define SIGNAL_TAG UINT64_MAX
#define TIMER_TAG  (UINT64_MAX - 1)
#define LANES_TAG  (UINT64_MAX - 2)
#define WATCH_TAG  (UINT64_MAX - 3)
#define UNSEEN_TAG (UINT64_MAX - 4)
#define NAMES_TAG  (UINT64_MAX - 5)

_Static_assert(NAMES_TAG > UINT32_MAX, "no tag is a session's id");

#define EVENTS_AT_ONCE 64

/* The time between two looks at what else there is to do while a reload comes to its end. */
#define JOIN_SLICE_MS 20

/* The longest time between two looks at whether anybody is connected (--idle-exit). */
#define IDLE_LOOK_MOST_MS 1000

/* A signal to stop that follows the first one within this time is the same request: timeout(1) and
 * service managers signal the process and its group, and people type kill twice. */
#define SAME_REQUEST_NS (1000u * 1000 * 1000)

struct control {
    int epoll;
    int signals;
    atomic_bool hung_up;   /* a SIGHUP came; set by whoever takes signals, as the next */
    atomic_bool log_moved; /* a SIGUSR1 */
    struct reload *reload; /* of control_run */
    pthread_t reloader;
    bool has_reloader;
    sem_t reload_wakes;   /* signals may have come, or the daemon stops */
    atomic_bool stopping; /* the reloader is to end */
    struct watchdog watchdog;
    struct effort effort; /* when the watchdog looked last */
    struct name_watch name_watch;
    uint64_t used_ns; /* when somebody was last seen connected, or the daemon began to serve */
    uint64_t opened;  /* sessions so far, when the main thread looked last */
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
    control->name_watch = NAME_WATCH_NONE;
    sem_init(&control->reload_wakes, 0, 0);
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
    name_watch_close(&control->name_watch);
    sem_destroy(&control->reload_wakes);
    free(control);
}

static uint64_t stopping_since_ns; /* written before the handler is set */

/* What a worker has sent, since a queue failed (pool.h), is nobody's impatience. */
static void end_if_impatient(int signal_number, siginfo_t *sent, void *context)
{
    (void)context;
    if (sent->si_pid != getpid() && clock_monotonic_ns() - stopping_since_ns >= SAME_REQUEST_NS)
        die_by_signal(signal_number);
}

void control_expect_impatience(void)
{
    struct sigaction action = {.sa_sigaction = end_if_impatient,
                               .sa_flags = SA_RESTART | SA_SIGINFO};
    sigset_t set;
    stopping_since_ns = clock_monotonic_ns();
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    handled_signals(&set); /* the others stay blocked: those from now on need not be followed */
    sigdelset(&set, SIGHUP);
    sigdelset(&set, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int control_epoll(const struct control *control)
{
    return control->epoll;
}

/* Reloading ------------------------------------------------------------------------------------ */

static void follow_control(struct control *control)
{
    bool log_moved = atomic_exchange(&control->log_moved, false);
    struct kv_error told; /* in the log, too */
    if (atomic_exchange(&control->hung_up, false))
        reload_all(control->reload, &told);
    else if (log_moved)
        reload_log(control->reload);
}

/* A reload may take minutes (quotas count all keys), for which the main thread has no time: who
 * tells the watchdog then? */
static void *reload_thread(void *argument)
{
    struct control *control = argument;
    pthread_setname_np(pthread_self(), "serverk/reload");
    bool last;
    do {
        while (sem_wait(&control->reload_wakes) != 0 && errno == EINTR)
            ;
        last = atomic_load(&control->stopping); /* what came before that is followed now */
        follow_control(control);
    } while (!last);
    return NULL;
}

static bool start_reloader(struct control *control)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard */
    sigdelset(&all, SIGSYS); /* syscall_filter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&control->reloader, NULL, reload_thread, control) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Returns whether the reloader has ended, now or in a moment. */
static bool join_reloader(struct control *control)
{
    const struct timespec until = clock_time_after_ms(CLOCK_REALTIME, JOIN_SLICE_MS);
    return pthread_timedjoin_np(control->reloader, NULL, &until) == 0;
}

/* Without a reloader, as where no more threads are allowed, the main thread follows the signals
 * itself. */
static void follow_soon(struct control *control)
{
    if (control->has_reloader)
        sem_post(&control->reload_wakes);
    else
        follow_control(control);
}

/* Serving -------------------------------------------------------------------------------------- */

/* Adds the descriptor (-1: none) to the epoll set. */
static void watch_fd(const struct control *control, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = tag}};
    if (fd >= 0)
        epoll_ctl(control->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* A reload that itself hangs is none that works. */
static void tick_watchdog(struct control *control, const struct service *service)
{
    bool worked = effort_look(&control->effort);
    bool serves = watchdog_look(&control->watchdog, service->lanes, service->aside,
                                service->farewells, worked && reload_is_under_way(control->reload));
    notify_tick(serves);
}

static int handle_signals(struct control *control)
{
    int signal_number = control_take_signal(control);
    follow_soon(control);
    return signal_number;
}

/* Returns the signal to stop that has come; 0: none. */
static int handle_control_event(struct control *control, const struct service *service,
                                uint64_t tag)
{
    switch (tag) {
    case SIGNAL_TAG:
        return handle_signals(control);
    case TIMER_TAG:
        farewells_tick(service->farewells, service->options->queue);
        return 0;
    case LANES_TAG:
        lanes_tick(service->lanes);
        return 0;
    case WATCH_TAG:
        tick_watchdog(control, service);
        return 0;
    case UNSEEN_TAG:
        session_unseen_tick(service->sessions);
        return 0;
    case NAMES_TAG:
        name_watch_tick(&control->name_watch, service->engine, service->lanes);
        return 0;
    default:
        session_client_died(service->sessions, (uint32_t)tag);
        return 0;
    }
}

/* Does what there is to do, or comes within that time (-1: whenever). Returns as
 * handle_control_event. */
static int serve_control_events(struct control *control, const struct service *service, int wait_ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(control->epoll, events, EVENTS_AT_ONCE, wait_ms);
    int signal_number = 0;
    for (int i = 0; i < count && signal_number == 0; i++)
        signal_number = handle_control_event(control, service, events[i].data.u64);
    return signal_number;
}

/* Returns how long the main thread may sleep until it must look at whether anybody is connected;
 * -1: for ever. */
static int idle_wait_ms(const struct server_options *options)
{
    return options->idle_exit_ms == 0                      ? -1
           : options->idle_exit_ms < 4 * IDLE_LOOK_MOST_MS ? (int)(options->idle_exit_ms / 4 + 1)
                                                           : IDLE_LOOK_MOST_MS;
}

/* Returns whether nobody has been connected for --idle-exit: from then on nobody gets a session, so
 * that no request can come that nobody answers. */
static bool has_no_users(struct control *control, const struct service *service)
{
    uint64_t idle_exit_ms = service->options->idle_exit_ms;
    if (idle_exit_ms == 0)
        return false;
    struct session_counts counts;
    session_counts(service->sessions, &counts);
    uint64_t now_ns = clock_monotonic_ns();
    if (counts.live > 0 || counts.opened != control->opened)
        control->used_ns = now_ns;
    control->opened = counts.opened;
    return now_ns - control->used_ns >= idle_exit_ms * 1000000 &&
           session_table_close(service->sessions);
}

int control_run(struct control *control, const struct service *service, struct reload *reload)
{
    control->reload = reload;
    control->used_ns = clock_monotonic_ns();
    int wait_ms = idle_wait_ms(service->options);
    control->has_reloader = start_reloader(control);
    watch_fd(control, farewells_timer(service->farewells), TIMER_TAG);
    watch_fd(control, session_unseen_timer(service->sessions), UNSEEN_TAG);
    watch_fd(control, lanes_timer(service->lanes), LANES_TAG);
    watch_fd(control, notify_watchdog(), WATCH_TAG);
    control->name_watch = name_watch_open(service->engine, service->lanes, service->options->dir);
    watch_fd(control, control->name_watch.events, NAMES_TAG);
    watch_fd(control, control->name_watch.timer, NAMES_TAG);
    notify_send("READY=1");
    follow_soon(control); /* signals that came during the start */
    int signal_number = 0;
    while (signal_number == 0 && !has_no_users(control, service))
        signal_number = serve_control_events(control, service, wait_ms);
    return signal_number;
}

void control_finish_reload(struct control *control, const struct service *service)
{
    atomic_store(&control->stopping, true);
    sem_post(&control->reload_wakes);
    while (control->has_reloader && !join_reloader(control))
        serve_control_events(control, service, 0);
    control->has_reloader = false;
}
