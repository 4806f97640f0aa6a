#include "clientk/program/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#define LOOK_AFTER_MS 100

static volatile sig_atomic_t interrupted, terminated;

static void note(int signal_number)
{
    if (signal_number == SIGTERM)
        terminated = 1;
    else
        interrupted = 1;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = note}; /* without SA_RESTART: waits end */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A signal ends the sleep of one thread, which may be another one, or comes just before this one sleeps:
 * so it looks. */
bool interrupt_wait_readable(int fd)
{
    struct pollfd input = {fd, POLLIN, 0};
    while (!interrupt_pending()) {
        int ready = poll(&input, 1, LOOK_AFTER_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
    }
    return false;
}

void interrupt_join(const pthread_t *threads, size_t count)
{
    for (size_t joined = 0; joined < count;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_AFTER_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
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
}

void interrupt_obey(void)
{
    if (!interrupt_pending())
        return;
    int signal_number = terminated ? SIGTERM : SIGINT;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}
