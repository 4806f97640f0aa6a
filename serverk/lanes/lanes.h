/*
 * lanes: the request queues of the daemon, and its claim to the queue name.
 *
 * The claim is a write lock on NAME.lock, a queue of mode 0600: one daemon per name. A
 * client cannot take it, while it could lock a lane, which is writable for clients. Under the claim
 * any lane of that name and of our uid is a leftover of a dead daemon: it is unlinked and created
 * again, so that no stale request is executed.
 *
 * Lanes are numbered 0 .. lanes-1, bulk lanes after them: "queue" below is an index over both, and
 * over guest lanes, from LANE_PLAN_FIRST_GUEST on. The number in a lane's name, which WELCOME
 * tells, is the same unless another user has a queue of that name (lane_names.h). Every lane
 * carries a read lock of ours: clients see by it whether its server lives.
 *
 * Where the mode lets other users in (and --lanes is auto), lane 0 is only the *door*: HELLOs come
 * there, and messages of clients without their own lane. The other lanes then belong to the
 * daemon's own user, mode 0600, and each other uid has its own lane (guest_lanes.h). The queue of a
 * message tells its tenant: the own user, the door, a guest, or the readers.
 *
 * Those who may only read have a lane that they share (read_lane.h): LANE_PLAN_READ_LANE. Their
 * sessions have no other.
 *
 * Threads: one thread opens and closes. Calls about sessions take the lock. The rest only reads
 * atomics and what is constant after lanes_open.
 */
#ifndef MQKV_SERVERK_LANES_LANES_H
#define MQKV_SERVERK_LANES_LANES_H

#include <mqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "serverk/lanes/lane_plan.h"

struct lanes;

/* The queues that receivers poll. The descriptor of a queue is constant once its bit is set. */
struct served_lanes {
    _Atomic uint32_t set; /* bits of queues */
    mqd_t queues[LANE_PLAN_MAX_QUEUES];
};

/* The tenants of messages; that of guest lane j is TENANT_GUESTS + j. */
enum {
    TENANT_OWN,
    TENANT_DOOR,
    TENANT_GUESTS,
    TENANT_READERS = TENANT_GUESTS + LANE_PLAN_MAX_GUESTS,
    TENANTS
};

struct lanes_options {
    const char *name;
    enum lanes_mode mode;
    uint32_t workers;
    mode_t queue_mode;
    gid_t group; /* (gid_t)-1: as created */
    bool has_read_lane;
    gid_t read_group; /* whose members may only read */
    bool takes_rings; /* clients are to see that their replies may come through shared memory */
};

/* Takes the claim and creates all queues, O_NONBLOCK. KV_BUSY (the owner's pid), KV_DENIED (NAME or
 * NAME.lock belongs to somebody else), KV_LIMIT, KV_IO. */
enum kv_status lanes_open(const struct lanes_options *options, struct lanes **lanes,
                          struct kv_error *error);

/* Unlinks the queues' names: no new client can open them, and clients can see that they are
 * gone. */
void lanes_unlink(struct lanes *lanes);

/* Returns the number of the daemon's queues, those of guests aside, and which they are. */
#define LANES_NAMED_MAX (LANE_PLAN_MAX_LANES + LANE_PLAN_MAX_BULK_LANES + 2)
unsigned lanes_named(const struct lanes *lanes, mqd_t queues[LANES_NAMED_MAX]);

/* Returns whether all of these have their names: an administrator's rm, or logind at the end of the
 * user's last session (RemoveIPC), may take them away. Then no new client finds the daemon, and
 * those that it has leave their lanes. */
bool lanes_are_linked(const struct lanes *lanes);

/* Makes anew what has lost its name, the claim first: messages that wait move along, descriptors
 * keep their numbers, and the listener is told. KV_BUSY (another daemon has the name by now),
 * KV_DENIED, KV_EXISTS, KV_LIMIT, KV_IO: some have no name, and the call may be repeated. */
enum kv_status lanes_renew(struct lanes *lanes, struct kv_error *error);

/* Unlinks what is still linked, gives up the claim, frees. NULL is harmless. */
void lanes_close(struct lanes *lanes);

const struct lane_plan *lanes_plan(const struct lanes *lanes);

/* Returns NULL if the plan is what the mode would like; else a sentence: what was granted, what was
 * wanted, and the line that raises the limit. */
const char *lanes_shortfall(const struct lanes *lanes);

unsigned lanes_queue_count(const struct lanes *lanes);
mqd_t lanes_queue(const struct lanes *lanes, unsigned queue);

/* Returns the size of the largest message of any lane, in bytes. */
size_t lanes_message_bytes(const struct lanes *lanes);

/* Makes receiving from the queue block, or not. */
void lanes_set_blocking(struct lanes *lanes, unsigned queue, bool blocking);

/* What a session was given. */
struct lane_assignment {
    uint16_t family; /* as WELCOME has it, like the next two */
    uint16_t lane;
    uint16_t bulk_lane;
    uint16_t credits; /* requests it may have in flight */
    uint32_t lane_bytes;
    uint32_t bulk_bytes;         /* lane_bytes: it has no bulk lane */
    uint8_t queue;               /* of the lane */
    bool opening;                /* the lane is open to others until lanes_arrived, or for 100 ms */
    unsigned round;              /* of that: guest_lanes.h */
    const _Atomic bool *spoiled; /* if set, the session is to begin anew with another lane */
};

/* The client that wants a lane. */
struct lane_request {
    uid_t uid;
    uint16_t reply_depth; /* messages that its reply queue holds */
    bool knows_guests;    /* it understands the family of guest lanes */
    bool reads_only;      /* its HELLO came through the read lane */
};

/* In LANES_AUTO lanes fill up one after the other, so that few clients use few lanes, which are
 * cheap to poll. In other modes sessions go round robin. */
struct lane_assignment lanes_assign(struct lanes *lanes, const struct lane_request *request);

/* Opens the lane again, for a session whose lane is opening and that has sent nothing through
 * it. */
void lanes_reopen(struct lanes *lanes, const struct lane_assignment *assignment);

/* Notes that the first message of a session whose lane is opening came through there; once for a
 * session. */
void lanes_arrived(struct lanes *lanes, const struct lane_assignment *assignment);

/* Returns a descriptor that is readable when lanes_tick is to be called, which closes lanes that
 * nobody arrived in; -1: there is no door. */
int lanes_timer(const struct lanes *lanes);
void lanes_tick(struct lanes *lanes);

/* Gives back what the session was assigned. arrived: lanes_arrived was called, or was not
 * needed. */
void lanes_give_back(struct lanes *lanes, const struct lane_assignment *assignment, bool arrived);

/* Returns whether a message of a session of that uid and assignment may come through `queue`, one
 * for which lanes_is_own is false; counts the message. */
bool lanes_admit(struct lanes *lanes, unsigned queue, uid_t uid,
                 const struct lane_assignment *assignment);

/* Counts a message from `queue` that belongs to no session. */
void lanes_count_garbage(struct lanes *lanes, unsigned queue);

/* Returns the number of lanes that sessions may send to by now, which are those from 0 on; it never
 * shrinks. */
unsigned lanes_in_use(const struct lanes *lanes);

/* The queues that may have messages: the lanes in use, all bulk lanes, all guest lanes. The
 * listener (one, set before sessions come) is told of a new one, and of one that was made anew
 * (lanes_renew). A queue that leaves the set is closed. */
const struct served_lanes *lanes_served(const struct lanes *lanes);
static inline uint32_t served_lanes_set(const struct served_lanes *served)
{
    return atomic_load_explicit(&served->set, memory_order_acquire);
}
typedef void (*lanes_listener)(void *context, unsigned queue);
void lanes_set_listener(struct lanes *lanes, lanes_listener listener, void *context);

/* Returns whether other users would have lanes of their own, with these options. */
bool lanes_admit_others(enum lanes_mode mode, mode_t queue_mode, bool has_read_lane);

/* Lets those send whom queue_mode and group say (group (gid_t)-1: that of the process).
 * KV_UNSUPPORTED: that takes a restart, since other users need lanes that are not there; KV_DENIED,
 * KV_IO. */
enum kv_status lanes_set_mode(struct lanes *lanes, mode_t queue_mode, gid_t group,
                              struct kv_error *error);

/* Returns whether a user other than the daemon's may come at all. */
bool lanes_let_others_in(const struct lanes *lanes);

/* Returns whether other users may come, and have lanes of their own. */
bool lanes_have_door(const struct lanes *lanes);

static inline bool lanes_is_guest(unsigned queue)
{
    return queue >= LANE_PLAN_FIRST_GUEST && queue < LANE_PLAN_READ_LANE;
}

/* Returns whether the queue is neither a guest's nor the read lane. */
static inline bool lanes_is_own(unsigned queue)
{
    return queue < LANE_PLAN_FIRST_GUEST;
}

/* Returns the tenant of messages from `queue`, where there is a door. */
static inline unsigned lanes_tenant(unsigned queue)
{
    return !lanes_is_own(queue) ? TENANT_GUESTS + queue - LANE_PLAN_FIRST_GUEST
           : queue == 0         ? TENANT_DOOR
                                : TENANT_OWN;
}

/* Returns the queues (as bits) that those tenants (as bits) pay for. */
static inline uint32_t lanes_of_tenants(uint32_t tenants)
{
    uint32_t own = (UINT32_C(1) << LANE_PLAN_FIRST_GUEST) - 2;
    return (tenants & 1u << TENANT_OWN ? own : 0) | (tenants & 1u << TENANT_DOOR ? 1 : 0) |
           tenants >> TENANT_GUESTS << LANE_PLAN_FIRST_GUEST;
}

/* Told that a tenant's account is to begin anew, since somebody else gets its lane. */
typedef void (*lanes_tenant_listener)(void *context, unsigned tenant);
void lanes_set_tenant_listener(struct lanes *lanes, lanes_tenant_listener listener, void *context);

/* What statistics tell of the guest number `guest`; lanes_guest_facts returns false if there is
 * none now. */
struct guest_facts {
    uid_t uid;
    unsigned sessions;
    bool given; /* its queue belongs to the uid */
    struct wire_geometry geometry;
    uint64_t messages, garbage;
};
bool lanes_guest_facts(struct lanes *lanes, unsigned guest, struct guest_facts *facts);

/* What statistics tell of the read lane; lanes_reader_facts returns false if there is none. */
struct reader_facts {
    gid_t group;
    unsigned sessions;
    struct wire_geometry geometry;
    uint64_t messages, garbage;
};
bool lanes_reader_facts(const struct lanes *lanes, struct reader_facts *facts);

/* Messages that wait in the queues of a kind, and how many fit into them; 0 where there are none:
 * lanes, bulk lanes, those of other users, and that of readers. */
struct lanes_depth {
    uint64_t messages, capacity;
};
void lanes_depths(struct lanes *lanes, struct lanes_depth *own, struct lanes_depth *bulk,
                  struct lanes_depth *guests, struct lanes_depth *readers);

#endif
