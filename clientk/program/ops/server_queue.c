#include "clientk/program/ops/server_queue.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "wire/identity.h"
#include "wire/queue.h"

#define ENDING ".lock"

static bool is_held_by(const char *file, pid_t pid)
{
    char name[NAME_MAX + 2];
    mqd_t claim;
    snprintf(name, sizeof name, "/%s", file);
    if (wire_queue_open(name, true, &claim, NULL, NULL) != KV_OK)
        return false;
    pid_t owner = wire_queue_owner(claim);
    mq_close(claim);
    return owner == pid;
}

bool server_queue_of(pid_t pid, char name[WIRE_QUEUE_NAME_BYTES])
{
    DIR *directory = opendir("/dev/mqueue");
    const struct dirent *entry;
    bool found = false;
    while (directory && !found && (entry = readdir(directory))) {
        size_t size = strlen(entry->d_name), ending = sizeof ENDING - 1;
        if (size <= ending || strcmp(entry->d_name + size - ending, ENDING) != 0)
            continue;
        snprintf(name, WIRE_QUEUE_NAME_BYTES, "/%.*s", (int)(size - ending), entry->d_name);
        found = wire_name_valid(name) && is_held_by(entry->d_name, pid);
    }
    if (directory)
        closedir(directory);
    return found;
}
