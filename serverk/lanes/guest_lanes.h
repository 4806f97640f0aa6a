/*
 * guest_lanes: request lanes of users other than the daemon's. Each uid with sessions has its own
 * lane, as long as any are left, so that messages of one user never queue behind those of another.
 * Only that uid can open the queue NAME.g<j>:
 *
 *   given  if the daemon may give files away (root, CAP_CHOWN), the queue belongs to the uid, mode
 *          0200;
 *   lent   otherwise it belongs to the daemon, mode 0600, and is as open as NAME from a WELCOME to
 *          the first message of that session, for at most 100 ms. A user who opens it in that
 *          moment and sends garbage spoils it: replies tell the uid's sessions to begin again with
 *          another lane, and a warning in the log names the remedy.
 *
 * j is random: a user who creates queues under such names in advance takes few of them, because the
 * system allows few queues (fs.mqueue.queues_max) compared with the number of names.
 *
 * A lane without sessions is given up. Its descriptor keeps its number until the daemon ends,
 * because workers may be about to use it; a placeholder that gives no messages takes the number.
 *
 * Threads: everything but the counting of messages is guarded by the lock of
 * lanes.c.
 */
#ifndef MQKV_SERVERK_LANES_GUEST_LANES_H
#define MQKV_SERVERK_LANES_GUEST_LANES_H

#include <mqueue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "serverk/lanes/lane_plan.h"
#include "wire/queue_name.h"

struct guest_lane {
    mqd_t queue; /* -1: none yet; constant from then on */
    bool live;
    bool given;
    _Atomic bool spoiled;
    _Atomic uid_t uid;
    bool known;    /* the uid had this lane before */
    unsigned name; /* the number in it */
    unsigned sessions;
    bool open;              /* lent, and others may open it now */
    uint64_t open_until_ms; /* of the monotonic clock */
    unsigned round;         /* of being open: how often the timer closed it */
    bool reopened;          /* for a session of an earlier round: only the timer closes it */
    unsigned opening;       /* sessions of this round that have not come through it yet */
    struct wire_geometry geometry;
    _Atomic uint64_t messages, garbage;
};

struct guest_lanes {
    const char *base;
    mode_t mode; /* of NAME */
    gid_t group; /* (gid_t)-1: as created */
    const struct lane_plan *plan;
    uint64_t bytes_left;
    int placeholder;
    int timer; /* guest_lanes_tick is to be called when it is readable */
    bool armed;
    bool may_not_give;  /* the kernel said so */
    const char *reason; /* of the last NULL of guest_lanes_enter */
    struct guest_lane lanes[LANE_PLAN_MAX_GUESTS];
};

/* Prepares for guests whose lanes take `bytes` bytes at most, all together. base and plan are kept.
 * False: errno. */
bool guest_lanes_init(struct guest_lanes *guests, const char *base, mode_t mode, gid_t group,
                      const struct lane_plan *plan, uint64_t bytes);

/* Unlinks and closes all lanes; harmless if *guests is all zeros. */
void guest_lanes_close(struct guest_lanes *guests);
void guest_lanes_unlink(struct guest_lanes *guests);

/* Returns the lane for one more session of the user `uid`; *made: the lane is new. NULL: there is
 * none, see guests->reason. */
struct guest_lane *guest_lanes_enter(struct guest_lanes *guests, uid_t uid, bool *made);

/* Opens the lane to others once more, for a session that entered in that round (lane->round, then),
 * has not come through the lane yet, and asks again. */
void guest_lanes_reopen(struct guest_lanes *guests, struct guest_lane *lane, unsigned round);

/* Notes that a session that entered in that round (lane->round, then) has sent its first
 * message. */
void guest_lanes_arrived(struct guest_lane *lane, unsigned round);

/* Closes lanes that were open for long enough, and sets the timer for the others. */
void guest_lanes_tick(struct guest_lanes *guests);

/* Takes out a session that has arrived, or was never waited for. True: it was the last one, and the
 * lane is no more. */
bool guest_lanes_leave(struct guest_lanes *guests, struct guest_lane *lane);

/* Counts a message that no session of the lane's uid sent. True: the lane is spoiled from now on;
 * the caller logs it. */
bool guest_lanes_count_garbage(struct guest_lane *lane);

/* Removes the guest lanes that a dead daemon of this user left under the name, if the kernel
 * permits it. Returns how many. */
unsigned guest_lanes_remove_stale(const char *base);

#endif
