#include "serverk/lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/parse.h"
#include "wire/queue.h"

/* A session is counted with so many requests when lanes are filled: a synchronous client has one in
 * flight, a pipelining one a few now and then. Counting all of its credits would spread five clients
 * over two lanes, and each further lane costs every idle poll one system call. */
#define SESSION_WEIGHT 2u

#define MAX_CREDITS 8u

/* How often the claim is tried again when another daemon ends at the same moment. */
#define CLAIM_ATTEMPTS 10

struct lane {
    mqd_t queue;
    bool linked;
    uint32_t weight; /* of the sessions that were given it; guarded by lock */
};

struct lanes {
    char name[WIRE_QUEUE_NAME_BYTES];
    enum lanes_mode mode;
    struct lane_plan plan;
    struct kv_error shortfall; /* of the plan; text empty: none */
    mqd_t claim;
    struct lane queues[LANE_PLAN_MAX_QUEUES]; /* lanes, then bulk lanes */
    unsigned queue_count;

    pthread_mutex_t lock;
    unsigned turn; /* sessions assigned so far; guarded by lock */
    _Atomic unsigned in_use;
    lanes_watcher watcher;
    void *watcher_context;
};

static void queue_name(const struct lanes *lanes, unsigned queue, char out[WIRE_QUEUE_NAME_BYTES])
{
    if (queue < lanes->plan.lanes)
        wire_queue_name(out, lanes->name, WIRE_LANE, 0, queue);
    else
        wire_queue_name(out, lanes->name, WIRE_BULK_LANE, 0, queue - lanes->plan.lanes);
}

/* The claim --------------------------------------------------------------------------------------- */

static enum kv_status refuse_running(const char *name, pid_t owner, struct kv_error *error)
{
    if (owner > 0)
        return kv_error_set(
            error, KV_BUSY,
            "the queue name %s is served by process %ld: stop that daemon, or choose "
            "another name with -m",
            name, (long)owner);
    return kv_error_set(
        error, KV_BUSY,
        "the queue name %s is served by a process that is not visible here: stop that "
        "daemon, or choose another name with -m",
        name);
}

static enum kv_status refuse_foreign(const char *name, struct kv_error *error)
{
    return kv_error_set(
        error, KV_DENIED,
        "the message queue %s exists and belongs to another user: choose another name "
        "with -m, or have its owner stop the daemon, or remove it if there is none (rm /dev/mqueue%s)",
        name, name);
}

/* Opens a NAME.lock that is there. KV_NO_SERVER: there is none. */
static enum kv_status open_present_claim(const char *claim_name, mqd_t *claim,
                                         struct kv_error *error)
{
    enum kv_status status = wire_queue_open(claim_name, true, claim, NULL, error);
    if (status == KV_DENIED)
        return refuse_foreign(claim_name, error);
    if (status == KV_OK && wire_queue_uid(*claim) != geteuid()) {
        mq_close(*claim);
        return refuse_foreign(claim_name, error);
    }
    return status;
}

/* Opens NAME.lock, made anew or left by a daemon that is dead. */
static enum kv_status open_claim(const char *claim_name, mqd_t *claim, struct kv_error *error)
{
    const struct wire_geometry smallest = {.depth = 1, .message_bytes = 1};
    enum kv_status status = wire_queue_create(claim_name, smallest, 0600, true, claim, error);
    return status == KV_EXISTS ? open_present_claim(claim_name, claim, error) : status;
}

enum kv_status lanes_check_name(const char *base, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    mqd_t claim;
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    enum kv_status status = open_present_claim(name, &claim, error);
    if (status != KV_OK)
        return status == KV_NO_SERVER ? KV_OK : status;
    pid_t owner = wire_queue_owner(claim);
    mq_close(claim);
    return owner == 0 ? KV_OK : refuse_running(base, owner, error);
}

/* A daemon that ends unlinks NAME.lock while it still holds the lock: whoever opened it before then
 * gets the lock of a queue without a name, and must try again. */
static enum kv_status claim_name(struct lanes *lanes, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, lanes->name, WIRE_LOCK, 0, 0);
    for (int attempt = 0; attempt < CLAIM_ATTEMPTS; attempt++) {
        enum kv_status status = open_claim(name, &lanes->claim, error);
        if (status == KV_NO_SERVER)
            continue; /* unlinked between our create and our open */
        if (status != KV_OK)
            return status;
        pid_t owner = 0;
        if (wire_lock_queue(lanes->claim, &owner) != 0) {
            mq_close(lanes->claim);
            lanes->claim = (mqd_t)-1;
            return refuse_running(lanes->name, owner, error);
        }
        if (!wire_queue_unlinked(lanes->claim))
            return KV_OK;
        mq_close(lanes->claim);
        lanes->claim = (mqd_t)-1;
    }
    return kv_error_set(error, KV_BUSY,
                        "another daemon starts and stops on %s all the time: choose another name "
                        "with -m",
                        lanes->name);
}

/* Queues ------------------------------------------------------------------------------------------ */

/* Removes what a dead daemon of this user left under the name, and counts it. The claim is ours. */
static enum kv_status remove_stale(const char *name, unsigned *removed, struct kv_error *error)
{
    mqd_t stale;
    enum kv_status status = wire_queue_open(name, true, &stale, NULL, error);
    if (status == KV_NO_SERVER)
        return KV_OK;
    if (status == KV_DENIED)
        return refuse_foreign(name, error);
    if (status != KV_OK)
        return status;
    uid_t uid = wire_queue_uid(stale);
    mq_close(stale);
    if (uid != geteuid())
        return refuse_foreign(name, error);
    if (mq_unlink(name) != 0 && errno != ENOENT)
        return kv_error_set_errno(error, "cannot remove the stale message queue %s", name);
    ++*removed;
    return KV_OK;
}

/* Whatever number of lanes the dead daemon had. */
static enum kv_status remove_all_stale(const char *base, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    unsigned removed = 0;
    enum kv_status status = KV_OK;
    for (unsigned j = 0; j < LANE_PLAN_MAX_LANES && status == KV_OK; j++) {
        wire_queue_name(name, base, WIRE_LANE, 0, j);
        status = remove_stale(name, &removed, error);
    }
    for (unsigned j = 0; j < LANE_PLAN_MAX_BULK_LANES && status == KV_OK; j++) {
        wire_queue_name(name, base, WIRE_BULK_LANE, 0, j);
        status = remove_stale(name, &removed, error);
    }
    if (removed > 0) {
        char queues[32];
        log_info("removed %s of %s, left by a daemon that is gone",
                 format_count(removed, "queue", queues), base);
    }
    return status;
}

static enum kv_status create_queue(struct lanes *lanes, const struct lanes_options *options,
                                   unsigned queue, struct kv_error *error)
{
    struct lane *lane = &lanes->queues[queue];
    bool bulk = queue >= lanes->plan.lanes;
    char name[WIRE_QUEUE_NAME_BYTES];
    queue_name(lanes, queue, name);
    enum kv_status status = wire_queue_create(name, bulk ? lanes->plan.bulk : lanes->plan.lane,
                                              options->queue_mode, true, &lane->queue, error);
    if (status != KV_OK)
        return status;
    lane->linked = true;
    lanes->queue_count = queue + 1;
    if (options->group != (gid_t)-1 && fchown((int)lane->queue, (uid_t)-1, options->group) != 0)
        return kv_error_set_errno(error, "cannot give the message queue %s to group %lu (--group)",
                                  name, (unsigned long)options->group);
    if (wire_lock_lane(lane->queue) != 0)
        return kv_error_set_errno(error, "cannot lock the message queue %s", name);
    return KV_OK;
}

void lanes_unlink(struct lanes *lanes)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    for (unsigned queue = 0; queue < lanes->queue_count; queue++) {
        if (!lanes->queues[queue].linked)
            continue;
        queue_name(lanes, queue, name);
        mq_unlink(name);
        lanes->queues[queue].linked = false;
    }
}

static void drop_queues(struct lanes *lanes)
{
    lanes_unlink(lanes);
    for (unsigned queue = 0; queue < lanes->queue_count; queue++)
        mq_close(lanes->queues[queue].queue);
    lanes->queue_count = 0;
}

/* Creates all queues of the plan, or of the first smaller one that the kernel grants; then *error
 * tells why the one before it was not. */
static enum kv_status create_queues(struct lanes *lanes, const struct lanes_options *options,
                                    struct kv_error *error)
{
    for (;;) {
        unsigned wanted = lanes->plan.lanes + lanes->plan.bulk_lanes;
        enum kv_status status = KV_OK;
        for (unsigned queue = 0; queue < wanted && status == KV_OK; queue++)
            status = create_queue(lanes, options, queue, error);
        if (status == KV_OK)
            return KV_OK;
        drop_queues(lanes);
        if (status != KV_LIMIT || !lane_plan_degrade(&lanes->plan))
            return status;
    }
}

/* refusal: why a plan that the limit allows was not had. */
static void explain_shortfall(struct lanes *lanes, const struct lane_plan *wanted,
                              const struct wire_limits *limits, const char *refusal)
{
    char granted_text[LANE_PLAN_TEXT_BYTES], wanted_text[LANE_PLAN_TEXT_BYTES];
    unsigned long long wanted_bytes = lane_plan_charge(wanted);
    unsigned long long enough = wanted_bytes * LANE_PLAN_SHARES;
    if (lane_plan_charge(&lanes->plan) >= wanted_bytes)
        return;
    lane_plan_describe(&lanes->plan, granted_text);
    lane_plan_describe(wanted, wanted_text);
    if (enough <= limits->msgqueue_bytes)
        kv_error_set(&lanes->shortfall, KV_LIMIT, "request queues: %s, instead of %s: %s",
                     granted_text, wanted_text, refusal);
    else
        kv_error_set(&lanes->shortfall, KV_LIMIT,
                     "request queues: %s, instead of %s: those take %llu bytes, more than a third "
                     "of the %llu that this user may have in message queues (RLIMIT_MSGQUEUE). "
                     "Raise it: `ulimit -q %llu` in the shell that starts serverk, or "
                     "LimitMSGQUEUE=%llu in a systemd unit",
                     granted_text, wanted_text, wanted_bytes,
                     (unsigned long long)limits->msgqueue_bytes, enough, enough);
}

enum kv_status lanes_open(const struct lanes_options *options, struct lanes **result,
                          struct kv_error *error)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory for the request queues");
    wire_queue_name(lanes->name, options->name, WIRE_LANE, 0, 0);
    lanes->mode = options->mode;
    lanes->claim = (mqd_t)-1;
    pthread_mutex_init(&lanes->lock, NULL);
    struct wire_limits limits;
    wire_limits_read(&limits);
    struct lane_plan wanted = lane_plan_wanted(options->mode, options->workers, &limits);
    lanes->plan = lane_plan_first(options->mode, options->workers, &limits);

    enum kv_status status = claim_name(lanes, error);
    if (status == KV_OK)
        status = remove_all_stale(lanes->name, error);
    if (status == KV_OK)
        status = create_queues(lanes, options, error);
    if (status != KV_OK) {
        lanes_close(lanes);
        return status;
    }
    explain_shortfall(lanes, &wanted, &limits, error->text);
    atomic_store(&lanes->in_use, lanes->mode == LANES_AUTO ? 1 : lanes->plan.lanes);
    *result = lanes;
    return KV_OK;
}

void lanes_close(struct lanes *lanes)
{
    if (!lanes)
        return;
    drop_queues(lanes);
    if (lanes->claim != (mqd_t)-1) {
        char name[WIRE_QUEUE_NAME_BYTES];
        wire_queue_name(name, lanes->name, WIRE_LOCK, 0, 0);
        mq_unlink(name); /* before the lock goes with the descriptor: see claim_name */
        mq_close(lanes->claim);
    }
    pthread_mutex_destroy(&lanes->lock);
    free(lanes);
}

const struct lane_plan *lanes_plan(const struct lanes *lanes)
{
    return &lanes->plan;
}

const char *lanes_shortfall(const struct lanes *lanes)
{
    return lanes->shortfall.text[0] ? lanes->shortfall.text : NULL;
}

unsigned lanes_queue_count(const struct lanes *lanes)
{
    return lanes->queue_count;
}

mqd_t lanes_queue(const struct lanes *lanes, unsigned queue)
{
    return lanes->queues[queue].queue;
}

size_t lanes_message_bytes(const struct lanes *lanes)
{
    const struct lane_plan *plan = &lanes->plan;
    bool bulk = plan->bulk_lanes > 0 && plan->bulk.message_bytes > plan->lane.message_bytes;
    return bulk ? plan->bulk.message_bytes : plan->lane.message_bytes;
}

void lanes_set_blocking(struct lanes *lanes, unsigned queue, bool blocking)
{
    struct mq_attr attributes = {.mq_flags = blocking ? 0 : O_NONBLOCK};
    mq_setattr(lanes->queues[queue].queue, &attributes, NULL);
}

/* Assignment -------------------------------------------------------------------------------------- */

/* The first lane that has room for one more, else the emptiest. holds: lock. */
static unsigned choose_filling(const struct lanes *lanes)
{
    unsigned emptiest = 0;
    for (unsigned lane = 0; lane < lanes->plan.lanes; lane++) {
        if (lanes->queues[lane].weight + SESSION_WEIGHT <= lanes->plan.lane.depth)
            return lane;
        if (lanes->queues[lane].weight < lanes->queues[emptiest].weight)
            emptiest = lane;
    }
    return emptiest;
}

struct lane_assignment lanes_assign(struct lanes *lanes, uint16_t reply_depth)
{
    pthread_mutex_lock(&lanes->lock);
    unsigned turn = lanes->turn++;
    unsigned lane = lanes->mode == LANES_AUTO ? choose_filling(lanes) : turn % lanes->plan.lanes;
    lanes->queues[lane].weight += SESSION_WEIGHT;
    if (lane >= atomic_load(&lanes->in_use)) {
        if (lanes->watcher)
            lanes->watcher(lanes->watcher_context, lane);
        atomic_store(&lanes->in_use, lane + 1);
    }
    pthread_mutex_unlock(&lanes->lock);
    return (struct lane_assignment){
        .lane = (uint16_t)lane,
        .bulk_lane = lanes->plan.bulk_lanes ? (uint16_t)(turn % lanes->plan.bulk_lanes) : 0,
        .credits = reply_depth < MAX_CREDITS ? reply_depth : MAX_CREDITS};
}

void lanes_give_back(struct lanes *lanes, const struct lane_assignment *assignment)
{
    pthread_mutex_lock(&lanes->lock);
    lanes->queues[assignment->lane].weight -= SESSION_WEIGHT;
    pthread_mutex_unlock(&lanes->lock);
}

unsigned lanes_in_use(const struct lanes *lanes)
{
    return atomic_load_explicit(&lanes->in_use, memory_order_relaxed);
}

void lanes_set_watcher(struct lanes *lanes, lanes_watcher watcher, void *context)
{
    lanes->watcher = watcher;
    lanes->watcher_context = context;
}
