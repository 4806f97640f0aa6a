#include "tests/explore/kernel_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/fiber.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE             __builtin_return_address(0)
#define DESCRIPTORS_OURS 512u
#define OBJECTS_MAX      256u
#define LOCKS_MAX        256u
#define WATCHES_MAX      64u
#define NAME_BYTES       128u
#define NS_PER_S         UINT64_C(1000000000)
#define FIRST_PID        1000000 /* of process 0, where processes have numbers of their own */

enum object_kind { NO_OBJECT, QUEUE, EVENT, TIMER, EPOLL, PIDFD };

struct message {
    struct message *next;
    unsigned priority;
    size_t size;
    char data[];
};

struct interest {
    int descriptor;
    struct description *description; /* NULL: none */
    uint32_t events;                 /* 0: it is to be armed again (EPOLLONESHOT) */
    epoll_data_t data;
};

struct object {
    enum object_kind kind;
    unsigned uses; /* descriptions */
    char name[NAME_BYTES];
    ino_t inode;
    uid_t uid;
    mode_t mode;

    struct message *first; /* QUEUE */
    long count, depth, message_bytes;

    uint64_t counter; /* EVENT */
    bool is_semaphore;

    uint64_t due_ns, every_ns; /* TIMER; due_ns 0: not set */

    struct interest *watches; /* EPOLL */

    unsigned process; /* PIDFD */
};

struct description {
    struct object *object; /* NULL: unused */
    unsigned uses;         /* descriptors */
    bool nonblock, can_read, can_write;
};

static struct {
    struct object objects[OBJECTS_MAX];
    struct description descriptions[DESCRIPTORS_OURS];
    struct description *of[DESCRIPTORS_OURS]; /* by descriptor; NULL: not open */
    unsigned owner[DESCRIPTORS_OURS];         /* the process */
    unsigned objects_used, descriptors_used;  /* the highest of the schedule + 1 */
    ino_t next_inode;

    bool has_processes; /* explore_simulate_processes */
    bool has_uid[SCHEDULE_MAX_PROCESSES];
    uid_t uids[SCHEDULE_MAX_PROCESSES];
    bool has_ended[SCHEDULE_MAX_PROCESSES];
    bool is_signalled[FIBERS_MAX];

    struct lock {
        bool is_set;
        unsigned process;
        dev_t device;
        ino_t inode;
        short type;
        off_t begin, end; /* end 0: all that follows */
    } locks[LOCKS_MAX];
    unsigned locks_used;
} kernel;

static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

/* A system call is a step, and what was stored before it is seen. */
static void enter(const void *place)
{
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
}

/* Descriptors ---------------------------------------------------------------------------------- */

static void free_object(struct object *object)
{
    while (object->first) {
        struct message *message = object->first;
        object->first = message->next;
        free(message);
    }
    free(object->watches);
    object->watches = NULL;
    object->kind = NO_OBJECT;
}

void kernel_reset(void)
{
    for (unsigned i = 0; i < kernel.objects_used; i++)
        free_object(&kernel.objects[i]);
    memset(&kernel, 0, sizeof kernel);
    kernel.next_inode = 1;
}

static struct object *new_object(enum object_kind kind)
{
    for (unsigned i = 0; i < OBJECTS_MAX; i++)
        if (kernel.objects[i].kind == NO_OBJECT) {
            if (i >= kernel.objects_used)
                kernel.objects_used = i + 1;
            kernel.objects[i] = (struct object){.kind = kind, .inode = kernel.next_inode++};
            return &kernel.objects[i];
        }
    schedule_fail("a schedule has at most %u queues, events and the like", OBJECTS_MAX);
}

/* The lowest that is free. */
static int open_descriptor(struct description *description)
{
    for (unsigned i = 0; i < DESCRIPTORS_OURS; i++) {
        if (kernel.of[i])
            continue;
        description->uses++;
        kernel.of[i] = description;
        kernel.owner[i] = schedule_process();
        if (i >= kernel.descriptors_used)
            kernel.descriptors_used = i + 1;
        return KERNEL_FIRST_DESCRIPTOR + (int)i;
    }
    schedule_fail("a schedule has at most %u descriptors", DESCRIPTORS_OURS);
}

static int open_object(struct object *object, bool nonblock, bool can_read, bool can_write)
{
    struct description *description = kernel.descriptions;
    while (description->object)
        description++;
    *description = (struct description){object, 0, nonblock, can_read, can_write};
    object->uses++;
    return open_descriptor(description);
}

static bool is_ours(int descriptor)
{
    return descriptor >= KERNEL_FIRST_DESCRIPTOR;
}

/* NULL: it is not open. */
static struct description *description_of(int descriptor)
{
    unsigned at = (unsigned)(descriptor - KERNEL_FIRST_DESCRIPTOR);
    return is_ours(descriptor) && at < DESCRIPTORS_OURS ? kernel.of[at] : NULL;
}

/* NULL and EBADF: it is not open, or is none of that kind. */
static struct description *description_as(int descriptor, enum object_kind kind)
{
    struct description *description = description_of(descriptor);
    if (description && description->object->kind == kind)
        return description;
    errno = EBADF;
    return NULL;
}

/* A closed descriptor of a file takes all locks of the process with it. */
static void forget_locks(unsigned process, dev_t device, ino_t inode)
{
    for (unsigned i = 0; i < kernel.locks_used; i++) {
        struct lock *lock = &kernel.locks[i];
        if (lock->process == process && lock->device == device && lock->inode == inode)
            lock->is_set = false;
    }
}

static void drop(unsigned at)
{
    struct description *description = kernel.of[at];
    struct object *object = description->object;
    forget_locks(kernel.owner[at], 0, object->inode);
    kernel.of[at] = NULL;
    if (--description->uses > 0)
        return;
    description->object = NULL;
    for (unsigned i = 0; i < kernel.objects_used; i++)
        for (unsigned j = 0; kernel.objects[i].watches && j < WATCHES_MAX; j++)
            if (kernel.objects[i].watches[j].description == description)
                kernel.objects[i].watches[j].description = NULL;
    if (--object->uses == 0 && !object->name[0])
        free_object(object);
}

bool kernel_close(int descriptor)
{
    struct stat facts;
    if (!is_ours(descriptor)) {
        if (kernel.has_processes && kernel.locks_used > 0 && fstat(descriptor, &facts) == 0)
            forget_locks(schedule_process(), facts.st_dev, facts.st_ino);
        return false;
    }
    if (!description_of(descriptor))
        schedule_fail("descriptor %d is closed, which is not open", descriptor);
    if (kernel.has_processes &&
        kernel.owner[descriptor - KERNEL_FIRST_DESCRIPTOR] != schedule_process())
        schedule_fail("process %u closes what process %u has open", schedule_process(),
                      kernel.owner[descriptor - KERNEL_FIRST_DESCRIPTOR]);
    drop((unsigned)(descriptor - KERNEL_FIRST_DESCRIPTOR));
    return true;
}

void kernel_end_process(unsigned process)
{
    kernel.has_ended[process] = true;
    for (unsigned i = 0; i < kernel.descriptors_used; i++)
        if (kernel.of[i] && kernel.owner[i] == process)
            drop(i);
    for (unsigned i = 0; i < kernel.locks_used; i++)
        kernel.locks[i].is_set &= kernel.locks[i].process != process;
}

int explored_dup3(int from, int to, int flags)
{
    struct description *description = description_of(from);
    enter(HERE);
    if (!description)
        return dup3(from, to, flags);
    unsigned at = (unsigned)(to - KERNEL_FIRST_DESCRIPTOR);
    description->uses++; /* also if it is the same one */
    if (description_of(to))
        drop(at);
    kernel.of[at] = description;
    kernel.owner[at] = schedule_process();
    return to;
}

/* Processes and users -------------------------------------------------------------------------- */

void explore_simulate_processes(void)
{
    kernel.has_processes = true;
}

void explore_set_uid(unsigned process, uid_t uid)
{
    kernel.has_uid[process] = true;
    kernel.uids[process] = uid;
}

pid_t explore_pid(unsigned process)
{
    return FIRST_PID + (pid_t)process;
}

void explore_exit(void)
{
    kernel_end_process(schedule_process());
}

pid_t explored_getpid(void)
{
    return schedule_is_running() && kernel.has_processes ? explore_pid(schedule_process())
                                                         : getpid();
}

uid_t explored_geteuid(void)
{
    return schedule_is_running() && kernel.has_uid[schedule_process()]
               ? kernel.uids[schedule_process()]
               : geteuid();
}

bool kernel_has_processes(void)
{
    return kernel.has_processes;
}

int kernel_open_pidfd(pid_t pid)
{
    unsigned process = (unsigned)(pid - FIRST_PID);
    if (process >= SCHEDULE_MAX_PROCESSES || kernel.has_ended[process]) {
        errno = ESRCH;
        return -1;
    }
    struct object *object = new_object(PIDFD);
    object->process = process;
    return open_object(object, false, true, false);
}

int explored_kill(pid_t pid, int number)
{
    (void)pid;
    schedule_fail("the code sends itself signal %d", number);
}

/* Interrupts a receive that blocks. */
int explored_pthread_kill(pthread_t thread, int number)
{
    (void)number;
    enter(HERE);
    kernel.is_signalled[schedule_thread_of(thread)] = true;
    schedule_note_wake();
    return 0;
}

int explored_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    return schedule_is_running() ? 0 : sigaction(number, action, before);
}

/* Record locks --------------------------------------------------------------------------------- */

static bool lock_key(int descriptor, dev_t *device, ino_t *inode)
{
    const struct description *description = description_of(descriptor);
    struct stat facts;
    if (description) {
        *device = 0;
        *inode = description->object->inode;
        return true;
    }
    if (is_ours(descriptor) || fstat(descriptor, &facts) != 0) {
        errno = EBADF;
        return false;
    }
    *device = facts.st_dev;
    *inode = facts.st_ino;
    return true;
}

static bool are_in_the_way(const struct lock *a, const struct lock *b)
{
    return a->is_set && a->process != b->process && a->device == b->device &&
           a->inode == b->inode && (a->type == F_WRLCK || b->type == F_WRLCK) &&
           (b->end == 0 || a->begin < b->end) && (a->end == 0 || b->begin < a->end);
}

static const struct lock *find_conflict(const struct lock *wanted)
{
    for (unsigned i = 0; i < kernel.locks_used; i++)
        if (are_in_the_way(&kernel.locks[i], wanted))
            return &kernel.locks[i];
    return NULL;
}

static void set_lock(const struct lock *wanted)
{
    struct lock *free_one = NULL;
    for (unsigned i = 0; i < kernel.locks_used; i++) {
        struct lock *lock = &kernel.locks[i];
        if (!lock->is_set) {
            free_one = lock;
        } else if (lock->process == wanted->process && lock->device == wanted->device &&
                   lock->inode == wanted->inode) {
            if (wanted->type == F_UNLCK && wanted->begin > lock->begin) {
                lock->end = wanted->begin;
                return;
            }
            lock->is_set = false;
            free_one = lock;
        }
    }
    if (wanted->type == F_UNLCK)
        return;
    if (!free_one && kernel.locks_used == LOCKS_MAX)
        schedule_fail("a schedule has at most %u locks", LOCKS_MAX);
    if (!free_one)
        free_one = &kernel.locks[kernel.locks_used++];
    *free_one = *wanted;
    free_one->is_set = true;
}

int explored_fcntl(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (machine_has(descriptor))
        return machine_fcntl(descriptor, command, argument);
    bool is_lock = command == F_SETLK || command == F_GETLK;
    if (!is_ours(descriptor) && !(is_lock && schedule_is_running() && kernel.has_processes))
        return fcntl(descriptor, command, argument);
    enter(HERE);
    if (command == F_DUPFD_CLOEXEC && description_of(descriptor))
        return open_descriptor(description_of(descriptor));
    if (!is_lock)
        schedule_fail("a fcntl that the explorer does not know: %d", command);
    struct flock *lock = argument;
    struct lock wanted = {.process = schedule_process(),
                          .type = lock->l_type,
                          .begin = lock->l_start,
                          .end = lock->l_len > 0 ? lock->l_start + lock->l_len : 0};
    if (!lock_key(descriptor, &wanted.device, &wanted.inode))
        return -1;
    const struct lock *conflict = wanted.type == F_UNLCK ? NULL : find_conflict(&wanted);
    if (command == F_GETLK) {
        lock->l_type = conflict ? conflict->type : F_UNLCK;
        if (conflict) {
            lock->l_pid = explore_pid(conflict->process);
            lock->l_start = conflict->begin;
            lock->l_len = conflict->end > 0 ? conflict->end - conflict->begin : 0;
        }
        return 0;
    }
    if (conflict) {
        errno = EAGAIN;
        return -1;
    }
    set_lock(&wanted);
    return 0;
}

/* Facts ---------------------------------------------------------------------------------------- */

int kernel_fstat(int descriptor, struct stat *facts)
{
    const struct description *description = description_of(descriptor);
    if (!is_ours(descriptor))
        return fstat(descriptor, facts);
    enter(HERE);
    if (!description) {
        errno = EBADF;
        return -1;
    }
    const struct object *object = description->object;
    *facts = (struct stat){.st_ino = object->inode,
                           .st_nlink = object->name[0] != '\0',
                           .st_uid = object->uid,
                           .st_mode = object->mode};
    return 0;
}

static bool may_change(const struct object *object)
{
    uid_t uid = explored_geteuid();
    if (uid == 0 || uid == object->uid)
        return true;
    errno = EPERM;
    return false;
}

int kernel_fchmod(int descriptor, mode_t mode)
{
    struct description *description = description_of(descriptor);
    if (!description)
        return fchmod(descriptor, mode);
    enter(HERE);
    if (!may_change(description->object))
        return -1;
    description->object->mode = mode;
    return 0;
}

int kernel_fchown(int descriptor, uid_t uid, gid_t gid)
{
    struct description *description = description_of(descriptor);
    if (!description)
        return fchown(descriptor, uid, gid);
    enter(HERE);
    if (uid != (uid_t)-1 && uid != description->object->uid && explored_geteuid() != 0) {
        errno = EPERM;
        return -1;
    }
    if (!may_change(description->object))
        return -1;
    if (uid != (uid_t)-1)
        description->object->uid = uid;
    return 0;
}

/* What is there depends on others. */
DIR *explored_opendir(const char *path)
{
    if (schedule_is_running() && strncmp(path, "/dev/", 5) == 0) {
        errno = EACCES;
        return NULL;
    }
    return opendir(path);
}

/* Message queues ------------------------------------------------------------------------------- */

static struct object *find_queue(const char *name)
{
    for (unsigned i = 0; i < kernel.objects_used; i++)
        if (kernel.objects[i].kind == QUEUE && strcmp(kernel.objects[i].name, name) == 0)
            return &kernel.objects[i];
    return NULL;
}

bool explore_find_queue(const char *prefix, unsigned nth, char *name)
{
    for (unsigned i = 0; i < kernel.objects_used; i++)
        if (kernel.objects[i].kind == QUEUE &&
            strncmp(kernel.objects[i].name, prefix, strlen(prefix)) == 0 && nth-- == 0) {
            strcpy(name, kernel.objects[i].name);
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
    enter(HERE);
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
        queue = new_object(QUEUE);
        snprintf(queue->name, sizeof queue->name, "%s", name);
        queue->uid = explored_geteuid();
        queue->mode = mode;
        queue->depth = attributes ? attributes->mq_maxmsg : 10;
        queue->message_bytes = attributes ? attributes->mq_msgsize : 8192;
    }
    return (mqd_t)open_object(queue, (flags & O_NONBLOCK) != 0, (flags & O_ACCMODE) != O_WRONLY,
                              (flags & O_ACCMODE) != O_RDONLY);
}

int explored_mq_unlink(const char *name)
{
    enter(HERE);
    struct object *queue = find_queue(name);
    if (!queue) {
        errno = ENOENT;
        return -1;
    }
    if (!may_change(queue)) {
        errno = EACCES;
        return -1;
    }
    queue->name[0] = '\0';
    if (queue->uses == 0)
        free_object(queue);
    return 0;
}

int explored_mq_close(mqd_t queue)
{
    enter(HERE);
    kernel_close((int)queue);
    return 0;
}

int explored_mq_getattr(mqd_t queue, struct mq_attr *attributes)
{
    enter(HERE);
    const struct description *description = description_as((int)queue, QUEUE);
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
    enter(HERE);
    struct description *description = description_as((int)queue, QUEUE);
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
    return wait->queue->count > 0 || kernel.is_signalled[wait->thread];
}

static bool may_send(const void *what)
{
    const struct queue_wait *wait = what;
    return wait->queue->count < wait->queue->depth || kernel.is_signalled[wait->thread];
}

/* False: errno. */
static bool wait_at_queue(const struct description *description, bool (*is_ready)(const void *),
                          uint64_t until_ns, const void *place)
{
    struct queue_wait wait = {description->object, schedule_thread()};
    kernel.is_signalled[wait.thread] = false;
    if (is_ready(&wait))
        return true;
    errno = EAGAIN;
    if (description->nonblock)
        return false;
    errno = ETIMEDOUT;
    if (!schedule_wait(is_ready, &wait, until_ns, place))
        return false;
    errno = EINTR;
    return !kernel.is_signalled[wait.thread];
}

static int send_until(mqd_t descriptor, const char *data, size_t size, unsigned priority,
                      uint64_t until_ns, const void *place)
{
    enter(place);
    struct description *description = description_as((int)descriptor, QUEUE);
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
    schedule_note_wake();
    enter(place);
    return 0;
}

int explored_mq_send(mqd_t queue, const char *data, size_t size, unsigned priority)
{
    return send_until(queue, data, size, priority, UINT64_MAX, HERE);
}

int explored_mq_timedsend(mqd_t queue, const char *data, size_t size, unsigned priority,
                          const struct timespec *until)
{
    return send_until(queue, data, size, priority, ns_of(until), HERE);
}

ssize_t explored_mq_receive(mqd_t descriptor, char *data, size_t size, unsigned *priority)
{
    enter(HERE);
    struct description *description = description_as((int)descriptor, QUEUE);
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
    enter(HERE);
    return got;
}

/* Events and timers ---------------------------------------------------------------------------- */

int explored_eventfd(unsigned counter, int flags)
{
    if (!schedule_is_running())
        return eventfd(counter, flags);
    struct object *event = new_object(EVENT);
    event->counter = counter;
    event->is_semaphore = (flags & EFD_SEMAPHORE) != 0;
    return open_object(event, (flags & EFD_NONBLOCK) != 0, true, true);
}

int explored_timerfd_create(int clock, int flags)
{
    if (!schedule_is_running())
        return timerfd_create(clock, flags);
    return open_object(new_object(TIMER), (flags & TFD_NONBLOCK) != 0, true, false);
}

int explored_timerfd_settime(int descriptor, int flags, const struct itimerspec *time,
                             struct itimerspec *before)
{
    (void)before;
    enter(HERE);
    struct description *description = description_as(descriptor, TIMER);
    if (!description)
        return -1;
    uint64_t first_ns = ns_of(&time->it_value);
    uint64_t base_ns = flags & TFD_TIMER_ABSTIME ? 0 : schedule_clock_ns();
    description->object->due_ns = first_ns == 0 ? 0 : base_ns + first_ns;
    description->object->every_ns = ns_of(&time->it_interval);
    schedule_note_wake();
    return 0;
}

bool explore_timer_runs(int timer)
{
    const struct description *description = description_as(timer, TIMER);
    return description && description->object->due_ns != 0;
}

uint64_t kernel_next_timer_ns(void)
{
    uint64_t next_ns = UINT64_MAX;
    for (unsigned i = 0; i < kernel.objects_used; i++) {
        const struct object *object = &kernel.objects[i];
        if (object->kind == TIMER && object->due_ns > schedule_clock_ns() &&
            object->due_ns < next_ns)
            next_ns = object->due_ns;
    }
    return next_ns;
}

/* Waiting for descriptors ---------------------------------------------------------------------- */

static uint32_t ready_events(const struct object *object);

static bool has_ready_watch(const struct object *epoll)
{
    for (unsigned i = 0; i < WATCHES_MAX; i++) {
        const struct interest *interest = &epoll->watches[i];
        if (interest->description &&
            (ready_events(interest->description->object) & interest->events))
            return true;
    }
    return false;
}

static uint32_t ready_events(const struct object *object)
{
    switch (object->kind) {
    case QUEUE:
        return (object->count > 0 ? EPOLLIN : 0u) | (object->count < object->depth ? EPOLLOUT : 0u);
    case EVENT:
        return (object->counter > 0 ? EPOLLIN : 0u) | EPOLLOUT;
    case TIMER:
        return object->due_ns != 0 && object->due_ns <= schedule_clock_ns() ? EPOLLIN : 0;
    case PIDFD:
        return kernel.has_ended[object->process] ? EPOLLIN : 0;
    case EPOLL:
        return has_ready_watch(object) ? EPOLLIN : 0;
    case NO_OBJECT:
        break;
    }
    return 0;
}

static bool is_readable(const void *what)
{
    return (ready_events(what) & EPOLLIN) != 0;
}

ssize_t explored_read(int descriptor, void *buffer, size_t bytes)
{
    struct description *description = description_of(descriptor);
    if (!is_ours(descriptor))
        return read(descriptor, buffer, bytes);
    enter(HERE);
    if (!description || bytes < sizeof(uint64_t)) {
        errno = description ? EINVAL : EBADF;
        return -1;
    }
    struct object *object = description->object;
    while (!is_readable(object)) {
        if (description->nonblock) {
            errno = EAGAIN;
            return -1;
        }
        schedule_wait(is_readable, object, UINT64_MAX, HERE);
    }
    uint64_t value = 1;
    if (object->kind == EVENT) {
        value = object->is_semaphore ? 1 : object->counter;
        object->counter -= value;
    } else {
        value += object->every_ns ? (schedule_clock_ns() - object->due_ns) / object->every_ns : 0;
        object->due_ns = object->every_ns ? object->due_ns + value * object->every_ns : 0;
    }
    memcpy(buffer, &value, sizeof value);
    schedule_note_wake();
    return (ssize_t)sizeof value;
}

ssize_t explored_write(int descriptor, const void *data, size_t bytes)
{
    struct description *description = description_of(descriptor);
    uint64_t value;
    if (!is_ours(descriptor))
        return write(descriptor, data, bytes);
    enter(HERE);
    if (!description || description->object->kind != EVENT || bytes < sizeof value) {
        errno = description ? EINVAL : EBADF;
        return -1;
    }
    memcpy(&value, data, sizeof value);
    description->object->counter += value;
    schedule_note_wake();
    enter(HERE);
    return (ssize_t)sizeof value;
}

int explored_eventfd_write(int descriptor, eventfd_t value)
{
    return explored_write(descriptor, &value, sizeof value) == (ssize_t)sizeof value ? 0 : -1;
}

int explored_eventfd_read(int descriptor, eventfd_t *value)
{
    return explored_read(descriptor, value, sizeof *value) == (ssize_t)sizeof *value ? 0 : -1;
}

int explored_epoll_create1(int flags)
{
    if (!schedule_is_running())
        return epoll_create1(flags);
    struct object *epoll = new_object(EPOLL);
    epoll->watches = calloc(WATCHES_MAX, sizeof *epoll->watches);
    if (!epoll->watches)
        schedule_fail("no memory for an epoll set");
    return open_object(epoll, false, true, false);
}

static struct interest *find_watch(const struct object *epoll, int descriptor,
                                   const struct description *description)
{
    for (unsigned i = 0; i < WATCHES_MAX; i++)
        if (epoll->watches[i].description == description &&
            (!description || epoll->watches[i].descriptor == descriptor))
            return &epoll->watches[i];
    return NULL;
}

int explored_epoll_ctl(int set, int operation, int descriptor, struct epoll_event *event)
{
    if (!is_ours(set))
        return epoll_ctl(set, operation, descriptor, event);
    enter(HERE);
    struct description *of_set = description_as(set, EPOLL);
    struct description *description = description_of(descriptor);
    if (!of_set || !description) {
        errno = EBADF;
        return -1;
    }
    struct object *epoll = of_set->object;
    struct interest *interest = find_watch(epoll, descriptor, description);
    if (!interest != (operation == EPOLL_CTL_ADD)) {
        errno = interest ? EEXIST : ENOENT;
        return -1;
    }
    if (operation == EPOLL_CTL_DEL) {
        interest->description = NULL;
        return 0;
    }
    if (!interest)
        interest = find_watch(epoll, 0, NULL);
    if (!interest)
        schedule_fail("an epoll set has at most %u descriptors", WATCHES_MAX);
    *interest = (struct interest){descriptor, description, event->events, event->data};
    schedule_note_wake();
    enter(HERE);
    return 0;
}

static int take_events(const struct object *epoll, struct epoll_event *events, int most)
{
    int count = 0;
    unsigned first = (unsigned)(schedule_random() % WATCHES_MAX);
    for (unsigned i = 0; i < WATCHES_MAX && count < most; i++) {
        struct interest *interest = &epoll->watches[(first + i) % WATCHES_MAX];
        uint32_t ready = interest->description
                             ? ready_events(interest->description->object) & interest->events
                             : 0;
        if (ready == 0)
            continue;
        events[count++] = (struct epoll_event){.events = ready, .data = interest->data};
        if (interest->events & EPOLLONESHOT)
            interest->events = 0;
    }
    return count;
}

static uint64_t until_of(const struct timespec *timeout)
{
    return timeout ? schedule_clock_ns() + ns_of(timeout) : UINT64_MAX;
}

static uint64_t until_of_ms(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX
                          : schedule_clock_ns() + (uint64_t)timeout_ms * UINT64_C(1000000);
}

int explored_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms)
{
    if (!is_ours(set))
        return epoll_wait(set, events, most, timeout_ms);
    uint64_t until_ns = until_of_ms(timeout_ms);
    enter(HERE);
    struct description *description = description_as(set, EPOLL);
    if (!description)
        return -1;
    for (;;) {
        int count = take_events(description->object, events, most);
        if (count > 0 || timeout_ms == 0)
            return count;
        if (!schedule_wait(is_readable, description->object, until_ns, HERE))
            return 0;
    }
}

struct polled {
    struct pollfd *events;
    nfds_t count;
};

static int look(const struct polled *polled)
{
    int ready = 0;
    for (nfds_t i = 0; i < polled->count; i++) {
        struct pollfd *event = &polled->events[i];
        const struct description *description = description_of(event->fd);
        event->revents = 0;
        if (event->fd < 0)
            continue;
        if (!is_ours(event->fd))
            poll(event, 1, 0);
        else if (!description)
            event->revents = POLLNVAL;
        else
            event->revents = (short)(ready_events(description->object) & (uint32_t)event->events);
        ready += event->revents != 0;
    }
    return ready;
}

static bool is_any_ready(const void *polled)
{
    return look(polled) > 0;
}

static int poll_until(struct pollfd *events, nfds_t count, uint64_t until_ns, const void *place)
{
    struct polled polled = {events, count};
    enter(place);
    if (look(&polled) == 0 && until_ns > schedule_clock_ns())
        schedule_wait(is_any_ready, &polled, until_ns, place);
    return look(&polled);
}

int explored_poll(struct pollfd *events, nfds_t count, int timeout_ms)
{
    return schedule_is_running() ? poll_until(events, count, until_of_ms(timeout_ms), HERE)
                                 : poll(events, count, timeout_ms);
}

int explored_ppoll(struct pollfd *events, nfds_t count, const struct timespec *timeout,
                   const sigset_t *signals)
{
    return schedule_is_running() ? poll_until(events, count, until_of(timeout), HERE)
                                 : ppoll(events, count, timeout, signals);
}

void kernel_describe(char *text, size_t size)
{
    size_t at = strlen(text);
    for (unsigned i = 0; i < kernel.objects_used && at + NAME_BYTES + 64 < size; i++) {
        const struct object *object = &kernel.objects[i];
        if (object->kind == QUEUE && object->count > 0)
            at += (size_t)snprintf(text + at, size - at, "; queue %u %s has %ld messages", i,
                                   object->name, object->count);
        if (object->kind == EVENT && object->counter > 0)
            at += (size_t)snprintf(text + at, size - at, "; event %u is set", i);
    }
}
