#include "common/report/notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/text/parse.h"

/* A watchdog that is told more often than this tells nothing more. */
#define SHORTEST_WATCH_US 2000u

static int manager = -1; /* the connected socket */
static int watch = -1;   /* the timer */

/* Abstract names begin with '@' in the variable and with NUL in the address. False: no name of a
 * socket. */
static bool make_address(const char *name, struct sockaddr_un *address, socklen_t *size)
{
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof address->sun_path)
        return false;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    return true;
}

static enum kv_status connect_to(const char *name, struct kv_error *error)
{
    struct sockaddr_un address;
    socklen_t size;
    if (!make_address(name, &address, &size))
        return kv_error_set(error, KV_USAGE, "NOTIFY_SOCKET: '%.100s' is not the name of a socket",
                            name);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (manager >= 0 && connect(manager, (struct sockaddr *)&address, size) == 0)
        return KV_OK;
    enum kv_status status = kv_error_set_errno(error, "cannot tell NOTIFY_SOCKET %.100s", name);
    notify_close();
    return status;
}

/* $WATCHDOG_USEC, if it is for this process; else 0. */
static uint64_t watch_time_us(void)
{
    const char *time = getenv("WATCHDOG_USEC");
    const char *process = getenv("WATCHDOG_PID");
    uint64_t time_us, pid;
    if (!time || !parse_u64(time, SHORTEST_WATCH_US, UINT64_C(1) << 42, &time_us))
        return 0;
    if (process && (!parse_u64(process, 1, INT32_MAX, &pid) || (pid_t)pid != getpid()))
        return 0;
    return time_us;
}

enum kv_status notify_open(struct kv_error *error)
{
    const char *name = getenv("NOTIFY_SOCKET");
    enum kv_status status = name ? connect_to(name, error) : KV_OK;
    uint64_t time_us = watch_time_us();
    if (manager >= 0 && time_us > 0) {
        uint64_t half_us = time_us / 2;
        struct timespec every = {(time_t)(half_us / 1000000), (long)(half_us % 1000000) * 1000};
        struct itimerspec times = {every, every};
        watch = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (watch >= 0)
            timerfd_settime(watch, 0, &times, NULL);
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return status;
}

void notify_send(const char *text)
{
    if (manager < 0)
        return;
    ssize_t written = write(manager, text, strlen(text));
    (void)written; /* a manager that is gone or does not read is not the daemon's concern */
}

int notify_watchdog(void)
{
    return watch;
}

void notify_tick(bool works)
{
    uint64_t expirations;
    if (watch >= 0 &&
        read(watch, &expirations, sizeof expirations) == (ssize_t)sizeof expirations && works)
        notify_send("WATCHDOG=1");
}

void notify_close(void)
{
    if (manager >= 0)
        close(manager);
    if (watch >= 0)
        close(watch);
    manager = watch = -1;
}
