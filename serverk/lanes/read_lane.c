#include "serverk/lanes/read_lane.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "serverk/lanes/claim.h"
#include "serverk/lanes/own_lanes.h"
#include "wire/queue.h"

/* All readers share the lane: it is as deep as another, for batches of reads. */
#define MESSAGE_BYTES 4096u

unsigned read_lane_remove_stale(const char *base)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, base, WIRE_READ_LANE, 0, 0);
    if (mq_unlink(name) == 0)
        return 1;
    if (errno != ENOENT)
        log_warn("the message queue %s belongs to another user, who could answer readers in this "
                 "daemon's place; `rm /dev/mqueue%s` removes it",
                 name, name);
    return 0;
}

/* Nobody may send before the group is the right one. */
static enum kv_status let_group_in(const struct read_lane *lane, const char *name,
                                   struct kv_error *error)
{
    if (fchown((int)lane->queue, (uid_t)-1, lane->group) != 0)
        return kv_error_set_errno(error,
                                  "cannot give the message queue %s to group %lu (--read-group)",
                                  name, (unsigned long)lane->group);
    if (fchmod((int)lane->queue, 0620) != 0)
        return kv_error_set_errno(error, "cannot open the message queue %s to its group", name);
    if (wire_lock_lane(lane->queue) != 0)
        return kv_error_set_errno(error, "cannot lock the message queue %s", name);
    return KV_OK;
}

enum kv_status read_lane_open(struct read_lane *lane, const char *base, gid_t group,
                              const struct lane_plan *plan, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, base, WIRE_READ_LANE, 0, 0);
    uint32_t largest_bytes =
        plan->bulk_lanes > 0 ? plan->bulk.message_bytes : plan->lane.message_bytes;
    lane->group = group;
    lane->geometry = plan->lane;
    lane->geometry.message_bytes = largest_bytes < MESSAGE_BYTES ? largest_bytes : MESSAGE_BYTES;
    enum kv_status status;
    do
        status = wire_queue_create(name, lane->geometry, 0600, true, &lane->queue, error);
    while (status == KV_LIMIT && (lane->geometry.depth /= 2) > 0);
    if (status == KV_EXISTS)
        return claim_refuse_foreign(name, error);
    if (status != KV_OK)
        return status;
    lane->base = base;
    lane->linked = true;
    return let_group_in(lane, name, error);
}

enum kv_status read_lane_renew(struct read_lane *lane, const struct lane_plan *plan, mqd_t *old,
                               struct kv_error *error)
{
    struct read_lane fresh = {.base = NULL};
    enum kv_status status = read_lane_open(&fresh, lane->base, lane->group, plan, error);
    if (status != KV_OK) {
        read_lane_close(&fresh);
        return status;
    }
    lane->linked = true;
    lane->geometry = fresh.geometry;
    *old = own_lanes_exchange(lane->queue, fresh.queue);
    if (*old != (mqd_t)-1 && wire_lock_lane(lane->queue) == 0)
        return KV_OK;
    status = kv_error_set_errno(error, "cannot serve the queue of readers that was made anew");
    read_lane_unlink(lane);
    return status;
}

void read_lane_unlink(struct read_lane *lane)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    if (!lane->base || !lane->linked)
        return;
    wire_queue_name(name, lane->base, WIRE_READ_LANE, 0, 0);
    mq_unlink(name);
    lane->linked = false;
}

void read_lane_close(struct read_lane *lane)
{
    read_lane_unlink(lane);
    if (lane->base)
        mq_close(lane->queue);
    lane->base = NULL;
}
