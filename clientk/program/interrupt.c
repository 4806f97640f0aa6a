#include "clientk/program/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>

#define LOOK_AFTER_MS 100

static volatile sig_atomic_t pending_signal;

static void note(int signal_number)
{
    pending_signal = signal_number;
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
    while (!pending_signal) {
        int ready = poll(&input, 1, LOOK_AFTER_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
    }
    return false;
}

bool interrupt_pending(void)
{
    return pending_signal != 0;
}

void interrupt_clear(void)
{
    pending_signal = 0;
}

void interrupt_obey(void)
{
    int signal_number = pending_signal;
    if (signal_number == 0)
        return;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}
