#include "tools/ops/queue_budget.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/limits.h"
#include "wire/queue_name.h"

#define UNLIMITED_PROBE_BYTES \
    (UINT64_C(1) << 40)              /* the highest limit to try if there is no hard limit */
#define LAST_QUEUE_NUMBER UINT32_MAX /* a number that no session has */

static const struct wire_geometry smallest = {1, 1};

enum probe { PROBE_FITS, PROBE_REFUSED, PROBE_FAILED };

/* Tests whether the smallest queue fits under a soft limit of this many bytes. */
static enum probe probe(const char *base, const struct rlimit *limit, uint64_t bytes)
{
    struct rlimit lowered = {.rlim_cur = (rlim_t)bytes, .rlim_max = limit->rlim_max};
    struct mq_attr attributes = {.mq_maxmsg = smallest.depth, .mq_msgsize = smallest.message_bytes};
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, base, WIRE_REPLY_QUEUE, getpid(), LAST_QUEUE_NUMBER);
    if (setrlimit(RLIMIT_MSGQUEUE, &lowered) != 0)
        return PROBE_FAILED;
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
    if (queue == (mqd_t)-1)
        return errno == EMFILE ? PROBE_REFUSED : PROBE_FAILED;
    mq_close(queue);
    mq_unlink(name);
    return PROBE_FITS;
}

/* Finds the smallest limit under which it fits. False: unknown. */
static bool search(const char *base, const struct rlimit *limit, uint64_t *fits_bytes)
{
    uint64_t refused = 0;
    uint64_t fits = limit->rlim_max == RLIM_INFINITY ? UNLIMITED_PROBE_BYTES : limit->rlim_max;
    enum probe verdict = probe(base, limit, fits);
    if (verdict == PROBE_REFUSED)
        fits = UINT64_MAX;
    while (verdict != PROBE_FAILED && fits != UINT64_MAX && fits - refused > 1) {
        uint64_t middle = refused + (fits - refused) / 2;
        verdict = probe(base, limit, middle);
        if (verdict == PROBE_FITS)
            fits = middle;
        else
            refused = middle;
    }
    *fits_bytes = fits;
    return verdict != PROBE_FAILED;
}

bool queue_budget_used(const char *base, uint64_t *used_bytes)
{
    struct rlimit limit;
    uint64_t fits;
    int probed =
        open("/", O_PATH | O_CLOEXEC); /* if descriptors are used up EMFILE would be about them */
    if (probed < 0 || getrlimit(RLIMIT_MSGQUEUE, &limit) != 0)
        return false;
    close(probed);
    bool found = search(base, &limit, &fits);
    setrlimit(RLIMIT_MSGQUEUE, &limit);
    if (found)
        *used_bytes = fits == UINT64_MAX ? fits : fits - wire_geometry_charge(smallest);
    return found;
}

/* Returns the bytes of a name without the ending that tells queues of one server apart: ".l2",
 * ".b0", ".lock", ".c12.3". */
static size_t base_length(const char *name)
{
    size_t length = strlen(name);
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name)
        return length;
    if (strcmp(dot, ".lock") == 0)
        return (size_t)(dot - name);
    bool number = dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1);
    if (number) { /* at the end of ".cPID.N" */
        while (dot > name && *--dot != '.')
            continue;
        return dot > name && dot[1] == 'c' ? (size_t)(dot - name) : length;
    }
    bool lane = (dot[1] == 'l' || dot[1] == 'b') && dot[2] &&
                strspn(dot + 2, "0123456789") == strlen(dot + 2);
    return lane ? (size_t)(dot - name) : length;
}

static void add_to_holder(struct queue_listing *listing, const char *file, uint64_t bytes)
{
    char name[sizeof listing->holders[0].name];
    snprintf(name, sizeof name, "/%.*s", (int)base_length(file), file);
    const unsigned places = sizeof listing->holders / sizeof listing->holders[0];
    struct queue_holder *holder = listing->holders;
    while (holder < listing->holders + listing->holder_count && strcmp(holder->name, name) != 0)
        holder++;
    if (holder == listing->holders + places)
        return;
    if (holder == listing->holders + listing->holder_count) {
        *holder = (struct queue_holder){.queues = 0};
        memcpy(holder->name, name, sizeof name);
        listing->holder_count++;
    }
    holder->queues++;
    holder->bytes += bytes;
}

/* Returns the bytes that the queue takes; 0: it may not be opened. */
static uint64_t charge_of(const char *file)
{
    char name[NAME_MAX + 2];
    struct mq_attr attributes;
    snprintf(name, sizeof name, "/%s", file);
    mqd_t queue = mq_open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (queue == (mqd_t)-1)
        return 0;
    bool known = mq_getattr(queue, &attributes) == 0;
    mq_close(queue);
    struct wire_geometry geometry = {.depth = 0};
    if (known) {
        geometry.depth = (uint16_t)attributes.mq_maxmsg;
        geometry.message_bytes = (uint32_t)attributes.mq_msgsize;
    }
    return wire_geometry_charge(geometry);
}

bool queue_listing_read(struct queue_listing *listing, uid_t uid)
{
    DIR *directory = opendir("/dev/mqueue");
    const struct dirent *entry;
    *listing = (struct queue_listing){.all = 0};
    if (!directory)
        return false;
    while ((entry = readdir(directory))) {
        struct stat status;
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        listing->all++;
        if (status.st_uid != uid)
            continue;
        uint64_t bytes = charge_of(entry->d_name);
        listing->own++;
        listing->own_bytes += bytes;
        add_to_holder(listing, entry->d_name, bytes);
    }
    closedir(directory);
    return true;
}
