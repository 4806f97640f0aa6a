/* Record locks: a process's, until it ends or closes a descriptor of the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/explore/explore.h"
#include "tests/explore/kernel_objects.h"
#include "tests/explore/machine_calls.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define LOCKS_MAX 256u

static struct {
    struct lock {
        bool is_set;
        unsigned process;
        dev_t device;
        ino_t inode;
        short type;
        off_t begin, end; /* end 0: all that follows */
    } all[LOCKS_MAX];
    unsigned used;
} locks;

void kernel_locks_reset(void)
{
    memset(&locks, 0, sizeof locks);
}

bool kernel_has_locks(void)
{
    return locks.used > 0;
}

void kernel_forget_locks(unsigned process, dev_t device, ino_t inode)
{
    for (unsigned i = 0; i < locks.used; i++) {
        struct lock *lock = &locks.all[i];
        if (lock->process == process && lock->device == device && lock->inode == inode)
            lock->is_set = false;
    }
}

void kernel_end_locks(unsigned process)
{
    for (unsigned i = 0; i < locks.used; i++)
        locks.all[i].is_set &= locks.all[i].process != process;
}

static bool lock_key(int descriptor, dev_t *device, ino_t *inode)
{
    const struct description *description = kernel_description(descriptor);
    struct stat facts;
    if (description) {
        *device = 0;
        *inode = description->object->inode;
        return true;
    }
    if (kernel_is_ours(descriptor) || fstat(descriptor, &facts) != 0) {
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
    for (unsigned i = 0; i < locks.used; i++)
        if (are_in_the_way(&locks.all[i], wanted))
            return &locks.all[i];
    return NULL;
}

static void set_lock(const struct lock *wanted)
{
    struct lock *free_one = NULL;
    for (unsigned i = 0; i < locks.used; i++) {
        struct lock *lock = &locks.all[i];
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
    if (!free_one && locks.used == LOCKS_MAX)
        schedule_fail("a schedule has at most %u locks", LOCKS_MAX);
    if (!free_one)
        free_one = &locks.all[locks.used++];
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
    if (!kernel_is_ours(descriptor) &&
        !(is_lock && schedule_is_running() && kernel_has_processes()))
        return fcntl(descriptor, command, argument);
    kernel_enter(HERE);
    if (command == F_DUPFD_CLOEXEC && kernel_description(descriptor))
        return kernel_open_descriptor(kernel_description(descriptor));
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
