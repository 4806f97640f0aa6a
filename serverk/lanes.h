/*
 * lanes: the request queues of the daemon, and its claim to the queue name.
 *
 * The claim is a write lock on NAME.lock, a queue of mode 0600: one daemon a name, and a client can
 * not take it (lanes themselves are writable for clients, who could lock them). Under the claim any
 * lane of that name is a dead daemon's: unlinked and made anew, so that no stale request is executed.
 *
 * Lanes are numbered 0 .. lanes-1, bulk lanes after them: "queue" below is an index over both. Every
 * lane carries a read lock of ours: clients see by it whether its server lives.
 *
 * Threads: opened and closed by one; lanes_assign and lanes_give_back lock; the rest only reads what
 * is constant after lanes_open.
 */
#ifndef MQKV_SERVERK_LANES_H
#define MQKV_SERVERK_LANES_H

#include <mqueue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "serverk/lane_plan.h"

struct lanes;

struct lanes_options {
    const char *name;
    enum lanes_mode mode;
    uint32_t workers;
    mode_t queue_mode;
    gid_t group; /* (gid_t)-1: as created */
};

/* Whether lanes_open would find the name taken, as far as that can be known without taking it: KV_BUSY,
 * KV_DENIED, KV_IO. */
enum kv_status lanes_check_name(const char *name, struct kv_error *error);

/* KV_BUSY (owner's pid), KV_DENIED (the name belongs to somebody else), KV_LIMIT, KV_IO. All queues
 * are created O_NONBLOCK. */
enum kv_status lanes_open(const struct lanes_options *options, struct lanes **lanes,
                          struct kv_error *error);

/* Unlinks the names: nobody new comes in; who has them open can see that they are gone. */
void lanes_unlink(struct lanes *lanes);

/* Unlinks what is still linked, gives up the claim, frees. NULL is harmless. */
void lanes_close(struct lanes *lanes);

const struct lane_plan *lanes_plan(const struct lanes *lanes);

/* NULL if the plan is what the mode would like; else a sentence: granted, wanted, and the line that
 * raises the limit. */
const char *lanes_shortfall(const struct lanes *lanes);

unsigned lanes_queue_count(const struct lanes *lanes);
mqd_t lanes_queue(const struct lanes *lanes, unsigned queue);

/* Bytes of the largest message of any lane. */
size_t lanes_message_bytes(const struct lanes *lanes);

/* O_NONBLOCK off or on. */
void lanes_set_blocking(struct lanes *lanes, unsigned queue, bool blocking);

/* What a session was given. */
struct lane_assignment {
    uint16_t lane;
    uint16_t bulk_lane;
    uint16_t credits; /* requests it may have in flight */
};

/* For a session whose reply queue holds `reply_depth` messages. In LANES_AUTO lanes fill up one after
 * the other, so that few clients leave few lanes to poll; else sessions go round. */
struct lane_assignment lanes_assign(struct lanes *lanes, uint16_t reply_depth);
void lanes_give_back(struct lanes *lanes, const struct lane_assignment *assignment);

/* Lanes that sessions may send to by now are 0 .. lanes_in_use-1; it never shrinks. A change is told
 * to the watcher (one; set before sessions come) with the new lane's queue index. */
unsigned lanes_in_use(const struct lanes *lanes);
typedef void (*lanes_watcher)(void *context, unsigned queue);
void lanes_set_watcher(struct lanes *lanes, lanes_watcher watcher, void *context);

#endif
