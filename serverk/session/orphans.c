#include "serverk/session/orphans.h"

#include <dirent.h>
#include <mqueue.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"

/* A start does not wait longer for each of the three. */
#define SWEEP_MS 500u

/* Numbers that are tried in the names of a process that died: a handshake that it did not finish
 * has one of its first, in all but programs that open and close sessions again and again. */
#define NUMBERS_TRIED 128u

/* Counts and tells of a name that was removed. */
static unsigned removed(const char *name)
{
    log_info("removed %s, left by a client that is gone", name);
    return 1;
}

static bool is_leftover(const char *name, const char *queue_name, enum wire_queue_role role)
{
    pid_t pid;
    return wire_queue_name_parse(name, strlen(name), queue_name, role, &pid) &&
           wire_process_ended(pid);
}

static bool open_lockable(const char *name, enum wire_queue_role role, int *opened)
{
    mqd_t queue;
    if (role == WIRE_REPLY_RING)
        return wire_ring_open(name, opened, NULL) == KV_OK;
    if (role != WIRE_REPLY_QUEUE || wire_queue_open(name, true, &queue, NULL, NULL) != KV_OK)
        return false;
    *opened = (int)queue;
    return true;
}

/* A queue or ring whose lock is held lives, also if its process is in another PID namespace. */
static bool is_locked(const char *name, enum wire_queue_role role)
{
    int opened;
    if (!open_lockable(name, role, &opened))
        return false;
    bool locked = wire_queue_owner((mqd_t)opened) != 0;
    close(opened);
    return locked;
}

unsigned orphans_remove_of(const char *queue_name, pid_t pid)
{
    unsigned count = 0;
    char name[WIRE_QUEUE_NAME_BYTES];
    for (unsigned number = 0; number < NUMBERS_TRIED; number++) {
        wire_queue_name(name, queue_name, WIRE_REPLY_QUEUE, pid, number);
        if (!is_locked(name, WIRE_REPLY_QUEUE) && mq_unlink(name) == 0)
            count += removed(name);
        wire_queue_name(name, queue_name, WIRE_REPLY_SEGMENT, pid, number);
        if (shm_unlink(name) == 0)
            count += removed(name);
        wire_queue_name(name, queue_name, WIRE_REPLY_RING, pid, number);
        if (!is_locked(name, WIRE_REPLY_RING) && shm_unlink(name) == 0)
            count += removed(name);
    }
    return count;
}

static unsigned remove_in(const char *directory, const char *queue_name, enum wire_queue_role role,
                          int (*unlink_name)(const char *), uint64_t until_ms)
{
    DIR *listing = opendir(directory);
    if (!listing)
        return 0;
    unsigned count = 0;
    const struct dirent *entry;
    while ((entry = readdir(listing)) && clock_monotonic_coarse_ms() < until_ms) {
        char name[sizeof entry->d_name + 1];
        snprintf(name, sizeof name, "/%s", entry->d_name);
        if (is_leftover(name, queue_name, role) && !is_locked(name, role) && unlink_name(name) == 0)
            count += removed(name);
    }
    if (entry)
        log_warn("%s has too many names: not all were looked at for what dead clients left",
                 directory);
    closedir(listing);
    return count;
}

unsigned orphans_remove(const char *queue_name)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    return remove_in("/dev/mqueue", queue_name, WIRE_REPLY_QUEUE, mq_unlink, now_ms + SWEEP_MS) +
           remove_in("/dev/shm", queue_name, WIRE_REPLY_SEGMENT, shm_unlink,
                     now_ms + 2 * SWEEP_MS) +
           remove_in("/dev/shm", queue_name, WIRE_REPLY_RING, shm_unlink, now_ms + 3 * SWEEP_MS);
}
