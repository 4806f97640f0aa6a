#include "clientk/program/ops/stale_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/identity.h"
#include "wire/queue_name.h"

/* A process of another PID namespace looks dead from here, but its lock on its queue does not. */
static bool is_locked(const char *name)
{
    mqd_t queue = mq_open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (queue == (mqd_t)-1)
        return true; /* or not known to be free */
    bool locked = wire_queue_owner(queue) != 0;
    mq_close(queue);
    return locked;
}

static int remove_queue(const char *name)
{
    return is_locked(name) ? -1 : mq_unlink(name);
}

static unsigned remove_in(const char *path, const char *base, enum wire_queue_role role,
                          int (*remove_name)(const char *))
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    unsigned removed = 0;
    while (directory && (entry = readdir(directory))) {
        char name[sizeof entry->d_name + 1];
        struct stat facts;
        pid_t pid;
        snprintf(name, sizeof name, "/%s", entry->d_name);
        if (wire_queue_name_parse(name, strlen(name), base, role, &pid) &&
            fstatat(dirfd(directory), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            facts.st_uid == geteuid() && wire_process_ended(pid) && remove_name(name) == 0)
            removed++;
    }
    if (directory)
        closedir(directory);
    return removed;
}

struct stale_names stale_names_remove_own(const char *base)
{
    return (struct stale_names){
        .queues = remove_in("/dev/mqueue", base, WIRE_REPLY_QUEUE, remove_queue),
        .segments = remove_in("/dev/shm", base, WIRE_REPLY_SEGMENT, shm_unlink)};
}
