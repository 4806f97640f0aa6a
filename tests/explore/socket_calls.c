/*
 * Stream sockets of one host. Each end has the bytes that have come and were not read yet, at most
 * so many (SO_RCVBUF; what SO_SNDBUF says is the other end's). Who found no room is told when a
 * third of it is free again: the least that a kernel does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/explore/explore.h"
#include "tests/explore/kernel_objects.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define PENDING_MAX        16u
#define USUAL_SOCKET_BYTES ((size_t)64 * 1024)

struct socket_end {
    struct object *other; /* NULL: not connected, or the other end is closed */
    unsigned process;     /* who connected */
    char *bytes;
    size_t start, end, most;
    bool was_connected;
    bool no_more;    /* comes */
    bool sends_none; /* any more */
    bool is_reset;   /* the other end was closed with bytes that it had not read */
    bool wants_room; /* a write found none */
    bool is_listening;
    struct object *pending[PENDING_MAX]; /* the ends that wait for accept */
    unsigned pending_count;
};

static size_t unread(const struct socket_end *end)
{
    return end->end - end->start;
}

/* Of the other end of this one. */
static size_t room_of_other(const struct socket_end *end)
{
    const struct socket_end *other = end->other->socket;
    return other->most > unread(other) ? other->most - unread(other) : 0;
}

static uint32_t socket_ready(const struct object *object)
{
    const struct socket_end *end = object->socket;
    if (end->is_listening)
        return end->pending_count > 0 ? EPOLLIN : 0;
    if (!end->was_connected)
        return EPOLLOUT | EPOLLHUP;
    bool is_alone = !end->other;
    bool has_room = is_alone || room_of_other(end) >= end->other->socket->most / 3;
    return (unread(end) > 0 || end->no_more || is_alone || end->is_reset ? EPOLLIN : 0u) |
           (end->no_more || is_alone ? EPOLLRDHUP : 0u) |
           (is_alone || (end->no_more && end->sends_none) ? EPOLLHUP : 0u) |
           (end->is_reset ? EPOLLERR : 0u) | (has_room ? EPOLLOUT : 0u);
}

static void free_socket(struct object *object)
{
    struct socket_end *end = object->socket;
    for (unsigned i = 0; i < end->pending_count; i++)
        kernel_free_unused(end->pending[i]);
    if (end->other) {
        struct socket_end *other = end->other->socket;
        other->other = NULL;
        other->is_reset = unread(end) > 0;
        kernel_note_edge(end->other, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
    }
    free(end->bytes);
    free(end);
    object->socket = NULL;
}

static ssize_t read_socket(struct description *description, void *buffer, size_t bytes,
                           const void *place)
{
    struct object *object = description->object;
    struct socket_end *end = object->socket;
    while (!kernel_is_readable(object)) {
        if (description->nonblock) {
            errno = EAGAIN;
            return -1;
        }
        schedule_wait(kernel_is_readable, object, UINT64_MAX, place);
    }
    size_t got = bytes < unread(end) ? bytes : unread(end);
    if (got == 0 && end->is_reset) {
        end->is_reset = false;
        errno = ECONNRESET;
        return -1;
    }
    memcpy(buffer, end->bytes + end->start, got);
    end->start += got;
    if (got > 0 && end->other && end->other->socket->wants_room &&
        (socket_ready(end->other) & EPOLLOUT)) {
        end->other->socket->wants_room = false;
        kernel_note_edge(end->other, EPOLLOUT);
    }
    schedule_note_wake();
    kernel_enter(place);
    return (ssize_t)got;
}

static bool has_room_to_write(const void *object)
{
    return (socket_ready(object) & EPOLLOUT) != 0;
}

static void receive(struct object *object, const void *data, size_t bytes)
{
    struct socket_end *end = object->socket;
    char *moved = malloc(unread(end) + bytes);
    if (!moved)
        schedule_fail("no memory for a socket");
    memcpy(moved, end->bytes + end->start, unread(end));
    memcpy(moved + unread(end), data, bytes);
    free(end->bytes);
    end->bytes = moved;
    end->end = unread(end) + bytes;
    end->start = 0;
    kernel_note_edge(object, EPOLLIN);
}

/* Writes a part at least, or waits for room. */
static ssize_t send_some(struct description *description, const void *data, size_t bytes,
                         bool nonblock, const void *place)
{
    struct object *object = description->object;
    struct socket_end *end = object->socket;
    while (end->other && !end->sends_none && room_of_other(end) == 0) {
        end->wants_room = true;
        if (nonblock) {
            errno = EAGAIN;
            return -1;
        }
        schedule_wait(has_room_to_write, object, UINT64_MAX, place);
    }
    if (!end->other || end->sends_none) {
        errno = end->was_connected ? EPIPE : ENOTCONN;
        return -1;
    }
    size_t room = room_of_other(end), given = bytes < room ? bytes : room;
    receive(end->other, data, given);
    kernel_enter(place);
    return (ssize_t)given;
}

static ssize_t write_socket(struct description *description, const void *data, size_t bytes,
                            const void *place)
{
    return send_some(description, data, bytes, description->nonblock, place);
}

static const struct object_kind socket_kind = {
    .ready = socket_ready, .free = free_socket, .read = read_socket, .write = write_socket};

static struct object *new_socket(void)
{
    struct object *object = kernel_new_object(&socket_kind);
    object->socket = calloc(1, sizeof *object->socket);
    if (!object->socket)
        schedule_fail("no memory for a socket");
    object->socket->process = schedule_process();
    object->socket->most = USUAL_SOCKET_BYTES;
    return object;
}

unsigned explore_open_sockets(void)
{
    unsigned count = 0;
    while (kernel_object(&socket_kind, count))
        count++;
    return count;
}

int explored_socket(int domain, int type, int protocol)
{
    if (!schedule_is_running())
        return socket(domain, type, protocol);
    kernel_enter(HERE);
    return kernel_open_object(new_socket(), (type & SOCK_NONBLOCK) != 0, true, true);
}

static void name_socket(struct object *object, const struct sockaddr *address)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)address;
    snprintf(object->name, sizeof object->name, "%s", local->sun_path);
}

int explored_bind(int descriptor, const struct sockaddr *address, socklen_t size)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return bind(descriptor, address, size);
    kernel_enter(HERE);
    if (!description)
        return -1;
    name_socket(description->object, address);
    return 0;
}

int explored_listen(int descriptor, int backlog)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return listen(descriptor, backlog);
    kernel_enter(HERE);
    if (!description)
        return -1;
    description->object->socket->is_listening = true;
    return 0;
}

static struct object *find_listener(const struct sockaddr *address)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)address;
    struct object *listener;
    for (unsigned i = 0; (listener = kernel_object(&socket_kind, i)); i++)
        if (listener->socket->is_listening && strcmp(listener->name, local->sun_path) == 0)
            break;
    return listener;
}

int explored_connect(int descriptor, const struct sockaddr *address, socklen_t size)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return connect(descriptor, address, size);
    kernel_enter(HERE);
    if (!description)
        return -1;
    struct object *own = description->object, *listener = find_listener(address);
    if (!listener || listener->socket->pending_count == PENDING_MAX) {
        errno = listener ? EAGAIN : ECONNREFUSED;
        return -1;
    }
    struct object *theirs = new_socket();
    own->socket->process = theirs->socket->process = schedule_process();
    own->socket->was_connected = theirs->socket->was_connected = true;
    own->socket->other = theirs;
    theirs->socket->other = own;
    theirs->socket->most = own->socket->most;
    theirs->uid = explored_geteuid();
    listener->socket->pending[listener->socket->pending_count++] = theirs;
    kernel_note_edge(listener, EPOLLIN);
    kernel_enter(HERE);
    return 0;
}

int explored_accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return accept4(descriptor, address, size, flags);
    kernel_enter(HERE);
    if (!description)
        return -1;
    struct socket_end *listener = description->object->socket;
    while (listener->pending_count == 0) {
        if (description->nonblock) {
            errno = EAGAIN;
            return -1;
        }
        schedule_wait(kernel_is_readable, description->object, UINT64_MAX, HERE);
    }
    struct object *accepted = listener->pending[0];
    listener->pending_count--;
    memmove(listener->pending, listener->pending + 1,
            listener->pending_count * sizeof *listener->pending);
    return kernel_open_object(accepted, (flags & SOCK_NONBLOCK) != 0, true, true);
}

ssize_t explored_send(int descriptor, const void *data, size_t bytes, int flags)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return send(descriptor, data, bytes, flags);
    kernel_enter(HERE);
    if (!description)
        return -1;
    return send_some(description, data, bytes, description->nonblock || (flags & MSG_DONTWAIT) != 0,
                     HERE);
}

int explored_shutdown(int descriptor, int how)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return shutdown(descriptor, how);
    kernel_enter(HERE);
    if (!description || how != SHUT_WR)
        return -1;
    struct socket_end *end = description->object->socket;
    end->sends_none = true;
    if (end->other) {
        end->other->socket->no_more = true;
        kernel_note_edge(end->other, EPOLLIN | EPOLLRDHUP);
    }
    return 0;
}

int explored_getsockopt(int descriptor, int level, int name, void *value, socklen_t *size)
{
    const struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return getsockopt(descriptor, level, name, value, size);
    kernel_enter(HERE);
    if (!description)
        return -1;
    if (name == SO_DOMAIN) {
        *(int *)value = AF_UNIX;
    } else if (name == SO_PEERCRED) {
        *(struct ucred *)value = (struct ucred){
            .pid = explore_pid(description->object->socket->process),
            .uid = description->object->uid,
        };
    } else {
        schedule_fail("an option of sockets that the explorer does not know: %d", name);
    }
    return 0;
}

int explored_setsockopt(int descriptor, int level, int name, const void *value, socklen_t size)
{
    struct description *description = kernel_description_as(descriptor, &socket_kind);
    if (!kernel_is_ours(descriptor))
        return setsockopt(descriptor, level, name, value, size);
    kernel_enter(HERE);
    if (!description)
        return -1;
    struct socket_end *end = description->object->socket;
    if (name == SO_RCVBUF)
        end->most = *(const unsigned *)value;
    else if (name == SO_SNDBUF && end->other)
        end->other->socket->most = *(const unsigned *)value;
    return 0;
}
