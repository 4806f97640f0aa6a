#include "serverk/lanes/lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/text/parse.h"
#include "common/time/clock.h"
#include "serverk/lanes/claim.h"
#include "serverk/lanes/guest_lanes.h"
#include "serverk/lanes/own_lanes.h"
#include "serverk/lanes/read_lane.h"
#include "wire/message.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"

/* A session counts as this many requests when lanes are filled: a synchronous client has one in
 * flight, a pipelining one a few now and then. Counting all of its credits would spread five
 * clients over two lanes, and each further lane costs every idle poll one system call. */
#define SESSION_WEIGHT 2u

#define MAX_CREDITS 8u

/* How often queues may be made anew until sessions that have been idle since then are told again
 * that they need not begin anew: they see for themselves that their lane has no name. */
#define EPOCHS 64u

/* A tick of the clock that clients go by (CLOCK_MONOTONIC_COARSE). */
#define TICK_AT_MOST_MS 10u

_Static_assert(LANE_PLAN_MAX_QUEUES < 32, "sets of queues are bits of a uint32_t");
_Static_assert(TENANTS <= 32, "sets of tenants are bits of a uint32_t");
_Static_assert(TENANT_GUESTS + LANE_PLAN_READ_LANE - LANE_PLAN_FIRST_GUEST == TENANT_READERS,
               "lanes_tenant finds the readers behind the guests");

struct lanes {
    char name[WIRE_QUEUE_NAME_BYTES];
    enum lanes_mode mode;
    struct own_lanes own;
    struct kv_error shortfall; /* of the plan; text empty: none */
    mqd_t claim;
    uint64_t shown; /* of the claim: wire_lock_show; 0: nothing */

    pthread_mutex_t lock;
    unsigned assigned;                     /* sessions so far; guarded by lock, like the next */
    uint32_t weights[LANE_PLAN_MAX_LANES]; /* of the sessions that were given the lane */
    unsigned epoch;                        /* of assignments; guarded by lock */
    _Atomic bool spoiled[EPOCHS];
    _Atomic unsigned in_use;
    struct served_lanes served; /* with the descriptors of all queues */
    lanes_listener listener;
    void *listener_context;
    lanes_tenant_listener tenant_listener;
    void *tenant_context;

    _Atomic mode_t queue_mode;
    bool door;                 /* constant */
    struct guest_lanes guests; /* guarded by lock, if there is a door */
    struct read_lane readers;
};

/* Queues --------------------------------------------------------------------------------------- */

/* Removes the lanes of a dead daemon, whatever their number. The claim is ours. */
static enum kv_status remove_all_stale(struct lanes *lanes, struct kv_error *error)
{
    unsigned removed = 0;
    enum kv_status status = lane_names_remove_stale(&lanes->own.names, &removed, error);
    if (status == KV_OK)
        removed += guest_lanes_remove_stale(lanes->name) + read_lane_remove_stale(lanes->name);
    if (removed > 0) {
        char queues[32];
        log_info("removed %s of %s, left by a daemon that is gone",
                 format_count(removed, "queue", queues), lanes->name);
    }
    return status;
}

bool lanes_admit_others(enum lanes_mode mode, mode_t queue_mode, bool has_read_lane)
{
    return mode == LANES_AUTO && ((queue_mode & 0077) != 0 || has_read_lane);
}

void lanes_unlink(struct lanes *lanes)
{
    own_lanes_unlink(&lanes->own);
    if (lanes->door)
        guest_lanes_unlink(&lanes->guests);
    read_lane_unlink(&lanes->readers);
}

/* Returns `count` bits from `first` on. */
static uint32_t bits(unsigned first, unsigned count)
{
    return ((UINT32_C(1) << count) - 1) << first;
}

static void begin_serving(struct lanes *lanes)
{
    unsigned in_use = lanes->own.plan.lanes;
    if (lanes->mode == LANES_AUTO)
        in_use = lanes->door ? 2 : 1;
    atomic_store(&lanes->in_use, in_use);
    atomic_store(&lanes->served.set, bits(0, in_use) |
                                         bits(lanes->own.plan.lanes, lanes->own.plan.bulk_lanes) |
                                         (lanes->readers.base ? bits(LANE_PLAN_READ_LANE, 1) : 0));
}

/* Takes the claim; it shows clients whether their replies may come through shared memory. */
static enum kv_status take_claim(struct lanes *lanes, struct kv_error *error)
{
    enum kv_status status = claim_take(lanes->name, &lanes->claim, error);
    if (status == KV_OK && lanes->shown > 0)
        wire_lock_show(lanes->claim, lanes->shown);
    return status;
}

enum kv_status lanes_open(const struct lanes_options *options, struct lanes **result,
                          struct kv_error *error)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory for the request queues");
    wire_queue_name(lanes->name, options->name, WIRE_LANE, 0, 0);
    lanes->own = (struct own_lanes){.names = {.base = lanes->name},
                                    .admits_others = lanes_admit_others(
                                        options->mode, options->queue_mode, options->has_read_lane),
                                    .mode = options->queue_mode,
                                    .group = options->group,
                                    .queues = lanes->served.queues};
    lanes->mode = options->mode;
    atomic_store(&lanes->queue_mode, options->queue_mode);
    lanes->claim = (mqd_t)-1;
    pthread_mutex_init(&lanes->lock, NULL);
    struct wire_limits limits;
    wire_limits_read(&limits);
    struct lane_plan wanted = lane_plan_wanted(options->mode, options->workers, &limits);
    lanes->own.plan = lane_plan_first(options->mode, options->workers, &limits);
    if (lanes->own.admits_others) {
        lane_plan_leave_room(&wanted);
        lane_plan_leave_room(&lanes->own.plan);
    }

    if (options->takes_rings)
        lanes->shown = wire_shm_number();
    enum kv_status status = take_claim(lanes, error);
    if (status == KV_OK)
        status = remove_all_stale(lanes, error);
    if (status == KV_OK)
        status = own_lanes_open(&lanes->own, error);
    if (status == KV_OK && own_lanes_have_door(&lanes->own)) {
        lanes->door = true;
        if (!guest_lanes_init(&lanes->guests, lanes->name, options->queue_mode, options->group,
                              &lanes->own.plan, limits.msgqueue_bytes / LANE_PLAN_GUEST_SHARES))
            status = kv_error_set_errno(error, "cannot prepare lanes for other users");
    }
    if (status == KV_OK && options->has_read_lane) {
        status = read_lane_open(&lanes->readers, lanes->name, options->read_group, &lanes->own.plan,
                                error);
        lanes->served.queues[LANE_PLAN_READ_LANE] = lanes->readers.queue;
    }
    if (status != KV_OK) {
        lanes_close(lanes);
        return status;
    }
    lane_plan_explain(&lanes->own.plan, &wanted, &limits, error->text, &lanes->shortfall);
    begin_serving(lanes);
    *result = lanes;
    return KV_OK;
}

void lanes_close(struct lanes *lanes)
{
    if (!lanes)
        return;
    own_lanes_close(&lanes->own);
    if (lanes->door)
        guest_lanes_close(&lanes->guests);
    read_lane_close(&lanes->readers);
    claim_give_up(lanes->name, lanes->claim);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes);
}

unsigned lanes_named(const struct lanes *lanes, mqd_t queues[LANES_NAMED_MAX])
{
    unsigned count = 0;
    queues[count++] = lanes->claim;
    for (unsigned queue = 0; queue < lanes->own.count; queue++)
        queues[count++] = lanes->served.queues[queue];
    if (lanes->readers.base)
        queues[count++] = lanes->readers.queue;
    return count;
}

bool lanes_are_linked(const struct lanes *lanes)
{
    mqd_t queues[LANES_NAMED_MAX];
    unsigned count = lanes_named(lanes, queues);
    bool linked = true;
    while (count > 0)
        linked &= !wire_queue_unlinked(queues[--count]);
    return linked;
}

/* Takes the claim again, if it has lost its name. */
static enum kv_status renew_claim(struct lanes *lanes, struct kv_error *error)
{
    mqd_t lost = lanes->claim;
    if (!wire_queue_unlinked(lost))
        return KV_OK;
    enum kv_status status = take_claim(lanes, error);
    if (status == KV_OK)
        mq_close(lost);
    else
        lanes->claim = lost;
    return status;
}

/* Sessions that were given lanes before now are to begin anew, as their replies tell them. Holds:
 * lock. */
static void spoil_assignments(struct lanes *lanes)
{
    KV_ASSERT(mutex_is_held(&lanes->lock));
    atomic_store(&lanes->spoiled[lanes->epoch], true);
    lanes->epoch = (lanes->epoch + 1) % EPOCHS;
    atomic_store(&lanes->spoiled[lanes->epoch], false);
}

/* Whoever has not heard of it yet looks, once a tick of its clock, whether its lane has a name. */
static void empty_old_queues(struct lanes *lanes, const mqd_t old[LANE_PLAN_MAX_QUEUES])
{
    clock_sleep_ms(TICK_AT_MOST_MS);
    for (unsigned queue = 0; queue < LANE_PLAN_MAX_QUEUES; queue++)
        if (old[queue] != (mqd_t)-1)
            own_lanes_empty(old[queue], lanes->served.queues[queue]);
}

enum kv_status lanes_renew(struct lanes *lanes, struct kv_error *error)
{
    mqd_t old[LANE_PLAN_MAX_QUEUES];
    for (unsigned queue = 0; queue < LANE_PLAN_MAX_QUEUES; queue++)
        old[queue] = (mqd_t)-1;
    pthread_mutex_lock(&lanes->lock);
    enum kv_status status = renew_claim(lanes, error);
    if (status == KV_OK)
        spoil_assignments(lanes);
    if (status == KV_OK)
        status = own_lanes_renew(&lanes->own, old, error);
    if (status == KV_OK && lanes->readers.base && wire_queue_unlinked(lanes->readers.queue))
        status =
            read_lane_renew(&lanes->readers, &lanes->own.plan, &old[LANE_PLAN_READ_LANE], error);
    for (unsigned queue = 0; lanes->listener && queue < LANE_PLAN_MAX_QUEUES; queue++)
        if (old[queue] != (mqd_t)-1 && (served_lanes_set(&lanes->served) >> queue & 1) != 0)
            lanes->listener(lanes->listener_context, queue);
    pthread_mutex_unlock(&lanes->lock);
    empty_old_queues(lanes, old);
    return status;
}

const struct lane_plan *lanes_plan(const struct lanes *lanes)
{
    return &lanes->own.plan;
}

const char *lanes_shortfall(const struct lanes *lanes)
{
    return lanes->shortfall.text[0] ? lanes->shortfall.text : NULL;
}

unsigned lanes_queue_count(const struct lanes *lanes)
{
    return lanes->own.count;
}

mqd_t lanes_queue(const struct lanes *lanes, unsigned queue)
{
    KV_ASSERT(queue < LANE_PLAN_MAX_QUEUES);
    return lanes->served.queues[queue];
}

size_t lanes_message_bytes(const struct lanes *lanes)
{
    const struct lane_plan *plan = &lanes->own.plan;
    bool bulk = plan->bulk_lanes > 0 && plan->bulk.message_bytes > plan->lane.message_bytes;
    return bulk ? plan->bulk.message_bytes : plan->lane.message_bytes;
}

void lanes_set_blocking(struct lanes *lanes, unsigned queue, bool blocking)
{
    struct mq_attr attributes = {.mq_flags = blocking ? 0 : O_NONBLOCK};
    mq_setattr(lanes_queue(lanes, queue), &attributes, NULL);
}

/* Assignment ----------------------------------------------------------------------------------- */

/* Returns the first lane that has room for one more session, else the emptiest. Holds: lock. */
static unsigned choose_filling(const struct lanes *lanes)
{
    unsigned first = lanes->door ? 1 : 0, emptiest = first;
    KV_ASSERT(mutex_is_held(&lanes->lock));
    KV_ASSERT(first < lanes->own.plan.lanes); /* with a single lane there is no door */
    for (unsigned lane = first; lane < lanes->own.plan.lanes; lane++) {
        if (lanes->weights[lane] + SESSION_WEIGHT <= lanes->own.plan.lane.depth)
            return lane;
        if (lanes->weights[lane] < lanes->weights[emptiest])
            emptiest = lane;
    }
    return emptiest;
}

/* Opens the queue: messages may come through it from now on. Holds: lock. */
static void open_lane_queue(struct lanes *lanes, unsigned queue)
{
    KV_ASSERT(mutex_is_held(&lanes->lock));
    KV_ASSERT((served_lanes_set(&lanes->served) >> queue & 1) == 0);
    KV_ASSERT(lanes->served.queues[queue] >= 0);
    if (lanes->listener)
        lanes->listener(lanes->listener_context, queue);
    atomic_fetch_or(&lanes->served.set, UINT32_C(1) << queue);
}

/* Assigns a lane of the daemon's own user; where there is no door, to everybody. Holds: lock. */
static void assign_own(struct lanes *lanes, struct lane_assignment *assignment)
{
    unsigned assigned = lanes->assigned++;
    unsigned lane =
        lanes->mode == LANES_AUTO ? choose_filling(lanes) : assigned % lanes->own.plan.lanes;
    lanes->weights[lane] += SESSION_WEIGHT;
    KV_ASSERT(lane <= atomic_load(&lanes->in_use)); /* lanes are opened one after the other */
    if (lane >= atomic_load(&lanes->in_use)) {
        open_lane_queue(lanes, lane);
        atomic_store(&lanes->in_use, lane + 1);
    }
    assignment->lane = lanes->own.lanes[lane].number;
    assignment->queue = (uint8_t)lane;
    assignment->lane_bytes = assignment->bulk_bytes = lanes->own.plan.lane.message_bytes;
    if (lanes->own.plan.bulk_lanes > 0) {
        unsigned bulk = lanes->own.plan.lanes + assigned % lanes->own.plan.bulk_lanes;
        assignment->bulk_lane = lanes->own.lanes[bulk].number;
        assignment->bulk_bytes = lanes->own.plan.bulk.message_bytes;
    }
}

/* Warns, once a minute, of a guest that has no share of its own, since it sends beside all others.
 * Holds: lock. */
static void warn_of_door(const struct lanes *lanes, uid_t uid)
{
    static struct log_pace pace = LOG_PACE(60000);
    char unsaid[LOG_PACE_TEXT_BYTES];
    if (log_pace_allows(&pace, unsaid))
        log_warn(
            "uid %lu gets no lane of its own, and sends through the one that all may send to: %s%s",
            (unsigned long)uid, lanes->guests.reason, unsaid);
}

/* Assigns a guest lane, or, if none is left or the client knows none, the door. Holds: lock. */
static void assign_guest(struct lanes *lanes, const struct lane_request *request,
                         struct lane_assignment *assignment)
{
    bool made = false;
    KV_ASSERT(lanes->door);
    struct guest_lane *guest =
        request->knows_guests ? guest_lanes_enter(&lanes->guests, request->uid, &made) : NULL;
    if (!guest) {
        if (request->knows_guests)
            warn_of_door(lanes, request->uid);
        lanes->weights[0] += SESSION_WEIGHT;
        assignment->lane_bytes = assignment->bulk_bytes = lanes->own.plan.lane.message_bytes;
        return;
    }
    unsigned number = (unsigned)(guest - lanes->guests.lanes);
    assignment->family = WIRE_FAMILY_GUESTS;
    assignment->lane = (uint16_t)guest->name;
    assignment->queue = (uint8_t)(LANE_PLAN_FIRST_GUEST + number);
    assignment->lane_bytes = assignment->bulk_bytes = guest->geometry.message_bytes;
    assignment->opening = !guest->given;
    assignment->round = guest->round;
    assignment->spoiled = &guest->spoiled;
    if (!made)
        return;
    if (lanes->tenant_listener && !guest->known)
        lanes->tenant_listener(lanes->tenant_context, TENANT_GUESTS + number);
    lanes->served.queues[assignment->queue] = guest->queue;
    open_lane_queue(lanes, assignment->queue);
}

struct lane_assignment lanes_assign(struct lanes *lanes, const struct lane_request *request)
{
    uint16_t depth = request->reply_depth;
    struct lane_assignment assignment = {.credits = depth < MAX_CREDITS ? depth : MAX_CREDITS};
    pthread_mutex_lock(&lanes->lock);
    assignment.spoiled = &lanes->spoiled[lanes->epoch];
    if (request->reads_only) { /* its HELLO came through that queue: to the client it is lane 0 */
        atomic_fetch_add(&lanes->readers.sessions, 1);
        assignment.queue = LANE_PLAN_READ_LANE;
        assignment.lane_bytes = assignment.bulk_bytes = lanes->readers.geometry.message_bytes;
    } else if (lanes->door && request->uid != geteuid()) {
        assign_guest(lanes, request, &assignment);
    } else {
        assign_own(lanes, &assignment);
    }
    pthread_mutex_unlock(&lanes->lock);
    return assignment;
}

static struct guest_lane *guest_of(struct lanes *lanes, unsigned queue)
{
    KV_ASSERT(lanes_is_guest(queue));
    return &lanes->guests.lanes[queue - LANE_PLAN_FIRST_GUEST];
}

void lanes_reopen(struct lanes *lanes, const struct lane_assignment *assignment)
{
    pthread_mutex_lock(&lanes->lock);
    guest_lanes_reopen(&lanes->guests, guest_of(lanes, assignment->queue), assignment->round);
    pthread_mutex_unlock(&lanes->lock);
}

void lanes_arrived(struct lanes *lanes, const struct lane_assignment *assignment)
{
    pthread_mutex_lock(&lanes->lock);
    guest_lanes_arrived(guest_of(lanes, assignment->queue), assignment->round);
    pthread_mutex_unlock(&lanes->lock);
}

int lanes_timer(const struct lanes *lanes)
{
    return lanes->door ? lanes->guests.timer : -1;
}

void lanes_tick(struct lanes *lanes)
{
    pthread_mutex_lock(&lanes->lock);
    guest_lanes_tick(&lanes->guests);
    pthread_mutex_unlock(&lanes->lock);
}

void lanes_give_back(struct lanes *lanes, const struct lane_assignment *assignment, bool arrived)
{
    unsigned queue = assignment->queue;
    if (assignment->opening && !arrived)
        lanes_arrived(lanes, assignment);
    pthread_mutex_lock(&lanes->lock);
    if (queue == LANE_PLAN_READ_LANE) {
        unsigned before = atomic_fetch_sub(&lanes->readers.sessions, 1);
        KV_ASSERT(before > 0);
    } else if (lanes_is_own(queue)) {
        KV_ASSERT(lanes->weights[queue] >= SESSION_WEIGHT);
        lanes->weights[queue] -= SESSION_WEIGHT;
    } else if (guest_lanes_leave(&lanes->guests, guest_of(lanes, queue))) {
        atomic_fetch_and(&lanes->served.set, ~(UINT32_C(1) << queue));
    }
    pthread_mutex_unlock(&lanes->lock);
}

bool lanes_admit(struct lanes *lanes, unsigned queue, uid_t uid,
                 const struct lane_assignment *assignment)
{
    if (queue == LANE_PLAN_READ_LANE) {
        atomic_fetch_add_explicit(&lanes->readers.messages, 1, memory_order_relaxed);
        return assignment->queue == queue;
    }
    struct guest_lane *guest = guest_of(lanes, queue);
    atomic_fetch_add_explicit(&guest->messages, 1, memory_order_relaxed);
    return guest->uid == uid;
}

void lanes_count_garbage(struct lanes *lanes, unsigned queue)
{
    if (queue == LANE_PLAN_READ_LANE)
        atomic_fetch_add_explicit(&lanes->readers.garbage, 1, memory_order_relaxed);
    if (lanes_is_guest(queue) && guest_lanes_count_garbage(guest_of(lanes, queue)))
        log_warn("somebody else sends to the lane of uid %lu, which gets another. A daemon with "
                 "CAP_CHOWN gives each user a lane that nobody else can open",
                 (unsigned long)guest_of(lanes, queue)->uid);
}

bool lanes_guest_facts(struct lanes *lanes, unsigned guest, struct guest_facts *facts)
{
    if (!lanes->door)
        return false;
    pthread_mutex_lock(&lanes->lock);
    const struct guest_lane *lane = &lanes->guests.lanes[guest];
    *facts = (struct guest_facts){.uid = lane->uid,
                                  .sessions = lane->sessions,
                                  .given = lane->given,
                                  .geometry = lane->geometry,
                                  .messages = atomic_load(&lane->messages),
                                  .garbage = atomic_load(&lane->garbage)};
    bool live = lane->live;
    pthread_mutex_unlock(&lanes->lock);
    return live;
}

bool lanes_reader_facts(const struct lanes *lanes, struct reader_facts *facts)
{
    const struct read_lane *lane = &lanes->readers;
    *facts = (struct reader_facts){.group = lane->group,
                                   .sessions = atomic_load(&lane->sessions),
                                   .geometry = lane->geometry,
                                   .messages = atomic_load(&lane->messages),
                                   .garbage = atomic_load(&lane->garbage)};
    return lane->base != NULL;
}

bool lanes_let_others_in(const struct lanes *lanes)
{
    return (atomic_load(&lanes->queue_mode) & 0077) != 0;
}

enum kv_status lanes_set_mode(struct lanes *lanes, mode_t queue_mode, gid_t group,
                              struct kv_error *error)
{
    bool needs_door =
        lanes->own.plan.lanes > 1 && lanes_admit_others(lanes->mode, queue_mode, false);
    if (needs_door && !lanes->door)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "a daemon that was started with mode 0600 has no lanes for others");
    pthread_mutex_lock(&lanes->lock);
    enum kv_status status = own_lanes_set_mode(&lanes->own, queue_mode, group, error);
    if (status == KV_OK) {
        atomic_store(&lanes->queue_mode, queue_mode);
        lanes->guests.mode = queue_mode;
        lanes->guests.group = group;
    }
    pthread_mutex_unlock(&lanes->lock);
    return status;
}

bool lanes_have_door(const struct lanes *lanes)
{
    return lanes->door;
}

const struct served_lanes *lanes_served(const struct lanes *lanes)
{
    return &lanes->served;
}

void lanes_set_tenant_listener(struct lanes *lanes, lanes_tenant_listener listener, void *context)
{
    lanes->tenant_listener = listener;
    lanes->tenant_context = context;
}

unsigned lanes_in_use(const struct lanes *lanes)
{
    return atomic_load_explicit(&lanes->in_use, memory_order_relaxed);
}

void lanes_set_listener(struct lanes *lanes, lanes_listener listener, void *context)
{
    lanes->listener = listener;
    lanes->listener_context = context;
}

static void add_depth(mqd_t queue, struct lanes_depth *depth)
{
    struct mq_attr is;
    if (mq_getattr(queue, &is) != 0)
        return;
    depth->messages += (uint64_t)is.mq_curmsgs;
    depth->capacity += (uint64_t)is.mq_maxmsg;
}

void lanes_depths(struct lanes *lanes, struct lanes_depth *own, struct lanes_depth *bulk,
                  struct lanes_depth *guests, struct lanes_depth *readers)
{
    *own = *bulk = *guests = *readers = (struct lanes_depth){.messages = 0};
    for (unsigned queue = 0; queue < lanes->own.count; queue++)
        add_depth(lanes->served.queues[queue], queue < lanes->own.plan.lanes ? own : bulk);
    pthread_mutex_lock(&lanes->lock);
    for (unsigned guest = 0; lanes->door && guest < LANE_PLAN_MAX_GUESTS; guest++)
        if (lanes->guests.lanes[guest].live)
            add_depth(lanes->guests.lanes[guest].queue, guests);
    pthread_mutex_unlock(&lanes->lock);
    if (lanes->readers.base)
        add_depth(lanes->readers.queue, readers);
}
