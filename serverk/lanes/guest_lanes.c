#include "serverk/lanes/guest_lanes.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/numbers/random.h"
#include "wire/queue.h"

/* Names of lanes: many more than the system has queues by default (256), so that nobody can take
 * them all; few enough that each start looks for leftovers under all of them in some
 * milliseconds. */
#define NAMES 4096u

/* The names that are tried for a lane: others may have made queues of some. */
#define NAME_ATTEMPTS 64u

/* A client needs some microseconds from its WELCOME to the opening of its lane. One that comes
 * later asks for another session. */
#define OPEN_MS 100u

/* This many messages of garbage are no mistake; late messages of sessions that have ended count as
 * well. */
#define SPOILED_AFTER 32u

/* Where the kernel's queues are seen as files, if somebody mounted them there. */
#define MQUEUE_MOUNT "/dev/mqueue"

bool guest_lanes_init(struct guest_lanes *guests, const char *base, mode_t mode, gid_t group,
                      const struct lane_plan *plan, uint64_t bytes)
{
    *guests =
        (struct guest_lanes){.base = base,
                             .mode = mode,
                             .group = group,
                             .plan = plan,
                             .bytes_left = bytes,
                             .placeholder = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                             .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    for (unsigned i = 0; i < LANE_PLAN_MAX_GUESTS; i++)
        guests->lanes[i].queue = (mqd_t)-1;
    return guests->placeholder >= 0 && guests->timer >= 0;
}

/* Queues --------------------------------------------------------------------------------------- */

/* Unlinks the lane's queue. One that was given away is taken back first: queues of others cannot be
 * unlinked. */
static void unlink_guest_lane(const struct guest_lanes *guests, const struct guest_lane *lane)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    if (wire_queue_unlinked(lane->queue)) /* somebody did: the name may be another lane's by now */
        return;
    wire_queue_name(name, guests->base, WIRE_GUEST_LANE, 0, lane->name);
    if (lane->given && fchown((int)lane->queue, geteuid(), (gid_t)-1) != 0)
        return; /* unlinking fails as well: the next start tries again */
    mq_unlink(name);
}

/* Creates a queue under a name that is free, which nobody can know in advance. */
static enum kv_status create_guest_queue(const struct guest_lanes *guests, struct guest_lane *lane,
                                         mqd_t *queue)
{
    enum kv_status status = KV_EXISTS;
    for (unsigned i = 0; i < NAME_ATTEMPTS && status == KV_EXISTS; i++) {
        char name[WIRE_QUEUE_NAME_BYTES];
        lane->name = (unsigned)(random_secret() % NAMES);
        wire_queue_name(name, guests->base, WIRE_GUEST_LANE, 0, lane->name);
        status = wire_queue_create(name, lane->geometry, 0600, true, queue, NULL);
    }
    return status;
}

/* Lets the uid in, and nobody else; or nobody yet. */
static bool admit_uid(struct guest_lanes *guests, struct guest_lane *lane)
{
    int fd = (int)lane->queue;
    /* In this order: the mode of a queue that was given away is its owner's to change. */
    lane->given =
        !guests->may_not_give && fchmod(fd, 0200) == 0 && fchown(fd, lane->uid, (gid_t)-1) == 0;
    if (lane->given)
        return true;
    guests->may_not_give |= errno == EPERM;
    return fchmod(fd, 0600) == 0 &&
           (guests->group == (gid_t)-1 || fchown(fd, (uid_t)-1, guests->group) == 0);
}

/* Gives the lane's descriptor, which keeps its number, to the queue. */
static bool move_queue_to_lane(struct guest_lane *lane, mqd_t queue)
{
    if (lane->queue == (mqd_t)-1) {
        lane->queue = queue;
        return true;
    }
    bool taken = dup3((int)queue, (int)lane->queue, O_CLOEXEC) >= 0;
    close((int)queue);
    return taken;
}

static void retire_guest_lane(struct guest_lanes *guests, struct guest_lane *lane)
{
    KV_ASSERT(lane->queue != (mqd_t)-1);
    unlink_guest_lane(guests, lane);
    dup3(guests->placeholder, (int)lane->queue, O_CLOEXEC);
    guests->bytes_left += wire_geometry_charge(lane->geometry);
    lane->live = false;
}

/* Makes the queue of a lane whose other fields are set. False: it could not be made, and nothing is
 * left. */
static bool prepare_guest_lane(struct guest_lanes *guests, struct guest_lane *lane)
{
    mqd_t queue;
    enum kv_status status;
    while ((status = create_guest_queue(guests, lane, &queue)) == KV_LIMIT &&
           lane->geometry.depth > 1)
        lane->geometry.depth /= 2;
    if (status != KV_OK) {
        guests->reason = status == KV_EXISTS ? "others have taken the names of such queues"
                         : status == KV_LIMIT
                             ? "the system or this user has no room for another queue "
                               "(fs.mqueue.queues_max, RLIMIT_MSGQUEUE)"
                             : "the queue cannot be created";
        return false;
    }
    lane->given = false;
    KV_ASSERT(wire_geometry_charge(lane->geometry) <= guests->bytes_left);
    guests->bytes_left -= wire_geometry_charge(lane->geometry);
    /* The lock is that of the process, and goes with any descriptor of the queue: so it is taken
     * last. */
    if (move_queue_to_lane(lane, queue) && admit_uid(guests, lane) &&
        wire_lock_lane(lane->queue) == 0) {
        lane->live = true;
        return true;
    }
    retire_guest_lane(guests, lane);
    guests->reason = "the queue cannot be prepared";
    return false;
}

/* Sessions ------------------------------------------------------------------------------------- */

/* A lane whose name is gone, as after RemoveIPC of logind at the last logout of its user, is found
 * by nobody: whoever comes gets another one. */
static struct guest_lane *find_guest_lane(struct guest_lanes *guests, uid_t uid)
{
    for (struct guest_lane *lane = guests->lanes; lane < guests->lanes + LANE_PLAN_MAX_GUESTS;
         lane++)
        if (lane->live && lane->uid == uid && !lane->spoiled) {
            if (!wire_queue_unlinked(lane->queue))
                return lane;
            lane->spoiled = true;
        }
    return NULL;
}

/* Returns whether the user may have another lane. A user whose lanes were spoiled may have several,
 * as long as a third of all stays for others. */
static bool may_have_another(const struct guest_lanes *guests, uid_t uid)
{
    unsigned own = 0, unused = 0;
    for (unsigned i = 0; i < LANE_PLAN_MAX_GUESTS; i++) {
        own += guests->lanes[i].live && guests->lanes[i].uid == uid;
        unused += !guests->lanes[i].live;
    }
    return own == 0 ? unused > 0 : unused > LANE_PLAN_MAX_GUESTS / 3;
}

/* Chooses an unused lane; there is one. If the lane that the user had last is unused, that one: its
 * account goes on (lanes.h). */
static struct guest_lane *choose_unused(struct guest_lanes *guests, uid_t uid)
{
    struct guest_lane *chosen = NULL;
    for (struct guest_lane *lane = guests->lanes; lane < guests->lanes + LANE_PLAN_MAX_GUESTS;
         lane++) {
        if (lane->live)
            continue;
        if (lane->queue != (mqd_t)-1 && lane->uid == uid)
            return lane;
        if (!chosen || (chosen->queue != (mqd_t)-1 && lane->queue == (mqd_t)-1))
            chosen = lane;
    }
    return chosen;
}

static struct guest_lane *make_guest_lane(struct guest_lanes *guests, uid_t uid)
{
    struct guest_lane *lane = may_have_another(guests, uid) ? choose_unused(guests, uid) : NULL;
    guests->reason = "there are as many users with lanes of their own as there is room for";
    if (!lane)
        return NULL;
    lane->geometry = lane_plan_guest(guests->plan, guests->bytes_left);
    if (lane->geometry.depth == 0) {
        guests->reason =
            "the bytes in queues that are kept for other users are in use (RLIMIT_MSGQUEUE)";
        return NULL;
    }
    lane->known = lane->queue != (mqd_t)-1 && lane->uid == uid;
    lane->uid = uid;
    lane->spoiled = false;
    lane->open = lane->reopened = false;
    lane->sessions = lane->opening = 0;
    atomic_store(&lane->messages, 0);
    atomic_store(&lane->garbage, 0);
    return prepare_guest_lane(guests, lane) ? lane : NULL;
}

static void set_guest_timer(struct guest_lanes *guests, uint64_t milliseconds)
{
    struct itimerspec in = {.it_value = {.tv_nsec = (long)milliseconds * 1000000}};
    guests->armed = timerfd_settime(guests->timer, 0, &in, NULL) == 0;
}

void guest_lanes_reopen(struct guest_lanes *guests, struct guest_lane *lane, unsigned round)
{
    lane->reopened |= round != lane->round;
    lane->open_until_ms = clock_monotonic_ns() / 1000000 + OPEN_MS;
    if (!lane->open)
        lane->open = fchmod((int)lane->queue, 0600 | (guests->mode & 0022)) == 0;
    if (!guests->armed)
        set_guest_timer(guests, OPEN_MS);
}

static void close_guest_lane(struct guest_lane *lane)
{
    lane->open = lane->open && fchmod((int)lane->queue, 0600) != 0;
}

struct guest_lane *guest_lanes_enter(struct guest_lanes *guests, uid_t uid, bool *made)
{
    struct guest_lane *lane = find_guest_lane(guests, uid);
    *made = !lane;
    if (!lane)
        lane = make_guest_lane(guests, uid);
    if (!lane)
        return NULL;
    KV_ASSERT(lane->live && lane->uid == uid && !lane->spoiled);
    lane->sessions++;
    if (!lane->given) {
        lane->opening++;
        guest_lanes_reopen(guests, lane, lane->round);
    }
    return lane;
}

void guest_lanes_arrived(struct guest_lane *lane, unsigned round)
{
    KV_ASSERT(round != lane->round || lane->opening > 0);
    if (round == lane->round && --lane->opening == 0 && !lane->reopened)
        close_guest_lane(lane);
}

void guest_lanes_tick(struct guest_lanes *guests)
{
    uint64_t expirations, now_ms = clock_monotonic_ns() / 1000000, wait_ms = 0;
    if (read(guests->timer, &expirations, sizeof expirations) < 0)
        return;
    for (unsigned i = 0; i < LANE_PLAN_MAX_GUESTS; i++) {
        struct guest_lane *lane = &guests->lanes[i];
        if (!lane->live || !lane->open)
            continue;
        if (now_ms >= lane->open_until_ms) {
            close_guest_lane(lane);
            lane->round++;
            lane->reopened = false;
            lane->opening = 0;
        } else if (wait_ms == 0 || lane->open_until_ms - now_ms < wait_ms) {
            wait_ms = lane->open_until_ms - now_ms;
        }
    }
    set_guest_timer(guests, wait_ms);
    guests->armed = wait_ms != 0;
}

bool guest_lanes_leave(struct guest_lanes *guests, struct guest_lane *lane)
{
    KV_ASSERT(lane->live && lane->sessions > 0);
    if (--lane->sessions > 0)
        return false;
    KV_ASSERT(lane->opening == 0); /* whoever leaves has arrived, or is waited for no more */
    retire_guest_lane(guests, lane);
    return true;
}

bool guest_lanes_count_garbage(struct guest_lane *lane)
{
    uint64_t garbage = atomic_fetch_add(&lane->garbage, 1) + 1;
    if (garbage != SPOILED_AFTER || lane->given)
        return false;
    lane->spoiled = true;
    return true;
}

/* The end -------------------------------------------------------------------------------------- */

void guest_lanes_unlink(struct guest_lanes *guests)
{
    for (unsigned i = 0; i < LANE_PLAN_MAX_GUESTS; i++)
        if (guests->lanes[i].live)
            unlink_guest_lane(guests, &guests->lanes[i]);
}

void guest_lanes_close(struct guest_lanes *guests)
{
    if (!guests->base)
        return;
    guest_lanes_unlink(guests);
    for (unsigned i = 0; i < LANE_PLAN_MAX_GUESTS; i++)
        if (guests->lanes[i].queue != (mqd_t)-1)
            close((int)guests->lanes[i].queue);
    if (guests->placeholder >= 0)
        close(guests->placeholder);
    if (guests->timer >= 0)
        close(guests->timer);
    guests->base = NULL;
}

/* Removes the queue `name`, also one that was given away, or that somebody else made under a name
 * of ours. */
static bool remove_named(const char *name)
{
    if (mq_unlink(name) == 0)
        return true;
    if (errno != EACCES && errno != EPERM)
        return false;
    char path[sizeof MQUEUE_MOUNT + WIRE_QUEUE_NAME_BYTES];
    snprintf(path, sizeof path, MQUEUE_MOUNT "%s", name);
    return lchown(path, geteuid(), (gid_t)-1) == 0 && mq_unlink(name) == 0;
}

unsigned guest_lanes_remove_stale(const char *base)
{
    unsigned removed = 0;
    for (unsigned number = 0; number < NAMES; number++) {
        char name[WIRE_QUEUE_NAME_BYTES];
        wire_queue_name(name, base, WIRE_GUEST_LANE, 0, number);
        removed += remove_named(name);
    }
    return removed;
}
