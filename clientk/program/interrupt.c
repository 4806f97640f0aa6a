#include "clientk/program/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>

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

/* The signals are held back but while ppoll sleeps, so that none slips in between. */
bool interrupt_wait_readable(int fd)
{
    struct pollfd input = {fd, POLLIN, 0};
    sigset_t held, before;
    int ready;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    do
        ready = pending_signal ? 0 : ppoll(&input, 1, NULL, &before);
    while (ready < 0 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready != 0;
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
