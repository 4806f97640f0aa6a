/*
 * Message queues, locks of files, and what tells of a process's end, as the scheduler has them. The
 * queues are the kernel's and are never waited for there: who waits does so in the schedule. What
 * stands for a process has locks and a pid of its own, which no process of the machine can have.
 */
#include "tests/explore/message_queues.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/explore/descriptors.h"
#include "tests/explore/explore.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE      __builtin_return_address(0)
#define FIRST_PID 4194304 /* no process has such a number */
#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* Queues --------------------------------------------------------------------------------------- */

#define NAMES_MAX 64u

/* Of the queues that were made and not unlinked yet. */
static char names[NAMES_MAX][96];

static bool may_wait[DESCRIPTORS_MAX]; /* the queue was opened without O_NONBLOCK */

static void note_name(const char *name)
{
    for (unsigned i = 0; i < NAMES_MAX; i++)
        if (names[i][0] == '\0') {
            snprintf(names[i], sizeof names[i], "%s", name);
            return;
        }
}

static void forget_name(const char *name)
{
    for (unsigned i = 0; i < NAMES_MAX; i++)
        if (strcmp(names[i], name) == 0)
            names[i][0] = '\0';
}

static void take_step(const void *place)
{
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
}

mqd_t explored_mq_open(const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    struct mq_attr *attributes = flags & O_CREAT ? va_arg(arguments, struct mq_attr *) : NULL;
    va_end(arguments);
    take_step(HERE);
    mqd_t queue = mq_open(name, flags | O_NONBLOCK, mode, attributes);
    if (queue == (mqd_t)-1)
        return queue;
    if (flags & O_CREAT)
        note_name(name);
    may_wait[queue] = !(flags & O_NONBLOCK);
    return descriptors_own(queue);
}

int explored_close(int descriptor);

int explored_mq_close(mqd_t queue)
{
    return explored_close(queue);
}

int explored_mq_unlink(const char *name)
{
    take_step(HERE);
    forget_name(name);
    return mq_unlink(name);
}

int explored_mq_getattr(mqd_t queue, struct mq_attr *attributes)
{
    take_step(HERE);
    return mq_getattr(queue, attributes);
}

int explored_mq_setattr(mqd_t queue, const struct mq_attr *attributes, struct mq_attr *before)
{
    take_step(HERE);
    may_wait[queue] = !(attributes->mq_flags & O_NONBLOCK);
    return before ? mq_getattr(queue, before) : 0;
}

struct polled {
    struct pollfd *entries;
    nfds_t count;
};

static bool has_event(const void *what)
{
    const struct polled *polled = what;
    return poll(polled->entries, polled->count, 0) != 0;
}

/* Waits for the queue. False: the time came, or the queue is not to be waited for; errno says
 * which. */
static bool wait_for_queue(mqd_t queue, short event, const struct timespec *until,
                           const void *place)
{
    struct pollfd entry = {.fd = queue, .events = event};
    struct polled polled = {&entry, 1};
    uint64_t until_ns =
        until ? (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec : UINT64_MAX;
    if (!may_wait[queue]) {
        errno = EAGAIN;
        return false;
    }
    if (schedule_wait(has_event, &polled, until_ns, place))
        return true;
    errno = ETIMEDOUT;
    return false;
}

static int send_to(mqd_t queue, const char *message, size_t size, unsigned priority,
                   const struct timespec *until, const void *place)
{
    take_step(place);
    while (mq_send(queue, message, size, priority) != 0)
        if (errno != EAGAIN || !wait_for_queue(queue, POLLOUT, until, place))
            return -1;
    schedule_note_wake();
    schedule_step(place);
    return 0;
}

int explored_mq_send(mqd_t queue, const char *message, size_t size, unsigned priority)
{
    return send_to(queue, message, size, priority, NULL, HERE);
}

int explored_mq_timedsend(mqd_t queue, const char *message, size_t size, unsigned priority,
                          const struct timespec *until)
{
    return send_to(queue, message, size, priority, until, HERE);
}

static ssize_t receive_from(mqd_t queue, char *message, size_t size, unsigned *priority,
                            const void *place)
{
    ssize_t got;
    take_step(place);
    while ((got = mq_receive(queue, message, size, priority)) < 0)
        if (errno != EAGAIN || !wait_for_queue(queue, POLLIN, NULL, place))
            return -1;
    schedule_note_wake();
    schedule_step(place);
    return got;
}

ssize_t explored_mq_receive(mqd_t queue, char *message, size_t size, unsigned *priority)
{
    return receive_from(queue, message, size, priority, HERE);
}

int explored_poll(struct pollfd *entries, nfds_t count, int timeout_ms)
{
    if (!schedule_is_running())
        return poll(entries, count, timeout_ms);
    take_step(HERE);
    struct polled polled = {entries, count};
    uint64_t until_ns =
        timeout_ms < 0 ? UINT64_MAX : schedule_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    if (timeout_ms != 0 && !has_event(&polled))
        schedule_wait(has_event, &polled, until_ns, HERE);
    return poll(entries, count, 0);
}

static bool has_processes; /* explore_simulate_processes */

void explore_simulate_processes(void)
{
    has_processes = true;
}

/* Locks ---------------------------------------------------------------------------------------- */

/* Those of fcntl(2) that belong to processes. Each goes from some byte to the end, or, once its end
 * was given back, to there; a process has one on a file. */
#define LOCKS_MAX 64u

static struct process_lock {
    bool is_held;
    unsigned process;
    dev_t device;
    ino_t inode;
    struct flock lock;
} process_locks[LOCKS_MAX];

static bool is_of_file(const struct process_lock *held, const struct stat *facts)
{
    return held->is_held && held->device == facts->st_dev && held->inode == facts->st_ino;
}

static struct process_lock *find_lock(const struct stat *facts, unsigned process, bool of_others,
                                      short type)
{
    for (unsigned i = 0; i < LOCKS_MAX; i++) {
        struct process_lock *held = &process_locks[i];
        bool conflicts = type == F_WRLCK || held->lock.l_type == F_WRLCK;
        if (is_of_file(held, facts) && (held->process != process) == of_others &&
            (!of_others || conflicts))
            return held;
    }
    return NULL;
}

static int set_lock(const struct stat *facts, const struct flock *lock)
{
    struct process_lock *own = find_lock(facts, schedule_process(), false, F_WRLCK);
    if (lock->l_type == F_UNLCK) {
        if (own && lock->l_start > own->lock.l_start)
            own->lock.l_len = lock->l_start - own->lock.l_start;
        else if (own)
            own->is_held = false;
        return 0;
    }
    if (find_lock(facts, schedule_process(), true, lock->l_type)) {
        errno = EAGAIN;
        return -1;
    }
    for (unsigned i = 0; !own && i < LOCKS_MAX; i++)
        if (!process_locks[i].is_held)
            own = &process_locks[i];
    if (!own)
        schedule_fail("a schedule has at most %u locks", LOCKS_MAX);
    *own = (struct process_lock){true, schedule_process(), facts->st_dev, facts->st_ino, *lock};
    own->lock.l_pid = FIRST_PID + (pid_t)schedule_process();
    return 0;
}

int explored_fcntl(int descriptor, int command, ...)
{
    struct stat facts;
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (machine_has(descriptor))
        return machine_fcntl(descriptor, command, argument);
    if (!has_processes || (command != F_SETLK && command != F_GETLK))
        return fcntl(descriptor, command, argument);
    take_step(HERE);
    if (fstat(descriptor, &facts) != 0)
        return -1;
    struct flock *lock = argument;
    if (command == F_SETLK)
        return set_lock(&facts, lock);
    const struct process_lock *other = find_lock(&facts, schedule_process(), true, lock->l_type);
    if (other)
        *lock = other->lock;
    else
        lock->l_type = F_UNLCK;
    return 0;
}

/* Processes ------------------------------------------------------------------------------------ */

#define PIDFDS_MAX 64u

static struct pidfd {
    int descriptor; /* 0: none */
    unsigned process;
} pidfds[PIDFDS_MAX];

static bool has_ended[SCHEDULE_MAX_PROCESSES];

static void signal_end(int descriptor)
{
    uint64_t one = 1;
    if (write(descriptor, &one, sizeof one) != sizeof one)
        schedule_fail("an eventfd cannot be written");
}

int message_queues_open_pidfd(pid_t pid)
{
    unsigned process = (unsigned)(pid - FIRST_PID);
    if (process >= SCHEDULE_MAX_PROCESSES || has_ended[process]) {
        errno = ESRCH;
        return -1;
    }
    for (unsigned i = 0; i < PIDFDS_MAX; i++)
        if (pidfds[i].descriptor == 0) {
            int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            pidfds[i] = (struct pidfd){descriptor, process};
            return descriptors_own(descriptor);
        }
    schedule_fail("a schedule has at most %u pidfds", PIDFDS_MAX);
}

bool message_queues_has_pid(pid_t pid)
{
    return pid >= FIRST_PID;
}

void message_queues_forget(int descriptor, unsigned process)
{
    struct stat facts;
    struct process_lock *own = NULL;
    may_wait[descriptor] = false;
    for (unsigned i = 0; i < PIDFDS_MAX; i++)
        if (pidfds[i].descriptor == descriptor)
            pidfds[i].descriptor = 0;
    if (fstat(descriptor, &facts) == 0)
        own = find_lock(&facts, process, false, F_WRLCK);
    if (own)
        own->is_held = false;
}

void message_queues_end_process(unsigned process)
{
    has_ended[process] = true;
    for (unsigned i = 0; i < LOCKS_MAX; i++)
        if (process_locks[i].process == process)
            process_locks[i].is_held = false;
    for (unsigned i = 0; i < PIDFDS_MAX; i++)
        if (pidfds[i].descriptor != 0 && pidfds[i].process == process)
            signal_end(pidfds[i].descriptor);
}

void message_queues_reset(void)
{
    memset(may_wait, 0, sizeof may_wait);
    memset(process_locks, 0, sizeof process_locks);
    memset(pidfds, 0, sizeof pidfds);
    memset(has_ended, 0, sizeof has_ended);
    has_processes = false;
    for (unsigned i = 0; i < NAMES_MAX; i++)
        if (names[i][0] != '\0') {
            mq_unlink(names[i]);
            names[i][0] = '\0';
        }
}
