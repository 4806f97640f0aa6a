#include "bridges/kresp/bridge/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/notify.h"
#include "bridges/kresp/bridge/bridge_sandbox.h"
#include "bridges/kresp/bridge/bridge_thread.h"
#include "bridges/kresp/bridge/listen_socket.h"

/* How long a stop waits for threads that do not end because the store does not answer. */
#define STOP_MS 5000u

/* A thread hangs if it has made no round for this many looks of the watchdog. Each look wakes all
 * threads, and a thread that waits for the store makes a round when its timeout has come. */
#define WATCH_PATIENCE 4u

/* Connections that are accepted before anything else is looked at. */
#define ACCEPT_AT_ONCE 64

enum { SOCKET_UNIX, SOCKET_TCP, SOCKETS };

struct bridge {
    struct redis_service *service;
    struct listen_socket sockets[SOCKETS];
    struct bridge_thread **threads;
    unsigned thread_count;
    uint64_t *rounds; /* the rounds of each thread at the last look */
    unsigned stuck;   /* number of looks in a row at which a thread had made no round */
    int signal_fd;
    uint64_t accept_warned_ms; /* monotonic */
};

static enum kv_status open_sockets(struct bridge *bridge, const struct bridge_settings *settings,
                                   struct kv_error *error)
{
    enum kv_status status = listen_socket_open_unix(
        &bridge->sockets[SOCKET_UNIX], settings->socket_path, settings->socket_mode, error);
    if (status == KV_OK && settings->port > 0)
        status = listen_socket_open_tcp(&bridge->sockets[SOCKET_TCP], settings->port, error);
    return status;
}

static enum kv_status start_threads(struct bridge *bridge, unsigned count, struct kv_error *error)
{
    bridge->threads = calloc(count, sizeof *bridge->threads);
    bridge->rounds = calloc(count, sizeof *bridge->rounds);
    if (!bridge->threads || !bridge->rounds)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    for (unsigned i = 0; i < count; i++) {
        enum kv_status status = bridge_thread_start(bridge->service, i, &bridge->threads[i], error);
        if (status != KV_OK)
            return status;
        bridge->thread_count++;
    }
    return KV_OK;
}

/* Accepting ------------------------------------------------------------------------------------ */

static struct bridge_thread *least_busy(const struct bridge *bridge)
{
    struct bridge_thread *least = bridge->threads[0];
    for (unsigned i = 1; i < bridge->thread_count; i++)
        if (bridge_thread_connections(bridge->threads[i]) < bridge_thread_connections(least))
            least = bridge->threads[i];
    return least;
}

/* Returns the uid of the peer, or REDIS_USER_OF_TCP, since TCP does not tell it. */
static uint32_t peer_uid(int fd)
{
    struct ucred peer = {.uid = REDIS_USER_OF_TCP};
    socklen_t size = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return peer.uid;
}

static void take_in(struct bridge *bridge, int fd)
{
    struct redis_service *service = bridge->service;
    atomic_fetch_add(&service->connections, 1);
    struct redis_user *user = redis_user_enter(&service->users, peer_uid(fd));
    if (user) {
        bridge_thread_give(least_busy(bridge), fd, user);
        return;
    }
    atomic_fetch_add(&service->refused, 1);
    static const char text[] = "-ERR max number of clients reached\r\n";
    if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("a client beyond the limit (--clients) has left");
    close(fd);
}

static void accept_connections(struct bridge *bridge, const struct listen_socket *listener)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_in(bridge, fd);
        } else if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) {
            return;
        } else {
            /* At most one line a second is logged; the rest keeps a connection that cannot be
             * accepted from keeping a CPU busy. */
            int error_number = errno;
            uint64_t now_ms = clock_monotonic_coarse_ms();
            if (now_ms - bridge->accept_warned_ms >= 1000) {
                log_warn("connections cannot be accepted: %s",
                         strerror(error_number)); // NOLINT(concurrency-mt-unsafe): glibc's is safe
                bridge->accept_warned_ms = now_ms;
            }
            clock_sleep_ms(50);
            return;
        }
    }
}

/* Returns true if all threads make rounds, as the service manager's watchdog wants to know. */
static bool threads_go_on(struct bridge *bridge)
{
    bool all = true;
    for (unsigned i = 0; i < bridge->thread_count; i++) {
        uint64_t rounds = bridge_thread_rounds(bridge->threads[i]);
        all &= rounds != bridge->rounds[i];
        bridge->rounds[i] = rounds;
        bridge_thread_wake(bridge->threads[i]);
    }
    bridge->stuck = all ? 0 : bridge->stuck + 1;
    if (bridge->stuck == WATCH_PATIENCE)
        log_error("a thread hangs; the service manager's watchdog is not told any more that kresp "
                  "works");
    return bridge->stuck < WATCH_PATIENCE;
}

/* Accepts connections until a signal comes; returns the signal. */
static int wait_for_end(struct bridge *bridge)
{
    struct pollfd watched[] = {{bridge->signal_fd, POLLIN, 0},
                               {bridge->sockets[SOCKET_UNIX].fd, POLLIN, 0},
                               {bridge->sockets[SOCKET_TCP].fd, POLLIN, 0},
                               {notify_watchdog(), POLLIN, 0}};
    struct signalfd_siginfo signal;
    for (;;) {
        if (poll(watched, 4, -1) < 0)
            continue;
        if (watched[0].revents && read(bridge->signal_fd, &signal, sizeof signal) > 0)
            return (int)signal.ssi_signo;
        if (watched[3].revents)
            notify_tick(threads_go_on(bridge));
        for (int i = 0; i < SOCKETS; i++)
            if (watched[i + 1].revents)
                accept_connections(bridge, &bridge->sockets[i]);
    }
}

/* Answers what was received until now, then ends the threads and closes the sockets. */
static void stop_bridge(struct bridge *bridge)
{
    for (int i = 0; i < SOCKETS; i++) {
        if (bridge->sockets[i].fd >= 0 && bridge->thread_count > 0)
            accept_connections(bridge, &bridge->sockets[i]);
        listen_socket_close(&bridge->sockets[i]);
    }
    for (unsigned i = 0; i < bridge->thread_count; i++)
        bridge_thread_stop(bridge->threads[i]);
    uint64_t until_ms = clock_monotonic_coarse_ms() + STOP_MS;
    for (unsigned i = 0; i < bridge->thread_count; i++) {
        uint64_t now_ms = clock_monotonic_coarse_ms();
        if (bridge_thread_join(bridge->threads[i], now_ms < until_ms ? until_ms - now_ms : 0))
            continue;
        redis_store_interrupt();
        while (!bridge_thread_join(bridge->threads[i], STOP_MS))
            log_warn("a thread does not end");
    }
    free(bridge->threads);
    free(bridge->rounds);
    if (bridge->signal_fd >= 0)
        close(bridge->signal_fd);
}

enum kv_status bridge_run(struct redis_service *service, const struct bridge_settings *settings,
                          const sigset_t *signals, struct kv_error *error)
{
    struct bridge bridge = {
        .service = service, .sockets = {{.fd = -1}, {.fd = -1}}, .signal_fd = -1};
    bridge.signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    enum kv_status status =
        bridge.signal_fd >= 0 ? KV_OK : kv_error_set_errno(error, "cannot wait for signals");
    if (status == KV_OK)
        status = open_sockets(&bridge, settings, error);
    if (status == KV_OK && settings->sandbox)
        status = bridge_sandbox_enter(settings->socket_path, error);
    if (status == KV_OK)
        status = start_threads(&bridge, settings->threads, error);
    if (status == KV_OK) {
        char port[32] = "";
        if (settings->port > 0)
            snprintf(port, sizeof port, " and on 127.0.0.1:%u", (unsigned)settings->port);
        log_info("kresp %s listens on %s (mode %04o)%s", MQKV_VERSION, settings->socket_path,
                 (unsigned)settings->socket_mode, port);
        notify_send("READY=1");
        log_info(
            "stopping: %s",
            strsignal(wait_for_end(&bridge))); // NOLINT(concurrency-mt-unsafe): one thread asks
        notify_send("STOPPING=1");
    }
    stop_bridge(&bridge);
    return status;
}
