#include "serverk/daemon/start_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridges/cluster/natskv/natskv.h"
#include "common/report/error.h"
#include "common/report/written_file.h"
#include "common/text/parse.h"
#include "engine/store_engine.h"
#include "serverk/config/dispatch_model.h"
#include "serverk/daemon/start_limits.h"
#include "serverk/daemon/start_user.h"
#include "serverk/daemon/store_opening.h"
#include "serverk/lanes/claim.h"
#include "serverk/lanes/lane_names.h"
#include "serverk/lanes/lanes.h"
#include "wire/limits.h"
#include "wire/queue.h"
#include "wire/queue_name.h"

/* Checks what a start needs beyond opening the store read-only. */
static enum kv_status check_directory(const char *dir, struct kv_error *error)
{
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0)
        return KV_OK;
    return kv_error_set_errno(error, "%s: uid %u cannot make files in the directory", dir,
                              (unsigned)geteuid());
}

/* A bound that the disk has no room for is no failure: a cache is held to what fits. */
static void compare_bound(const struct server_options *options, uint32_t datafiles)
{
    char most[32], fitting[32];
    uint64_t fitting_bytes = kvstore_fitting_bytes(options->dir, datafiles);
    if (options->max_bytes <= fitting_bytes)
        return;
    printf("warning: max-bytes %s: the file system of %s has room for %s of live records (with the "
           "dead ones between two compactions, and the copy that a compaction makes): %s\n",
           format_size(options->max_bytes, most), options->dir, format_size(fitting_bytes, fitting),
           options->evict == KVSTORE_EVICT_NONE ? "writes may be refused before they reach it"
                                                : "entries will be evicted to stay below that");
}

static enum kv_status check_store(const struct server_options *options, struct kv_error *error)
{
    struct kvstore_options opening = store_opening(options);
    opening.create = false;
    opening.read_only = true;
    struct kvstore *store;
    char count[32];
    enum kv_status status = kvstore_open(options->dir, &opening, &store, error);
    if (status == KV_NOT_FOUND) {
        uint32_t datafiles =
            options->datafiles ? options->datafiles : (uint32_t)KVSTORE_DEFAULT_DATAFILES;
        status = check_directory(options->dir, error);
        if (status != KV_OK)
            return status;
        printf("store %s: none yet; %s would be created\n", options->dir,
               format_count(datafiles, "data file", count));
        compare_bound(options, datafiles);
        return KV_OK;
    }
    if (status != KV_OK)
        return store_opening_advise(options, status, error);
    uint32_t datafiles = kvstore_datafiles(store);
    format_count(datafiles, "data file", count);
    status = check_directory(options->dir, error);
    if (status == KV_OK)
        status = kvstore_check_writable(store, error);
    enum kv_status closed = kvstore_close(store, status == KV_OK ? error : NULL);
    if (status == KV_OK)
        status = closed;
    if (status != KV_OK)
        return status;
    printf("store %s: %s\n", options->dir, count);
    compare_bound(options, datafiles);
    return KV_OK;
}

static enum kv_status check_cluster_options(const struct server_options *options,
                                            struct kv_error *error)
{
    struct natskv_options nats = options->nats;
    struct store_engine *engine = NULL;
    char text[128];
    nats.check_only = true;
    enum kv_status status = natskv_open(&nats, &engine, error);
    if (status == KV_NOT_FOUND) {
        printf("bucket %s: none yet; it would be created\n", nats.bucket);
        return KV_OK;
    }
    if (status != KV_OK)
        return status;
    printf("%s: values of up to %u bytes\n", engine->calls->describe(engine, text, sizeof text),
           engine_max_value_bytes(engine));
    return engine_close(engine, error);
}

/* Makes queues like those of *plan for a moment, beside those that the user has already, under
 * names of this process below `base`. */
static enum kv_status make_queues(const char *base, const struct lane_plan *plan,
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

static enum kv_status check_queues(const struct server_options *options, struct kv_error *error)
{
    struct wire_limits limits;
    enum kv_status status = claim_check(options->queue, error);
    if (status == KV_OK)
        status = lane_names_check(options->queue, error);
    if (status != KV_OK)
        return status;
    wire_limits_read(&limits);
    unsigned receivers = dispatch_model_receivers(options->dispatch, options->workers);
    struct lane_plan plan = lane_plan_first(options->lanes, receivers, &limits);
    if (lanes_admit_others(options->lanes, options->mode, options->read_group != (gid_t)-1))
        lane_plan_leave_room(&plan);
    struct lane_plan wanted = plan;
    do /* the smaller plan, as long as the kernel refuses */
        status = make_queues(options->queue, &plan, error);
    while (status == KV_LIMIT && lane_plan_degrade(&plan));
    if (status != KV_OK)
        return status;
    struct kv_error shortfall = {0};
    lane_plan_explain(&plan, &wanted, &limits, error->text, &shortfall);
    if (shortfall.text[0])
        printf("warning: %s\n", shortfall.text);
    char lanes[LANE_PLAN_TEXT_BYTES], need[32], have[32];
    printf("queue %s: %s: %s of the %s that ulimit -q allows this user\n", options->queue,
           lane_plan_describe(&plan, lanes), format_size(lane_plan_charge(&plan), need),
           format_size(limits.msgqueue_bytes, have));
    return KV_OK;
}

/* The files that a start opens to write. */
static enum kv_status check_files(const struct server_options *options, struct kv_error *error)
{
    char metrics[PATH_MAX];
    snprintf(metrics, sizeof metrics, "%s.new", options->metrics ? options->metrics : "");
    const struct written_file files[] = {
        {.path = options->log, .noun = "log file"},
        {.path = options->audit, .noun = "audit log"},
        {.path = options->pidfile, .noun = "pid file", .must_be_regular = true},
        {.path = options->metrics ? metrics : NULL, .noun = "metrics file"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        enum kv_status status = files[i].path ? written_file_check(&files[i], error) : KV_OK;
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}

/* Returns the process that has both the store open and the queue's name: the service whose
 * configuration is checked while it runs. 0: there is none. */
static pid_t running_service(const struct server_options *options)
{
    char path[PATH_MAX], text[32];
    snprintf(path, sizeof path, "%s/lock", options->dir);
    int lock = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* it may be a FIFO */
    ssize_t size = lock < 0 ? -1 : read(lock, text, sizeof text - 1);
    if (lock >= 0)
        close(lock);
    text[size > 0 ? size : 0] = '\0';
    pid_t owner = (pid_t)strtol(text, NULL, 10);
    return owner > 0 && claim_owner(options->queue) == owner ? owner : 0;
}

enum kv_status start_check(const struct server_options *options, struct kv_error *error)
{
    enum kv_status status = start_user_check(error);
    if (status == KV_OK)
        status = start_limits_check_nice(options, error);
    if (status == KV_OK)
        status = check_files(options, error);
    pid_t service = status == KV_OK ? running_service(options) : 0;
    if (service > 0) {
        printf("store %s, queue %s: in use by process %ld, as they are; not looked at\n",
               options->dir, options->queue, (long)service);
        return KV_OK;
    }
    if (status == KV_OK && options->engine == ENGINE_KIND_NATS)
        status = check_cluster_options(options, error);
    else if (status == KV_OK)
        status = check_store(options, error);
    if (status == KV_OK && options->mirror)
        status = check_cluster_options(options, error);
    return status == KV_OK ? check_queues(options, error) : status;
}
