/* What the lab registers with the daemon. */
#include <stdlib.h>

#include "common/report/log.h"
#include "lab/lab_options.h"
#include "lab/schedule/cost_order.h"
#include "lab/service/serving.h"
#include "serverk/config/lab_seam.h"
#include "serverk/daemon/json_writer.h"
#include "serverk/daemon/stats_source.h"

static bool has_service_time(const struct server_options *options)
{
    return lab_options_of(options)->service_time.delay.kind != DELAY_OFF;
}

static void lab_warn(const struct server_options *options)
{
    const struct lab_options *values = lab_options_of(options);
    if (values->allocator != KVSTORE_ALLOCATOR_SYSTEM && options->cache_bytes == 0)
        log_warn("--allocator %s has no effect: there is no cache (--cache SIZE)",
                 kvstore_allocator_name((enum kvstore_allocator)values->allocator));
    if (options->sched != ORDER_LAB && values->sched_queue != LAB_DEFAULT_SCHED_QUEUE)
        log_warn("--sched-queue %u has no effect: requests wait in the daemon with --sched cost "
                 "only",
                 values->sched_queue);
    if (has_service_time(options))
        log_warn("--service-time makes each operation slow, for experiments: not for a daemon that "
                 "serves anybody");
}

static void lab_open_store(const struct server_options *options, struct kvstore_options *opening)
{
    const struct lab_options *values = lab_options_of(options);
    opening->locking = (enum kvstore_locking)values->locking;
    if (values->rwlock >= 0)
        opening->rwlock = (enum kvstore_rwlock)values->rwlock;
    opening->allocator = (enum kvstore_allocator)values->allocator;
    if (values->service_time.locked)
        opening->before_unlock = serving_before_unlock;
}

static struct message_order *lab_create_order(const struct service *service)
{
    const struct server_options *options = service->options;
    return cost_order_create(lab_options_of(options)->sched_queue,
                             lanes_have_door(service->lanes) ? TENANTS : 1,
                             lanes_message_bytes(service->lanes), options->workers);
}

static void lab_begin_worker(const struct server_options *options,
                             struct execution_context *context)
{
    if (has_service_time(options))
        serving_begin(context, &lab_options_of(options)->service_time);
}

/* Present only where each operation is made slow, which is no way to serve anybody. */
static void lab_put_stats(const struct stats_source *source, struct json *json)
{
    const struct server_options *options = source->service->options;
    struct worker_statistics *sum;
    if (!has_service_time(options) || !(sum = statistics_create(1)))
        return;
    stats_source_sum(source, sum);
    json_begin_member(json, "service_time");
    json_open_object(json);
    json_put_text(json, "warning", "each operation is made slow, for experiments");
    json_put_text(json, "setting", options_text_of(options, "service-time"));
    json_put_number(json, "operations", sum->lab[SERVING_OPERATIONS]);
    json_put_us(json, "asked_us", (double)sum->lab[SERVING_ASKED_NS]);
    json_put_us(json, "taken_us", (double)sum->lab[SERVING_TAKEN_NS]);
    json_close_object(json);
    free(sum);
}

const struct lab lab = {.rows = lab_option_rows,
                        .begin = lab_options_begin,
                        .check = lab_options_check,
                        .warn = lab_warn,
                        .open_store = lab_open_store,
                        .order_name = "cost",
                        .sched_help = "fifo|priority|cost: which request comes first; cost is for "
                                      "studies (default fifo)",
                        .create_order = lab_create_order,
                        .begin_worker = lab_begin_worker,
                        .put_stats = lab_put_stats};
