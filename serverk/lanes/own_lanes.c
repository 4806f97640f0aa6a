#include "serverk/lanes/own_lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "serverk/lanes/claim.h"
#include "wire/queue.h"

static enum wire_queue_role role_of(const struct own_lanes *own, unsigned queue)
{
    return queue < own->plan.lanes ? WIRE_LANE : WIRE_BULK_LANE;
}

static void lane_name(const struct own_lanes *own, unsigned queue, char out[WIRE_QUEUE_NAME_BYTES])
{
    wire_queue_name(out, own->names.base, role_of(own, queue), 0, own->lanes[queue].number);
}

bool own_lanes_have_door(const struct own_lanes *own)
{
    return own->plan.lanes > 1 && own->admits_others;
}

/* Returns whether others may send to the queue, as far as the mode lets them. */
static bool is_shared(const struct own_lanes *own, unsigned queue)
{
    return queue == 0 || !own_lanes_have_door(own);
}

/* Creates a queue for the lane, under the first free number from `number` on. */
static enum kv_status create_lane_queue(struct own_lanes *own, unsigned queue, unsigned number,
                                        mqd_t *descriptor, struct kv_error *error)
{
    enum wire_queue_role role = role_of(own, queue);
    bool shared = is_shared(own, queue);
    enum kv_status status =
        lane_names_create(&own->names, role, role == WIRE_LANE ? own->plan.lane : own->plan.bulk,
                          shared ? own->mode : 0600, &number, descriptor, error);
    if (status != KV_OK)
        return status;
    own->lanes[queue] = (struct own_lane){.linked = true, .number = (uint16_t)number};
    if (!shared || own->group == (gid_t)-1 || fchown((int)*descriptor, (uid_t)-1, own->group) == 0)
        return KV_OK;
    char name[WIRE_QUEUE_NAME_BYTES];
    lane_name(own, queue, name);
    status = kv_error_set_errno(error, "cannot give the message queue %s to group %lu (--group)",
                                name, (unsigned long)own->group);
    mq_unlink(name);
    mq_close(*descriptor);
    own->lanes[queue].linked = false;
    return status;
}

static enum kv_status lock_lane(const struct own_lanes *own, unsigned queue, struct kv_error *error)
{
    if (wire_lock_lane(own->queues[queue]) == 0)
        return KV_OK;
    char name[WIRE_QUEUE_NAME_BYTES];
    lane_name(own, queue, name);
    return kv_error_set_errno(error, "cannot lock the message queue %s", name);
}

static enum kv_status open_own_lane(struct own_lanes *own, unsigned queue, struct kv_error *error)
{
    bool first = queue == 0 || queue == own->plan.lanes;
    unsigned number = first ? 0 : own->lanes[queue - 1].number + 1u;
    enum kv_status status = create_lane_queue(own, queue, number, &own->queues[queue], error);
    if (status != KV_OK)
        return status;
    own->count = queue + 1;
    return lock_lane(own, queue, error);
}

enum kv_status own_lanes_open(struct own_lanes *own, struct kv_error *error)
{
    for (;;) {
        unsigned wanted = own->plan.lanes + own->plan.bulk_lanes;
        enum kv_status status = KV_OK;
        for (unsigned queue = 0; queue < wanted && status == KV_OK; queue++)
            status = open_own_lane(own, queue, error);
        if (status == KV_OK)
            return KV_OK;
        own_lanes_close(own);
        const struct lane_plan *plan = &own->plan;
        if (status == KV_EXISTS && wanted > 1) /* others have all names but that of lane 0 */
            own->plan = (struct lane_plan){.lanes = 1,
                                           .lane = plan->bulk_lanes > 0 ? plan->bulk : plan->lane};
        else if (status != KV_LIMIT || !lane_plan_degrade(&own->plan))
            return status;
    }
}

void own_lanes_unlink(struct own_lanes *own)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    for (unsigned queue = 0; queue < own->count; queue++) {
        lane_name(own, queue, name);
        if (own->lanes[queue].linked)
            mq_unlink(name);
        own->lanes[queue].linked = false;
    }
}

void own_lanes_close(struct own_lanes *own)
{
    own_lanes_unlink(own);
    for (unsigned queue = 0; queue < own->count; queue++)
        mq_close(own->queues[queue]);
    own->count = 0;
}

enum kv_status own_lanes_set_mode(struct own_lanes *own, mode_t mode, gid_t group,
                                  struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    gid_t now = group == (gid_t)-1 ? getegid() : group;
    for (unsigned queue = 0; queue < own->count; queue++) {
        int descriptor = (int)own->queues[queue];
        /* The group first, since until then the mode is for the old one. */
        if (!is_shared(own, queue) ||
            (fchown(descriptor, (uid_t)-1, now) == 0 && fchmod(descriptor, mode) == 0))
            continue;
        lane_name(own, queue, name);
        return kv_error_set_errno(error, "cannot give the message queue %s mode %04o and group %lu",
                                  name, (unsigned)mode, (unsigned long)now);
    }
    own->mode = mode;
    own->group = group;
    return KV_OK;
}

/* Made anew ------------------------------------------------------------------------------------ */

/* Moves the messages that wait, and waits for none, nor for room. */
static void move_messages(mqd_t from, mqd_t to)
{
    const struct timespec at_once = {0};
    struct mq_attr is;
    if (mq_getattr(from, &is) != 0)
        return;
    char *message = malloc((size_t)is.mq_msgsize);
    unsigned priority;
    ssize_t size = 0;
    while (message && size >= 0) {
        size = mq_timedreceive(from, message, (size_t)is.mq_msgsize, &priority, &at_once);
        if (size >= 0 && mq_timedsend(to, message, (size_t)size, priority, &at_once) != 0)
            break;
    }
    free(message);
}

mqd_t own_lanes_exchange(mqd_t queue, mqd_t fresh)
{
    struct mq_attr flags;
    int old = fcntl((int)queue, F_DUPFD_CLOEXEC, 0);
    bool exchanged =
        old >= 0 && mq_getattr(queue, &flags) == 0 && mq_setattr(fresh, &flags, NULL) == 0;
    if (exchanged) {
        move_messages(queue, fresh);
        exchanged = dup3((int)fresh, (int)queue, O_CLOEXEC) >= 0;
    }
    int error_number = errno;
    if (old >= 0 && !exchanged)
        close(old);
    mq_close(fresh);
    errno = error_number;
    return exchanged ? (mqd_t)old : (mqd_t)-1;
}

void own_lanes_empty(mqd_t old, mqd_t queue)
{
    move_messages(old, queue);
    mq_close(old);
}

/* Returns the number to begin with: that of before; behind all others of the role, if somebody has
 * that. */
static unsigned number_to_try(const struct own_lanes *own, unsigned queue)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    mqd_t other;
    unsigned number = own->lanes[queue].number;
    lane_name(own, queue, name);
    enum kv_status status = wire_queue_open(name, true, &other, NULL, NULL);
    if (status == KV_OK)
        mq_close(other);
    if (queue == 0 || status == KV_NO_SERVER)
        return number;
    for (unsigned i = 0; i < own->count; i++)
        if (role_of(own, i) == role_of(own, queue) && own->lanes[i].number >= number)
            number = own->lanes[i].number + 1u;
    return number;
}

/* Gives the bytes of a queue in which nothing waits back to the user: who receives from its
 * descriptor finds nothing, until it is one of another queue. False: something waits there, or
 * there is not even room for the smallest queue in its place. */
static bool give_up_queue(const struct own_lanes *own, unsigned queue)
{
    const struct wire_geometry smallest = {.depth = 1, .message_bytes = 1};
    char name[WIRE_QUEUE_NAME_BYTES];
    struct mq_attr is;
    mqd_t nothing;
    wire_queue_name(name, own->names.base, WIRE_REPLY_QUEUE, getpid(), queue);
    if (mq_getattr(own->queues[queue], &is) != 0 || is.mq_curmsgs > 0 ||
        wire_queue_create(name, smallest, 0600, true, &nothing, NULL) != KV_OK)
        return false;
    mq_unlink(name);
    bool given_up = mq_setattr(nothing, &is, NULL) == 0 &&
                    dup3((int)nothing, (int)own->queues[queue], O_CLOEXEC) >= 0;
    mq_close(nothing);
    return given_up;
}

static enum kv_status renew_lane(struct own_lanes *own, unsigned queue, mqd_t *old,
                                 struct kv_error *error)
{
    mqd_t fresh;
    own->lanes[queue].linked = false;
    unsigned number = number_to_try(own, queue);
    enum kv_status status = create_lane_queue(own, queue, number, &fresh, error);
    if (status == KV_LIMIT && give_up_queue(own, queue))
        status = create_lane_queue(own, queue, number, &fresh, error);
    if (status != KV_OK)
        return status;
    *old = own_lanes_exchange(own->queues[queue], fresh);
    if (*old != (mqd_t)-1)
        return lock_lane(own, queue, error);
    char name[WIRE_QUEUE_NAME_BYTES];
    lane_name(own, queue, name);
    status = kv_error_set_errno(error, "cannot serve the message queue %s", name);
    mq_unlink(name);
    own->lanes[queue].linked = false;
    return status;
}

enum kv_status own_lanes_renew(struct own_lanes *own, mqd_t *old, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (unsigned queue = 0; queue < own->count && status == KV_OK; queue++)
        if (wire_queue_unlinked(own->queues[queue]))
            status = renew_lane(own, queue, &old[queue], error);
    return status;
}
