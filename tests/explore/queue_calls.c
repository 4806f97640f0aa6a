/* Message queues. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/kernel_objects.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct message {
    struct message *next;
    unsigned priority;
    size_t size;
    char data[];
};

static uint32_t queue_ready(const struct object *queue)
{
    return (queue->count > 0 ? EPOLLIN : 0u) | (queue->count < queue->depth ? EPOLLOUT : 0u);
}

static void free_messages(struct object *queue)
{
    while (queue->first) {
        struct message *message = queue->first;
        queue->first = message->next;
        free(message);
    }
}

static void describe_queue(const struct object *queue, char *text, size_t size)
{
    if (queue->count > 0)
        snprintf(text, size, "; queue %s has %ld messages", queue->name, queue->count);
}

static const struct object_kind queue_kind = {
    .ready = queue_ready, .free = free_messages, .describe = describe_queue, .keeps_name = true};

static struct object *find_queue(const char *name)
{
    struct object *queue;
    for (unsigned i = 0; (queue = kernel_object(&queue_kind, i)); i++)
        if (strcmp(queue->name, name) == 0)
            break;
    return queue;
}

bool explore_find_queue(const char *prefix, unsigned nth, char *name)
{
    const struct object *queue;
    for (unsigned i = 0; (queue = kernel_object(&queue_kind, i)); i++)
        if (strncmp(queue->name, prefix, strlen(prefix)) == 0 && nth-- == 0) {
            strcpy(name, queue->name);
            return true;
        }
    return false;
}

static bool may_open(const struct object *object, int flags)
{
    uid_t uid = explored_geteuid();
    mode_t wanted = (flags & O_ACCMODE) == O_RDONLY   ? 04
                    : (flags & O_ACCMODE) == O_WRONLY ? 02
                                                      : 06;
    mode_t bits = uid == object->uid ? object->mode >> 6 : object->mode;
    return uid == 0 || (bits & wanted) == wanted;
}

mqd_t explored_mq_open(const char *name, int flags, ...)
{
    mode_t mode = 0;
    const struct mq_attr *attributes = NULL;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        attributes = va_arg(arguments, const struct mq_attr *);
        va_end(arguments);
    }
    kernel_enter(HERE);
    struct object *queue = find_queue(name);
    if (queue && (flags & O_EXCL)) {
        errno = EEXIST;
        return (mqd_t)-1;
    }
    if (!queue && !(flags & O_CREAT)) {
        errno = ENOENT;
        return (mqd_t)-1;
    }
    if (queue && !may_open(queue, flags)) {
        errno = EACCES;
        return (mqd_t)-1;
    }
    if (!queue) {
        queue = kernel_new_object(&queue_kind);
        snprintf(queue->name, sizeof queue->name, "%s", name);
        queue->uid = explored_geteuid();
        queue->mode = mode;
        queue->depth = attributes ? attributes->mq_maxmsg : 10;
        queue->message_bytes = attributes ? attributes->mq_msgsize : 8192;
    }
    return (mqd_t)kernel_open_object(queue, (flags & O_NONBLOCK) != 0,
                                     (flags & O_ACCMODE) != O_WRONLY,
                                     (flags & O_ACCMODE) != O_RDONLY);
}

int explored_mq_unlink(const char *name)
{
    kernel_enter(HERE);
    struct object *queue = find_queue(name);
    if (!queue) {
        errno = ENOENT;
        return -1;
    }
    if (!kernel_may_change(queue)) {
        errno = EACCES;
        return -1;
    }
    queue->name[0] = '\0';
    kernel_free_unused(queue);
    return 0;
}

int explored_mq_close(mqd_t queue)
{
    kernel_enter(HERE);
    kernel_close((int)queue);
    return 0;
}

int explored_mq_getattr(mqd_t queue, struct mq_attr *attributes)
{
    kernel_enter(HERE);
    const struct description *description = kernel_description_as((int)queue, &queue_kind);
    if (!description)
        return -1;
    *attributes = (struct mq_attr){.mq_flags = description->nonblock ? O_NONBLOCK : 0,
                                   .mq_maxmsg = description->object->depth,
                                   .mq_msgsize = description->object->message_bytes,
                                   .mq_curmsgs = description->object->count};
    return 0;
}

int explored_mq_setattr(mqd_t queue, const struct mq_attr *attributes, struct mq_attr *before)
{
    (void)before;
    kernel_enter(HERE);
    struct description *description = kernel_description_as((int)queue, &queue_kind);
    if (!description)
        return -1;
    description->nonblock = (attributes->mq_flags & O_NONBLOCK) != 0;
    return 0;
}

/* Who waits at a queue. Another process may close its end meanwhile, but not this one's. */
struct queue_wait {
    const struct object *queue;
    unsigned thread;
};

static bool may_receive(const void *what)
{
    const struct queue_wait *wait = what;
    return wait->queue->count > 0 || kernel_is_signalled(wait->thread);
}

static bool may_send(const void *what)
{
    const struct queue_wait *wait = what;
    return wait->queue->count < wait->queue->depth || kernel_is_signalled(wait->thread);
}

/* False: errno. */
static bool wait_at_queue(const struct description *description, bool (*is_ready)(const void *),
                          uint64_t until_ns, const void *place)
{
    struct queue_wait wait = {description->object, schedule_thread()};
    kernel_set_signalled(wait.thread, false);
    if (is_ready(&wait))
        return true;
    errno = EAGAIN;
    if (description->nonblock)
        return false;
    errno = ETIMEDOUT;
    if (!schedule_wait(is_ready, &wait, until_ns, place))
        return false;
    errno = EINTR;
    return !kernel_is_signalled(wait.thread);
}

static int send_until(mqd_t descriptor, const char *data, size_t size, unsigned priority,
                      uint64_t until_ns, const void *place)
{
    kernel_enter(place);
    struct description *description = kernel_description_as((int)descriptor, &queue_kind);
    if (!description || !description->can_write) {
        errno = EBADF;
        return -1;
    }
    struct object *queue = description->object;
    if (size > (size_t)queue->message_bytes) {
        errno = EMSGSIZE;
        return -1;
    }
    while (queue->count >= queue->depth)
        if (!wait_at_queue(description, may_send, until_ns, place))
            return -1;
    struct message *message = malloc(sizeof *message + size);
    if (!message)
        schedule_fail("no memory for a message");
    *message = (struct message){.priority = priority, .size = size};
    memcpy(message->data, data, size);
    struct message **at = &queue->first;
    while (*at && (*at)->priority >= priority)
        at = &(*at)->next;
    message->next = *at;
    *at = message;
    queue->count++;
    kernel_note_edge(queue, EPOLLIN);
    kernel_enter(place);
    return 0;
}

int explored_mq_send(mqd_t queue, const char *data, size_t size, unsigned priority)
{
    return send_until(queue, data, size, priority, UINT64_MAX, HERE);
}

int explored_mq_timedsend(mqd_t queue, const char *data, size_t size, unsigned priority,
                          const struct timespec *until)
{
    return send_until(queue, data, size, priority, kernel_ns_of(until), HERE);
}

ssize_t explored_mq_receive(mqd_t descriptor, char *data, size_t size, unsigned *priority)
{
    kernel_enter(HERE);
    struct description *description = kernel_description_as((int)descriptor, &queue_kind);
    if (!description || !description->can_read) {
        errno = EBADF;
        return -1;
    }
    struct object *queue = description->object;
    if (size < (size_t)queue->message_bytes) {
        errno = EMSGSIZE;
        return -1;
    }
    while (queue->count == 0)
        if (!wait_at_queue(description, may_receive, UINT64_MAX, HERE))
            return -1;
    struct message *message = queue->first;
    queue->first = message->next;
    queue->count--;
    ssize_t got = (ssize_t)message->size;
    memcpy(data, message->data, message->size);
    if (priority)
        *priority = message->priority;
    free(message);
    schedule_note_wake();
    kernel_enter(HERE);
    return got;
}
