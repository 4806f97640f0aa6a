#include "serverk/leftovers.h"

#include <dirent.h>
#include <mqueue.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/log.h"
#include "wire/identity.h"
#include "wire/queue_name.h"

static bool is_leftover(const char *name, const char *queue_name, enum wire_queue_role role)
{
    pid_t pid;
    return wire_queue_name_parse(name, strlen(name), queue_name, role, &pid) &&
           wire_process_ended(pid);
}

static unsigned remove_in(const char *directory, const char *queue_name, enum wire_queue_role role,
                          int (*unlink_name)(const char *))
{
    DIR *listing = opendir(directory);
    if (!listing)
        return 0;
    unsigned removed = 0;
    const struct dirent *entry;
    while ((entry = readdir(listing))) {
        char name[sizeof entry->d_name + 1];
        snprintf(name, sizeof name, "/%s", entry->d_name);
        if (!is_leftover(name, queue_name, role) || unlink_name(name) != 0)
            continue;
        log_info("removed %s, left by a client that is gone", name);
        removed++;
    }
    closedir(listing);
    return removed;
}

unsigned leftovers_remove(const char *queue_name)
{
    return remove_in("/dev/mqueue", queue_name, WIRE_REPLY_QUEUE, mq_unlink) +
           remove_in("/dev/shm", queue_name, WIRE_REPLY_SEGMENT, shm_unlink);
}
