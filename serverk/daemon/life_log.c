#include "serverk/daemon/life_log.h"

#include <stdio.h>
#include <unistd.h>

#include "common/report/log.h"
#include "common/text/parse.h"
#include "serverk/config/lab_seam.h"

/* Describes what executes requests. */
static const char *describe_workers(const struct server_options *options, char text[64])
{
    char count[32];
    const struct dispatch_model *model = options->dispatch;
    if (!model->one_receives)
        return format_count(options->workers, "worker", text);
    if (model->serves_beside)
        snprintf(text, 64, "up to %s at once (a %s each)",
                 format_count(options->workers, "request", count), model->name);
    else
        snprintf(text, 64, "one thread (%s)", model->name);
    return text;
}

/* Describes where the data are: "dir /var/lib/mqkv". */
static const char *describe_place(const struct server_options *options, char text[512])
{
    if (options->engine == ENGINE_KIND_NATS)
        snprintf(text, 512, "engine nats");
    else
        snprintf(text, 512, "dir %s", options->dir);
    return text;
}

static const char *describe_sync(const struct server_options *options, char text[48])
{
    if (options->engine == ENGINE_KIND_NATS)
        snprintf(text, 48, "servers sync %s", options->nats.synced ? "always" : "now and then");
    else if (options->durability == KVSTORE_SYNC_INTERVAL)
        snprintf(text, 48, "sync interval:%u", options->sync_interval_ms);
    else
        snprintf(text, 48, "sync %s", durability_name(options->durability));
    return text;
}

void life_log_start(const struct service *service, const struct sandbox *given_up)
{
    const struct server_options *options = service->options;
    char engine[128], workers[64], lanes[LANE_PLAN_TEXT_BYTES], where[512], sync[48];
    char sandbox[SANDBOX_TEXT_BYTES];
    if (lanes_shortfall(service->lanes))
        log_warn("%s", lanes_shortfall(service->lanes));
    if (options->evict == KVSTORE_EVICT_S3FIFO && options->direct != KVSTORE_DIRECT_OFF)
        log_warn("--direct %s with --evict s3fifo: what is read without the daemon does not count "
                 "as read, and is evicted",
                 kvstore_direct_name(options->direct));
    if (options->io == KVSTORE_IO_DIRECT)
        log_info("--io direct: each record that is looked up is read from the disk%s",
                 options->direct == KVSTORE_DIRECT_OFF
                     ? ""
                     : ", but not by programs that read without the daemon (--direct)");
    lab.warn(options);
    log_info("serverk " MQKV_VERSION " ready: pid %ld, queue %s, %s, %s, %s, %s (%s), %s",
             (long)getpid(), options->queue, describe_place(options, where),
             service->engine->calls->describe(service->engine, engine, sizeof engine),
             describe_workers(options, workers),
             lane_plan_describe(lanes_plan(service->lanes), lanes), lanes_mode_name(options->lanes),
             describe_sync(options, sync));
    log_debug("sandbox: %s", sandbox_describe(given_up, sandbox));
}

void life_log_stop(const struct server_options *options)
{
    char where[512];
    log_info("serverk stopped: queue %s, %s", options->queue, describe_place(options, where));
}
