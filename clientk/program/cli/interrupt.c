#include "clientk/program/cli/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "common/time/clock.h"

#define AGAIN_AFTER_MS 100

static volatile sig_atomic_t interrupted, terminated;

/* A signal that comes just before a call sleeps would not end its sleep: while one is pending, this
 * timer sends another every 100 ms. */
static timer_t again;
static bool has_timer;

static void set_timer(long every_ms)
{
    struct timespec every = {.tv_nsec = every_ms * 1000000};
    struct itimerspec times = {.it_interval = every, .it_value = every};
    if (has_timer)
        timer_settime(again, 0, &times, NULL); /* may be called in a handler (POSIX) */
}

static void note_signal(int signal_number)
{
    int error_number = errno;
    if (signal_number == SIGTERM)
        terminated = 1;
    else
        interrupted = 1;
    set_timer(AGAIN_AFTER_MS);
    errno = error_number;
}

static void note_nothing(int signal_number)
{
    (void)signal_number;
}

static void handle(int signal_number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART: waits end */
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

void interrupt_catch(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    handle(SIGALRM, note_nothing);
    has_timer = has_timer || timer_create(CLOCK_MONOTONIC, &event, &again) == 0;
    handle(SIGINT, note_signal);
    handle(SIGTERM, note_signal);
}

bool interrupt_wait_readable(int fd)
{
    struct pollfd input = {fd, POLLIN, 0};
    while (!interrupt_pending()) {
        int ready = poll(&input, 1, -1);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
    }
    return false;
}

void interrupt_join(const pthread_t *threads, size_t count)
{
    for (size_t joined = 0; joined < count;) {
        const struct timespec until = clock_time_after_ms(CLOCK_REALTIME, AGAIN_AFTER_MS);
        if (pthread_timedjoin_np(threads[joined], NULL, &until) == 0) {
            joined++;
            continue;
        }
        for (size_t i = joined; i < count && interrupt_pending(); i++)
            pthread_kill(threads[i], terminated ? SIGTERM : SIGINT);
    }
}

bool interrupt_pending(void)
{
    return interrupted || terminated;
}

bool interrupt_terminated(void)
{
    return terminated != 0;
}

void interrupt_clear(void)
{
    interrupted = 0;
    if (!terminated)
        set_timer(0);
}

void interrupt_obey(void)
{
    if (!interrupt_pending())
        return;
    int signal_number = terminated ? SIGTERM : SIGINT;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}
