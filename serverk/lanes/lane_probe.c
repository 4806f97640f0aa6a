#include "serverk/lanes/lane_probe.h"

#include <unistd.h>

#include "wire/queue.h"
#include "wire/queue_name.h"

static enum kv_status make_all(const char *base, const struct lane_plan *plan,
                               struct kv_error *error)
{
    mqd_t queues[LANE_PLAN_MAX_LANES + LANE_PLAN_MAX_BULK_LANES];
    unsigned wanted = plan->lanes + plan->bulk_lanes, made = 0;
    enum kv_status status = KV_OK;
    while (status == KV_OK && made < wanted && made < sizeof queues / sizeof queues[0]) {
        char name[WIRE_QUEUE_NAME_BYTES];
        wire_queue_name(name, base, WIRE_REPLY_QUEUE, getpid(), made);
        status = wire_queue_create(name, made < plan->lanes ? plan->lane : plan->bulk, 0600, true,
                                   &queues[made], error);
        if (status == KV_OK) {
            mq_unlink(name); /* it counts as long as it is open */
            made++;
        }
    }
    while (made > 0)
        mq_close(queues[--made]);
    return status;
}

enum kv_status lane_probe(const char *base, struct lane_plan *plan, struct kv_error *error)
{
    enum kv_status status = make_all(base, plan, error);
    while (status == KV_LIMIT && lane_plan_degrade(plan))
        status = make_all(base, plan, error);
    return status;
}
