#include "wire/stale_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"

#define AGAIN_AFTER_MS 1000u

/* Where queues cannot be listed: how many pids before this process's to try, and how many names of
 * each. */
#define PIDS_TRIED    16384
#define NUMBERS_TRIED 4u

/* Returns true if the object is older than a second: the process that made a younger one may be
 * about to lock it, or to offer it to a server. */
static bool stale_is_old(const struct stat *facts)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > facts->st_ctim.tv_sec + 1 || now.tv_sec + 1 < facts->st_ctim.tv_sec;
}

/* Returns true if `name` is that of a client of `base` (NULL: of any NAME) whose process has
 * ended. */
static bool is_of_the_dead(const char *name, const char *base, enum wire_queue_role role)
{
    char found[WIRE_QUEUE_NAME_BYTES];
    pid_t pid;
    if (!base) {
        const char *last_dot = strrchr(name, '.');
        const char *dot = last_dot ? memrchr(name, '.', (size_t)(last_dot - name)) : NULL;
        if (!dot || (size_t)(dot - name) >= sizeof found)
            return false;
        snprintf(found, sizeof found, "%.*s", (int)(dot - name), name);
        if (!wire_name_valid(found))
            return false;
        base = found;
    }
    return wire_queue_name_parse(name, strlen(name), base, role, &pid) && wire_process_ended(pid);
}

static bool is_of_a_ladder(struct wire_geometry geometry, const struct wire_geometry *ladder)
{
    for (; ladder->depth > 0; ladder++)
        if (ladder->depth == geometry.depth && ladder->message_bytes == geometry.message_bytes)
            return true;
    return false;
}

/* Removes the queue `name` if it is stale. ours: its name begins with our base. */
static bool stale_queue_remove(const char *name, bool ours)
{
    mqd_t queue;
    struct wire_geometry geometry;
    struct stat facts;
    if (wire_queue_open(name, true, &queue, &geometry, NULL) != KV_OK)
        return false;
    bool left = fstat((int)queue, &facts) == 0 && facts.st_uid == geteuid() &&
                stale_is_old(&facts) && wire_queue_owner(queue) == 0 &&
                (ours || is_of_a_ladder(geometry, wire_reply_ladder) ||
                 is_of_a_ladder(geometry, wire_window_ladder));
    mq_close(queue);
    return left && mq_unlink(name) == 0;
}

/* Returns true if a process, perhaps of another PID namespace, holds the lock of the ring
 * `name`. */
static bool ring_is_held(const char *name)
{
    int object;
    if (wire_ring_open(name, &object, NULL) != KV_OK)
        return false;
    bool held = wire_queue_owner((mqd_t)object) != 0;
    close(object);
    return held;
}

static bool stale_object_remove(int directory, const char *file, const char *name,
                                enum wire_queue_role role)
{
    struct stat facts;
    if (role == WIRE_REPLY_RING && ring_is_held(name))
        return false;
    return fstatat(directory, file, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts.st_mode) &&
           facts.st_uid == geteuid() && stale_is_old(&facts) && shm_unlink(name) == 0;
}

static unsigned stale_names_remove_listed(const char *path, const char *base,
                                          enum wire_queue_role role)
{
    unsigned count = 0;
    DIR *listing = opendir(path);
    const struct dirent *entry;
    while (listing && (entry = readdir(listing))) {
        char name[sizeof entry->d_name + 1];
        snprintf(name, sizeof name, "/%s", entry->d_name);
        bool ours = is_of_the_dead(name, base, role);
        if (role != WIRE_REPLY_QUEUE)
            count += ours && stale_object_remove(dirfd(listing), entry->d_name, name, role);
        else if (ours || is_of_the_dead(name, NULL, role))
            count += stale_queue_remove(name, ours);
    }
    if (listing)
        closedir(listing);
    return count;
}

/* Tries the names of processes with pids below ours: most processes that were killed lately had
 * such a pid. */
static unsigned stale_names_remove_likely(const char *base)
{
    unsigned count = 0;
    pid_t own = getpid();
    for (pid_t pid = own - 1; pid > 0 && pid > own - PIDS_TRIED; pid--) {
        for (unsigned number = 0; number < NUMBERS_TRIED; number++) {
            char name[WIRE_QUEUE_NAME_BYTES];
            wire_queue_name(name, base, WIRE_REPLY_QUEUE, pid, number);
            mqd_t queue = mq_open(name, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
            if (queue == (mqd_t)-1)
                break; /* numbers begin with 0 */
            mq_close(queue);
            if (is_of_the_dead(name, base, WIRE_REPLY_QUEUE))
                count += stale_queue_remove(name, true);
        }
    }
    return count;
}

struct stale_names wire_stale_names_remove(const char *base)
{
    struct stale_names removed = {
        .queues = stale_names_remove_listed("/dev/mqueue", base, WIRE_REPLY_QUEUE),
        .segments = stale_names_remove_listed("/dev/shm", base, WIRE_REPLY_SEGMENT) +
                    stale_names_remove_listed("/dev/shm", base, WIRE_REPLY_RING)};
    if (removed.queues == 0)
        removed.queues = stale_names_remove_likely(base);
    return removed;
}

bool wire_stale_names_remove_again(const char *base)
{
    static _Atomic uint64_t next_ms;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t next = atomic_load(&next_ms);
    if (now_ms < next || !atomic_compare_exchange_strong(&next_ms, &next, now_ms + AGAIN_AFTER_MS))
        return false;
    struct stale_names removed = wire_stale_names_remove(base);
    return removed.queues + removed.segments > 0;
}
