#include "bridges/kresp/bridge/listen_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/report/error.h"

#define BACKLOG 511

static enum kv_status unix_address(const char *path, struct sockaddr_un *address,
                                   struct kv_error *error)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof address->sun_path)
        return kv_error_set(error, KV_USAGE,
                            "the path of a Unix socket has 1 to %zu bytes, not %zu: \"%.120s\"",
                            sizeof address->sun_path - 1, size, path);
    memcpy(address->sun_path, path, size + 1);
    return KV_OK;
}

static bool somebody_listens(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    bool refused =
        connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 && errno == ECONNREFUSED;
    close(fd);
    return !refused;
}

/* Makes the path free if it is a socket that no process listens on. */
static enum kv_status remove_stale(const struct sockaddr_un *address, struct kv_error *error)
{
    const char *path = address->sun_path;
    struct stat status;
    if (lstat(path, &status) < 0)
        return errno == ENOENT ? KV_OK : kv_error_set_errno(error, "%s", path);
    if (!S_ISSOCK(status.st_mode))
        return kv_error_set(error, KV_BUSY, "%s exists and is not a socket", path);
    if (somebody_listens(address))
        return kv_error_set(error, KV_BUSY, "another process listens on %s", path);
    if (unlink(path) < 0)
        return kv_error_set_errno(error, "%s: the socket of a dead process cannot be removed",
                                  path);
    return KV_OK;
}

static enum kv_status bind_unix(struct listen_socket *listener, const struct sockaddr_un *address,
                                mode_t mode, struct kv_error *error)
{
    struct stat status;
    mode_t before = umask(0777 & ~mode);
    int bound = bind(listener->fd, (const struct sockaddr *)address, sizeof *address);
    umask(before);
    if (bound < 0)
        return kv_error_set_errno(error, "cannot bind to %s", address->sun_path);
    if (chmod(address->sun_path, mode) < 0 || lstat(address->sun_path, &status) < 0)
        return kv_error_set_errno(error, "%s", address->sun_path);
    listener->device = status.st_dev;
    listener->inode = status.st_ino;
    if (listen(listener->fd, BACKLOG) < 0)
        return kv_error_set_errno(error, "cannot listen on %s", address->sun_path);
    return KV_OK;
}

enum kv_status listen_socket_open_unix(struct listen_socket *listener, const char *path,
                                       mode_t mode, struct kv_error *error)
{
    struct sockaddr_un address;
    *listener = (struct listen_socket){.fd = -1, .path = path};
    enum kv_status status = unix_address(path, &address, error);
    if (status == KV_OK)
        status = remove_stale(&address, error);
    if (status != KV_OK)
        return status;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return kv_error_set_errno(error, "cannot make a socket");
    status = bind_unix(listener, &address, mode, error);
    if (status != KV_OK)
        listen_socket_close(listener);
    return status;
}

enum kv_status listen_socket_open_tcp(struct listen_socket *listener, uint16_t port,
                                      struct kv_error *error)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    *listener = (struct listen_socket){.fd = -1};
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return kv_error_set_errno(error, "cannot make a socket");
    if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(listener->fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener->fd, BACKLOG) < 0) {
        enum kv_status status =
            errno == EADDRINUSE
                ? kv_error_set(error, KV_BUSY, "another process listens on port %u", port)
                : kv_error_set_errno(error, "cannot listen on 127.0.0.1, port %u", port);
        listen_socket_close(listener);
        return status;
    }
    return KV_OK;
}

void listen_socket_close(struct listen_socket *listener)
{
    struct stat status;
    if (listener->fd < 0)
        return;
    close(listener->fd);
    listener->fd = -1;
    if (listener->path && listener->inode != 0 && lstat(listener->path, &status) == 0 &&
        status.st_dev == listener->device && status.st_ino == listener->inode)
        unlink(listener->path);
}
