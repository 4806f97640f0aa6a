#include "wire/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/assert/assert.h"

static int lock_from(mqd_t queue, short type, off_t start)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 0};
    int result;
    do
        result = fcntl((int)queue, F_SETLK, &lock);
    while (result < 0 && errno == EINTR);
    return result;
}

static int lock_whole(mqd_t queue, short type)
{
    return lock_from(queue, type, 0);
}

/* Finds a lock of another process that is in the way of a write lock: every lock is. */
static int conflicting_lock(mqd_t queue, struct flock *lock)
{
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    return fcntl((int)queue, F_GETLK, lock);
}

/* The pid of the process that holds the lock; 0: no process does; -1 with errno ESRCH: one that
 * this PID namespace does not show (l_pid is 0), or none owns the lock (l_pid is -1). */
static pid_t lock_pid(const struct flock *lock)
{
    if (lock->l_type == F_UNLCK)
        return 0;
    if (lock->l_pid > 0)
        return lock->l_pid;
    errno = ESRCH;
    return -1;
}

int wire_lock_queue(mqd_t queue, pid_t *owner)
{
    if (lock_whole(queue, F_WRLCK) == 0)
        return 0;
    int error_number = errno;
    if (owner) {
        pid_t pid = wire_queue_owner(queue);
        *owner = pid > 0 ? pid : 0;
    }
    errno = error_number;
    return -1;
}

int wire_lock_show(mqd_t queue, uint64_t number)
{
    KV_ASSERT(number > 0 && number <= INT64_MAX);
    return lock_from(queue, F_UNLCK, (off_t)number);
}

uint64_t wire_lock_shown(mqd_t queue)
{
    struct flock lock;
    bool held = conflicting_lock(queue, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_start == 0;
    return held && lock.l_len > 0 ? (uint64_t)lock.l_len : 0;
}

int wire_lock_lane(mqd_t lane)
{
    return lock_whole(lane, F_RDLCK);
}

pid_t wire_queue_owner(mqd_t queue)
{
    struct flock lock;
    return conflicting_lock(queue, &lock) == 0 ? lock_pid(&lock) : -1;
}

pid_t wire_lane_server(mqd_t lane)
{
    struct flock lock;
    if (conflicting_lock(lane, &lock) != 0)
        return -1;
    return lock.l_type == F_RDLCK ? lock_pid(&lock) : 0;
}

uid_t wire_queue_uid(mqd_t queue)
{
    struct stat facts;
    return fstat((int)queue, &facts) == 0 ? facts.st_uid : (uid_t)-1;
}

bool wire_queue_unlinked(mqd_t queue)
{
    struct stat facts;
    return fstat((int)queue, &facts) != 0 || facts.st_nlink == 0;
}

/* The system call itself: the C libraries of older systems have no wrapper. */
static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int pidfd_of(mqd_t queue, pid_t (*find)(mqd_t), pid_t *pid)
{
    pid_t owner = find(queue);
    if (owner <= 0) {
        if (owner == 0)
            errno = ESRCH;
        return -1;
    }
    int pidfd = open_pidfd(owner);
    if (pidfd < 0)
        return -1;
    /* Between the two calls the owner may have died, and its pid may have been given away. If the
     * owner still holds the lock, it lived when the pidfd was opened. */
    if (find(queue) != owner) {
        close(pidfd);
        errno = ESRCH;
        return -1;
    }
    if (pid)
        *pid = owner;
    return pidfd;
}

int wire_queue_owner_pidfd(mqd_t queue, pid_t *pid)
{
    return pidfd_of(queue, wire_queue_owner, pid);
}

int wire_lane_server_pidfd(mqd_t lane, pid_t *pid)
{
    return pidfd_of(lane, wire_lane_server, pid);
}

/* The line "NSpid:" lists the pids of the process from this namespace down to its own. */
bool wire_pidfd_has_pid(int pidfd, pid_t pid)
{
    char text[512];
    static _Atomic int directory = -1;
    char name[16];
    if (directory < 0)
        directory = open("/proc/self/fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(name, sizeof name, "%d", pidfd);
    int fdinfo = directory < 0 || pidfd < 0 ? -1 : openat(directory, name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fdinfo < 0 ? -1 : read(fdinfo, text, sizeof text - 1);
    if (fdinfo >= 0)
        close(fdinfo);
    text[size > 0 ? size : 0] = '\0';
    char *line = strstr(text, "NSpid:");
    if (!line)
        return true;
    line += strlen("NSpid:");
    for (char *end; *line != '\n' && *line != '\0'; line = end) {
        long number = strtol(line, &end, 10);
        if (end == line)
            break;
        if (number == pid)
            return true;
        if (*end == '\n')
            break;
    }
    return false;
}

bool wire_process_ended(pid_t pid)
{
    int pidfd = open_pidfd(pid);
    if (pidfd < 0)
        return errno == ESRCH;
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    bool ended = poll(&end, 1, 0) == 1;
    close(pidfd);
    return ended;
}
