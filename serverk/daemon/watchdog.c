#include "serverk/daemon/watchdog.h"

#include <mqueue.h>

#include "common/report/log.h"

static bool messages_wait(const struct lanes *lanes)
{
    uint32_t served = served_lanes_set(lanes_served(lanes));
    for (unsigned queue = 0; queue < LANE_PLAN_MAX_QUEUES; queue++) {
        struct mq_attr attributes;
        if ((served >> queue & 1) != 0 && mq_getattr(lanes_queue(lanes, queue), &attributes) == 0 &&
            attributes.mq_curmsgs > 0)
            return true;
    }
    return false;
}

bool watchdog_look(struct watchdog *watchdog, const struct lanes *lanes, const struct aside *aside,
                   const struct farewells *farewells, bool reload_works)
{
    uint64_t progress = farewells_progress(farewells);
    bool stuck = progress == watchdog->progress &&
                 ((aside && aside_waiting(aside) > 0) || messages_wait(lanes));
    watchdog->progress = progress;
    if (!stuck || (reload_works && watchdog->stuck < WATCHDOG_PATIENCE))
        watchdog->stuck = 0;
    else if (++watchdog->stuck == WATCHDOG_PATIENCE)
        log_error("all workers hang: messages wait, and nobody looks at them; the service "
                  "manager's watchdog is not told any more that the daemon works");
    return watchdog->stuck < WATCHDOG_PATIENCE;
}
