#include "wire/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/memory/copy.h"
#include "common/report/error.h"

/* Where queues can be seen as files, if somebody mounted their file system there. */
#define MQUEUE_MOUNT "/dev/mqueue"

/* A session that sends one request at a time needs room for one reply, and for a second one after a
 * request that timed out. 4,352 bytes hold a value of 4 KiB; larger values go through a segment. At
 * the kernel's defaults a user's bytes hold 63 such queues beside a daemon, but only 17 of 4 x
 * 8192, with which 50 processes found no room. Below 2 x 512 a client does better to share another
 * thread's queue. */
const struct wire_geometry wire_reply_ladder[] = {{2, 4352}, {4, 1024}, {2, 512}, {0, 0}};

/* Four replies in flight, each as large as the kernel's default allows. */
const struct wire_geometry wire_window_ladder[] = {
    {4, 8192}, {4, 2048}, {4, 1024}, {2, 512}, {0, 0}};

enum kv_status wire_queue_create(const char *name, struct wire_geometry geometry, mode_t mode,
                                 bool nonblock, mqd_t *queue, struct kv_error *error)
{
    struct mq_attr attributes = {.mq_maxmsg = geometry.depth, .mq_msgsize = geometry.message_bytes};
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (nonblock ? O_NONBLOCK : 0);
    mqd_t created = mq_open(name, flags, mode, &attributes);
    if (created == (mqd_t)-1)
        return wire_limits_explain(name, geometry, errno, error);
    if (fchmod((int)created, mode) != 0) {
        enum kv_status status = kv_error_set_errno(
            error, "cannot set the mode of the message queue %s to 0%o", name, (unsigned)mode);
        mq_close(created);
        mq_unlink(name);
        return status;
    }
    *queue = created;
    return KV_OK;
}

enum kv_status wire_queue_create_ladder(const char *name, const struct wire_geometry *ladder,
                                        mode_t mode, bool nonblock, mqd_t *queue,
                                        struct wire_geometry *granted, struct kv_error *error)
{
    enum kv_status status = KV_LIMIT;
    for (const struct wire_geometry *step = ladder; step->depth > 0; step++) {
        status = wire_queue_create(name, *step, mode, nonblock, queue, error);
        if (status == KV_OK && granted)
            *granted = *step;
        if (status != KV_LIMIT)
            break;
    }
    return status;
}

static enum kv_status explain_denied(const char *name, struct kv_error *error)
{
    char path[PATH_MAX];
    struct stat facts;
    snprintf(path, sizeof path, MQUEUE_MOUNT "%s", name);
    if (stat(path, &facts) != 0)
        return kv_error_set(error, KV_DENIED,
                            "uid %u may not send to the message queue %s: ask whoever runs the "
                            "server for access (serverk --mode)",
                            (unsigned)geteuid(), name);
    return kv_error_set(error, KV_DENIED,
                        "uid %u may not send to the message queue %s, which belongs to uid %u, gid "
                        "%u and has mode 0%o: ask its owner for access (serverk --mode)",
                        (unsigned)geteuid(), name, (unsigned)facts.st_uid, (unsigned)facts.st_gid,
                        (unsigned)facts.st_mode & 07777);
}

static enum kv_status explain_open(const char *name, int error_number, struct kv_error *error)
{
    switch (error_number) {
    case ENOENT:
        return kv_error_set(error, KV_NO_SERVER,
                            "there is no message queue %s in this IPC namespace: no server runs "
                            "under this name (serverk -m %s), or it runs in a container or systemd "
                            "unit with an IPC namespace of its own (--ipc=host, PrivateIPC=no)",
                            name, name);
    case EACCES:
        return explain_denied(name, error);
    default:
        errno = error_number;
        return kv_error_set_errno(error, "cannot open the message queue %s", name);
    }
}

enum kv_status wire_queue_open(const char *name, bool nonblock, mqd_t *queue,
                               struct wire_geometry *geometry, struct kv_error *error)
{
    mqd_t opened = mq_open(name, O_WRONLY | O_CLOEXEC | (nonblock ? O_NONBLOCK : 0));
    if (opened == (mqd_t)-1)
        return explain_open(name, errno, error);
    struct mq_attr attributes;
    if (geometry) {
        if (mq_getattr(opened, &attributes) != 0) {
            enum kv_status status =
                kv_error_set_errno(error, "cannot read the geometry of the message queue %s", name);
            mq_close(opened);
            return status;
        }
        geometry->depth =
            attributes.mq_maxmsg > UINT16_MAX ? UINT16_MAX : (uint16_t)attributes.mq_maxmsg;
        geometry->message_bytes = (uint32_t)attributes.mq_msgsize;
    }
    *queue = opened;
    return KV_OK;
}

void *wire_queue_buffer(size_t bytes)
{
    size_t pages = (bytes + COPY_PAGE_BYTES - 1) / COPY_PAGE_BYTES;
    return aligned_alloc(COPY_PAGE_BYTES, pages * COPY_PAGE_BYTES);
}

static void set_blocking(mqd_t queue, bool blocking)
{
    struct mq_attr attributes = {.mq_flags = blocking ? 0 : O_NONBLOCK};
    mq_setattr(queue, &attributes, NULL);
}

/* What CLOCK_REALTIME, which mq_timedsend goes by, will show wait_ns from now. */
static struct timespec realtime_after(uint64_t wait_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    return until;
}

/* Sleeps in the system call that sends: the kernel serves sleeping senders in the order in which
 * they came. A sender that polled for room would never see any, since the kernel fills each place
 * that becomes free with the message of a sleeper. */
static int send_waiting(mqd_t queue, const void *message, size_t size, unsigned priority,
                        uint64_t wait_ns)
{
    struct timespec until = realtime_after(wait_ns);
    set_blocking(queue, true);
    int result;
    do
        result = mq_timedsend(queue, message, size, priority, &until);
    while (result != 0 && errno == EINTR);
    int error_number = errno;
    set_blocking(queue, false);
    errno = error_number;
    return result;
}

int wire_send(mqd_t queue, const void *message, size_t size, unsigned priority, uint64_t timeout_ms)
{
    int result;
    do
        result = mq_send(queue, message, size, priority);
    while (result != 0 && errno == EINTR);
    if (result == 0 || errno != EAGAIN)
        return result;
    if (timeout_ms > 0)
        return send_waiting(queue, message, size, priority, timeout_ms * 1000000);
    errno = ETIMEDOUT;
    return -1;
}
