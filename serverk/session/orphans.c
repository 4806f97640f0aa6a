#include "serverk/session/orphans.h"

#include <dirent.h>
#include <mqueue.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/text/parse.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"

/* A start does not wait longer for each of the three. */
#define SWEEP_MS 500u

/* Numbers that are tried in the names of a process that died, where they cannot be listed: a
 * process begins with 0, and its threads that had not finished their handshakes have numbers in a
 * row. */
#define NUMBERS_TRIED 128u
#define MISSES_IN_ROW 16u

/* What one name adds to the size of these directories (mqueue and tmpfs). */
#define ENTRY_BYTES 20

static const struct place {
    const char *directory;
    enum wire_queue_role role;
    int (*unlink_name)(const char *name);
} places[] = {{"/dev/mqueue", WIRE_REPLY_QUEUE, mq_unlink},
              {"/dev/shm", WIRE_REPLY_SEGMENT, shm_unlink},
              {"/dev/shm", WIRE_REPLY_RING, shm_unlink}};

#define PLACES (sizeof places / sizeof places[0])

/* Logs what was removed, at a bounded pace: anybody can leave any number of names. */
static void tell_removed(unsigned count, const char *name)
{
    static struct log_pace pace = LOG_PACE(1000);
    char unsaid[LOG_PACE_TEXT_BYTES], names[32];
    if (count > 0 && log_pace_allows(&pace, unsaid))
        log_info("removed %s that clients left which are gone, the last was %s%s",
                 format_count(count, "name", names), name, unsaid);
}

/* Returns whether the name is one of a dead process; if `of` is given, one of those. */
static bool is_leftover(const char *name, const char *queue_name, enum wire_queue_role role,
                        const struct dead_processes *of)
{
    pid_t pid;
    if (!wire_queue_name_parse(name, strlen(name), queue_name, role, &pid))
        return false;
    for (unsigned i = 0; of && i < of->count; i++)
        if (of->pids[i] == pid)
            return true;
    return (!of || of->and_others) && wire_process_ended(pid);
}

/* A queue or ring whose lock is held lives, also if its process is in another PID namespace. */
static bool is_locked(const char *name, enum wire_queue_role role)
{
    mqd_t queue = (mqd_t)-1;
    int ring = -1;
    if (role == WIRE_REPLY_RING && wire_ring_open(name, &ring, NULL) == KV_OK)
        queue = (mqd_t)ring;
    else if (role != WIRE_REPLY_QUEUE || wire_queue_open(name, true, &queue, NULL, NULL) != KV_OK)
        return false;
    bool locked = wire_queue_owner(queue) != 0;
    close((int)queue);
    return locked;
}

/* What was removed, for the log. */
struct orphans_removed {
    unsigned count;
    char last[WIRE_QUEUE_NAME_BYTES];
};

static bool remove_name(const struct place *place, const char *name,
                        struct orphans_removed *removal)
{
    if (is_locked(name, place->role) || place->unlink_name(name) != 0)
        return false;
    removal->count++;
    snprintf(removal->last, sizeof removal->last, "%s", name);
    return true;
}

static void remove_numbered(const struct place *place, const char *queue_name, pid_t pid,
                            struct orphans_removed *removal)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    unsigned misses = 0;
    for (unsigned number = 0; number < NUMBERS_TRIED && misses < MISSES_IN_ROW; number++) {
        wire_queue_name(name, queue_name, place->role, pid, number);
        misses = remove_name(place, name, removal) ? 0 : misses + 1;
    }
}

/* Removes leftovers until until_ms. Returns whether all of the directory was looked at. */
static bool remove_listed(DIR *listing, const struct place *place, const char *queue_name,
                          const struct dead_processes *of, uint64_t until_ms,
                          struct orphans_removed *removal)
{
    const struct dirent *entry;
    while ((entry = readdir(listing)) && clock_monotonic_coarse_ms() < until_ms) {
        char name[sizeof entry->d_name + 1];
        snprintf(name, sizeof name, "/%s", entry->d_name);
        if (is_leftover(name, queue_name, place->role, of))
            remove_name(place, name, removal);
    }
    return !entry;
}

/* NULL: it cannot be listed, or has more names than that. */
static DIR *open_listing(const char *directory, off_t most_names)
{
    struct stat facts;
    if (most_names > 0 &&
        (stat(directory, &facts) != 0 || facts.st_size > most_names * ENTRY_BYTES))
        return NULL;
    return opendir(directory);
}

unsigned orphans_remove_of(const char *queue_name, const struct dead_processes *dead)
{
    struct orphans_removed removal = {0};
    for (unsigned i = 0; i < PLACES; i++) {
        DIR *listing = open_listing(places[i].directory, ORPHANS_LISTED);
        if (listing) {
            remove_listed(listing, &places[i], queue_name, dead, UINT64_MAX, &removal);
            closedir(listing);
            continue;
        }
        for (unsigned process = 0; process < dead->count; process++)
            remove_numbered(&places[i], queue_name, dead->pids[process], &removal);
    }
    tell_removed(removal.count, removal.last);
    return removal.count;
}

unsigned orphans_remove(const char *queue_name)
{
    struct orphans_removed removal = {0};
    uint64_t until_ms = clock_monotonic_coarse_ms();
    for (unsigned i = 0; i < PLACES; i++) {
        DIR *listing = open_listing(places[i].directory, 0);
        until_ms += SWEEP_MS;
        if (!listing)
            continue;
        if (!remove_listed(listing, &places[i], queue_name, NULL, until_ms, &removal))
            log_warn("%s has too many names: not all were looked at for what dead clients left",
                     places[i].directory);
        closedir(listing);
    }
    tell_removed(removal.count, removal.last);
    return removal.count;
}
