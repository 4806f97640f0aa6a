#include "serverk/daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "engine/local_engine.h"
#include "serverk/daemon/admin.h"
#include "serverk/daemon/control.h"
#include "common/report/notify.h"
#include "serverk/daemon/mirroring.h"
#include "serverk/daemon/pidfile.h"
#include "serverk/daemon/private_files.h"
#include "serverk/daemon/reload.h"
#include "serverk/daemon/start_guard.h"
#include "serverk/daemon/start_limits.h"
#include "serverk/daemon/metrics_file.h"
#include "serverk/daemon/stats_json.h"
#include "serverk/daemon/stats_source.h"
#include "serverk/dispatch/dispatch.h"
#include "serverk/dispatch/nice.h"
#include "serverk/execute/execution.h"
#include "serverk/execute/serving.h"
#include "serverk/lanes/claim.h"
#include "serverk/lanes/lane_names.h"
#include "serverk/session/audit.h"
#include "serverk/session/orphans.h"
#include "wire/queue.h"

/* Descriptors of a session: reply queue, pidfd, and two segments that are not mapped. */
#define SESSION_DESCRIPTORS 4u

/* Descriptors of the daemon itself: files, queues, epolls. */
#define OWN_DESCRIPTORS 64u

/* Room for the large messages of all sessions together: so many of the largest size, and at least
 * so many bytes. */
#define LARGE_MESSAGES      8u
#define LARGE_MESSAGE_BYTES (256ull << 20)

struct server {
    struct service service;
    struct access access;
    struct stats_source stats;
    struct fragment_budget budget;
    struct control *control;
    struct reload *reload;
    struct live_settings live;
    struct admin admin;
    struct metrics_file *metrics; /* NULL: none */
    struct pool *pool;
    struct pidfile *pidfile; /* NULL: none */
};

/* Start ---------------------------------------------------------------------------------------- */

static struct kvstore_options store_options(const struct server_options *options)
{
    return (struct kvstore_options){
        .datafiles = options->datafiles,
        .create = true,
        .locking = options->locking,
        .io = options->io,
        .cache_bytes = options->cache_bytes,
        .max_bytes = options->max_bytes,
        .evict = options->evict,
        .quotas = options->access ? options->access->quotas : NULL,
        .quota_count = options->access ? options->access->quota_count : 0,
        .allocator = options->allocator,
        .rwlock = options->rwlock,
        .durability = options->durability,
        .sync_interval_ms = options->sync_interval_ms,
        .max_value_bytes = options->max_value_bytes,
        .verify_every_read = options->verify_every_read,
        .direct = options->direct,
        .keep_changes_ms = options->keep_changes_ms,
        .keep_changes_bytes = options->keep_changes_bytes,
        .keep_newest_log = options->mirror != NULL,
        .before_unlock = options->service_time.locked ? serving_before_unlock : NULL};
}

static struct lanes_options lanes_options(const struct server_options *options)
{
    return (struct lanes_options){.name = options->queue,
                                  .mode = options->lanes,
                                  .workers =
                                      dispatch_model_receivers(options->dispatch, options->workers),
                                  .queue_mode = options->mode,
                                  .group = options->group,
                                  .has_read_lane = options->read_group != (gid_t)-1,
                                  .read_group = options->read_group,
                                  .takes_rings = options->replies != WIRE_REPLIES_QUEUE};
}

/* How many sessions the descriptors allow. */
static unsigned session_capacity(uint32_t datafiles)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 64;
    uint64_t own = OWN_DESCRIPTORS + 2ull * datafiles;
    uint64_t sessions = limit.rlim_cur > own ? (limit.rlim_cur - own) / SESSION_DESCRIPTORS : 1;
    return sessions < 1                      ? 1
           : sessions > SESSION_MAX_SESSIONS ? SESSION_MAX_SESSIONS
                                             : (unsigned)sessions;
}

static void set_budget(struct fragment_budget *budget, uint32_t max_value_bytes)
{
    budget->message_max_bytes = (size_t)max_value_bytes + FRAGMENTS_EXTRA_BYTES;
    budget->max_bytes = LARGE_MESSAGES * (uint64_t)budget->message_max_bytes;
    if (budget->max_bytes < LARGE_MESSAGE_BYTES)
        budget->max_bytes = LARGE_MESSAGE_BYTES;
    budget->user_max_bytes = budget->max_bytes / 4 * 3;
    budget->owner = geteuid();
    pthread_mutex_init(&budget->lock, NULL);
}

static unsigned statistics_blocks(const struct server_options *options)
{
    return dispatch_model_writers(options->dispatch, options->workers);
}

/* Only a pool parks workers: in the other models one thread receives. */
static bool wants_parking(const struct server_options *options)
{
    return options->dispatch == DISPATCH_POOL && options->lanes == LANES_AUTO;
}

static enum kv_status bind_to_cpus(const struct server_options *options, struct kv_error *error)
{
    if (cpu_list_apply(&options->cpus))
        return KV_OK;
    return kv_error_set_errno(error, "--cpus: some of these CPUs do not exist, or this process "
                                     "may not use them (taskset -p $$ shows which it may)");
}

/* A thread per message never lowers its nice value: it begins with that of the daemon. */
static enum kv_status check_nice(const struct server_options *options, struct kv_error *error)
{
    return options->nice && options->dispatch != DISPATCH_THREAD ? nice_permitted(error) : KV_OK;
}

/* A lanes_payer_watcher. */
static void forget_payer(void *shares, unsigned payer)
{
    shares_forget(shares, payer);
}

static struct hello_terms hello_terms(const struct service *service)
{
    const struct server_options *options = service->options;
    struct kvstore_direct_facts direct = {0};
    service->engine->calls->direct_facts(service->engine, &direct);
    return (struct hello_terms){
        .sessions = service->sessions,
        .queue = options->queue,
        .instance = random_secret(),
        .live = service->live,
        .replies = options->replies,
        .access = service->access,
        .direct = direct.direct,
        .store_device = direct.device,
        .store_inode = direct.inode,
        .welcome_flags = WIRE_WELCOME_SHORT_REPLIES | (service->store ? 0 : WIRE_WELCOME_NETWORK) |
                         (options->sched == ORDER_FIFO ? 0 : WIRE_WELCOME_PRIORITY)};
}

/* Creates the parts that need only memory. */
static enum kv_status create_parts(struct server *server, struct kv_error *error)
{
    struct service *service = &server->service;
    const struct server_options *options = service->options;
    set_budget(&server->budget, engine_max_value_bytes(service->engine));
    service->budget = &server->budget;
    service->write_stats = stats_json;
    service->stats_context = &server->stats;
    server->admin = (struct admin){.stats = &server->stats, .reload = server->reload};
    service->watch = request_watch_create();
    if (service->watch)
        request_watch_set_slow(service->watch, options->slow_ms);
    service->run_admin = admin_run;
    service->admin_context = &server->admin;
    service->statistics = statistics_create_shared(statistics_blocks(options));
    service->sessions =
        session_table_create(session_capacity(engine_datafiles(service->engine)), service->lanes,
                             control_epoll(server->control), service->budget);
    if (service->sessions && service->store)
        service->commit = commit_create(service->store, service->sessions, service->budget);
    else if (service->sessions)
        service->submissions =
            submissions_create(service->engine, service->sessions, service->budget,
                               service->write_stats, service->stats_context);
    if (service->submissions)
        submissions_set_admin(service->submissions, admin_run, &server->admin);
    if (service->commit)
        service->watchers = watchers_create(service->store, service->sessions, service->budget,
                                            execute_request, execution_runners);
    if (service->sessions)
        service->farewells = farewells_create(
            dispatch_model_receivers(options->dispatch, options->workers), service->sessions);
    atomic_store(&server->live.max_value_bytes, engine_max_value_bytes(service->engine));
    service->terms = hello_terms(service);
    if (service->farewells)
        session_set_death_listener(service->sessions, farewells_process_died, service->farewells);
    if (dispatch_model_counts(options->dispatch))
        service->slots = slots_create(options->workers);
    if (lanes_have_door(service->lanes)) {
        service->shares = aligned_alloc(_Alignof(struct shares), sizeof(struct shares));
        if (service->shares)
            *service->shares = (struct shares){
                .workers = dispatch_model_receivers(options->dispatch, options->workers)};
        lanes_set_payer_watcher(service->lanes, forget_payer, service->shares);
    }
    if (wants_parking(options)) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        service->parking = parking_create(options->workers, cpus < 1 ? 1 : (unsigned)cpus);
    }
    if (options->sched == ORDER_COST)
        service->schedule =
            schedule_create(options->sched_queue, lanes_have_door(service->lanes) ? PAYERS : 1,
                            lanes_message_bytes(service->lanes), options->workers);
    if (!service->watch || !service->statistics || !service->sessions ||
        (!service->commit && !service->submissions) || (service->commit && !service->watchers) ||
        !service->farewells || (dispatch_model_counts(options->dispatch) && !service->slots) ||
        (options->sched == ORDER_COST && !service->schedule) ||
        (lanes_have_door(service->lanes) && !service->shares) ||
        (wants_parking(options) && !service->parking))
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    return KV_OK;
}

/* Who executes requests. */
static const char *describe_workers(const struct server_options *options, char text[64])
{
    char count[32];
    if (options->dispatch == DISPATCH_EVENT)
        return "one thread (event)";
    if (options->dispatch == DISPATCH_POOL)
        return format_count(options->workers, "worker", text);
    snprintf(text, 64, "up to %s at once (a %s each)",
             format_count(options->workers, "request", count),
             dispatch_model_name(options->dispatch));
    return text;
}

/* Where the data are: "dir /var/lib/mqkv". */
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

static void log_start(const struct service *service, const struct sandbox *given_up)
{
    const struct server_options *options = service->options;
    char engine[128], workers[64], lanes[LANE_PLAN_TEXT_BYTES], where[512], sync[48];
    char sandbox[SANDBOX_TEXT_BYTES];
    if (lanes_shortfall(service->lanes))
        log_warn("%s", lanes_shortfall(service->lanes));
    if (options->allocator != KVSTORE_ALLOCATOR_SYSTEM && options->cache_bytes == 0)
        log_warn("--allocator %s has no effect: there is no cache (--cache SIZE)",
                 kvstore_allocator_name(options->allocator));
    if (options->evict == KVSTORE_EVICT_S3FIFO && options->direct != KVSTORE_DIRECT_OFF)
        log_warn("--direct %s with --evict s3fifo: what is read without the daemon does not count "
                 "as read, and is evicted",
                 kvstore_direct_name(options->direct));
    if (options->io == KVSTORE_IO_DIRECT)
        log_info("--io direct: each record that is looked up is read from the disk%s",
                 options->direct == KVSTORE_DIRECT_OFF
                     ? ""
                     : ", but not by programs that read without the daemon (--direct)");
    if (options->sched != ORDER_COST && options->sched_queue != OPTIONS_DEFAULT_SCHED_QUEUE)
        log_warn("--sched-queue %u has no effect: requests wait in the daemon with --sched "
                 "cost only",
                 options->sched_queue);
    if (options->service_time.delay.kind != DELAY_OFF)
        log_warn("--service-time makes each operation slow, for experiments: not for a daemon that "
                 "serves anybody");
    log_info("serverk " MQKV_VERSION " ready: pid %ld, queue %s, %s, %s, %s, %s (%s), %s",
             (long)getpid(), options->queue, describe_place(options, where),
             service->engine->calls->describe(service->engine, engine, sizeof engine),
             describe_workers(options, workers),
             lane_plan_describe(lanes_plan(service->lanes), lanes), lanes_mode_name(options->lanes),
             describe_sync(options, sync));
    log_debug("sandbox: %s", sandbox_describe(given_up, sandbox));
}

static enum kv_status open_store(struct server *server, struct kv_error *error)
{
    struct service *service = &server->service;
    struct kvstore_options options = store_options(service->options);
    struct start_guard *guard;
    enum kv_status status =
        start_guard_create(server->control, service->lanes, server->pidfile, &guard, error);
    if (status != KV_OK)
        return status;
    if (access_rules_restrict(service->options->access))
        status = private_files_make(service->options->dir, error);
    if (status != KV_OK)
        log_debug("%s", error->text);
    else if (service->options->engine == ENGINE_KIND_NATS)
        status = natskv_open(&service->options->nats, &service->engine, error);
    else
        status = local_engine_open(service->options->dir, &options, &service->engine, error);
    start_guard_free(guard);
    if (status == KV_OK)
        service->store = service->engine->store;
    return status;
}

static enum kv_status release(struct server *server, struct kv_error *error);

/* The queues come before the store: if they fail, no new store is created in vain; and clients that
 * come during a long recovery wait for their WELCOME instead of finding no server. The store may be
 * hostile. Before the daemon reads it, it gives up what it no longer needs; the pid file is open by
 * then. */
enum kv_status server_start(const struct server_options *options, struct server **result,
                            struct kv_error *error)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    struct service *service = &server->service;
    service->options = options;
    server->access = (struct access){.rules = options->access, .file = options->config};
    service->access = &server->access;
    service->live = &server->live;
    live_settings_take(&server->live, options);
    server->stats.service = service;
    server->stats.started_ns = clock_monotonic_ns();
    server->stats.started_real_ms = clock_realtime_ms();
    server->stats.memory = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    struct lanes_options lanes = lanes_options(options);

    enum kv_status status = check_nice(options, error);
    if (status == KV_OK)
        status = bind_to_cpus(options, error);
    if (status == KV_OK)
        status = control_create(&server->control, error);
    if (status == KV_OK)
        status = reload_create(options, &server->reload, error);
    if (status == KV_OK)
        status = lanes_open(&lanes, &service->lanes, error);
    if (status == KV_OK)
        status = audit_open(options->audit, error);
    if (status == KV_OK && options->pidfile)
        status = pidfile_create(options->pidfile, &server->pidfile, error);
    if (status == KV_OK && options_use_nats(options))
        natskv_prepare(&options->nats);
    wire_pidfd_has_pid(-1, 0); /* opens what it needs */
    if (status == KV_OK)
        status = sandbox_enter(options, (int)lanes_queue(service->lanes, 0), &server->stats.sandbox,
                               error);
    if (options->sandbox)
        options_forbid_lookups();
    if (status == KV_OK)
        status = open_store(server, error);
    if (status == KV_OK)
        status = create_parts(server, error);
    if (status == KV_OK)
        status = start_limits_check_descriptors(
            engine_datafiles(service->engine),
            dispatch_model_receivers(options->dispatch, options->workers), error);
    if (status == KV_OK)
        status = mirroring_start(service, error);
    if (status == KV_OK) {
        reload_serve(server->reload, service, &server->live);
        orphans_remove(options->queue);
        status = dispatch_start(service, &server->pool, error);
    }
    if (status == KV_OK && options->metrics)
        status = metrics_file_start(&server->stats, options->metrics, &server->metrics, error);
    if (status != KV_OK) {
        release(server, NULL);
        return status;
    }
    log_start(service, &server->stats.sandbox);
    *result = server;
    return KV_OK;
}

/* Stop ----------------------------------------------------------------------------------------- */

/* Waits for the replies that wait for a sync or for an engine that is elsewhere. */
static void drain_replies(const struct service *service)
{
    if (service->commit)
        commit_drain(service->commit);
    submissions_drain(service->submissions);
}

/* Undoes server_start as far as it got. Closing the store takes time, so the queues' names go
 * first: clients then know that they must wait for another daemon. What they sent before is still
 * answered. Replies may wait for a sync even if the pool did not start: its first workers may have
 * served before another one failed to start. */
static enum kv_status release(struct server *server, struct kv_error *error)
{
    struct service *service = &server->service;
    metrics_file_end(server->metrics);
    if (server->pool) {
        pool_stop(server->pool);
        pool_drain(server->pool);
        drain_replies(service);
        lanes_unlink(service->lanes);
        pool_drain(server->pool);
        pool_free(server->pool);
    }
    drain_replies(service);
    watchers_stop(service->watchers);
    mirroring_stop(service);
    if (service->sessions)
        session_set_death_listener(service->sessions, NULL, NULL);
    farewells_free(service->farewells);
    session_table_free(service->sessions);
    submissions_free(service->submissions);
    enum kv_status status = engine_close(service->engine, error);
    commit_free(service->commit);
    watchers_free(service->watchers);
    mirroring_free(service);
    parking_free(service->parking);
    schedule_free(service->schedule);
    access_free(service->access);
    free(service->shares);
    slots_free(service->slots);
    statistics_free_shared(service->statistics, statistics_blocks(service->options));
    pidfile_remove(server->pidfile);
    lanes_close(service->lanes);
    reload_free(server->reload);
    request_watch_free(service->watch);
    if (server->stats.memory >= 0)
        close(server->stats.memory);
    control_free(server->control);
    free(server);
    return status;
}

enum kv_status server_run(struct server *server, struct kv_error *error)
{
    const struct server_options *options = server->service.options;
    int signal_number =
        control_run(server->control, &server->service, server->reload, server->metrics);
    char where[512];
    log_info("signal %d (%s): stopping", signal_number, strsignal(signal_number));
    control_expect_impatience();
    control_finish_reload(server->control, &server->service, server->metrics);
    notify_send("STOPPING=1"); /* the end of a reload has said READY=1 */
    bool failed = pool_failed(server->pool);
    enum kv_status status = release(server, error);
    if (status == KV_OK && failed)
        status = kv_error_set(error, KV_IO, "a request queue failed");
    if (status == KV_OK)
        log_info("serverk stopped: queue %s, %s", options->queue, describe_place(options, where));
    return status;
}

/* Check ---------------------------------------------------------------------------------------- */

/* Checks what a start needs beyond opening the store read-only. */
static enum kv_status check_directory(const char *dir, struct kv_error *error)
{
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0)
        return KV_OK;
    return kv_error_set_errno(error, "%s: uid %u cannot make files in the directory", dir,
                              (unsigned)geteuid());
}

static enum kv_status check_store(const struct server_options *options, struct kv_error *error)
{
    struct kvstore_options store_opening = store_options(options);
    store_opening.create = false;
    store_opening.read_only = true;
    struct kvstore *store;
    char count[32];
    enum kv_status status = kvstore_open(options->dir, &store_opening, &store, error);
    if (status == KV_NOT_FOUND) {
        uint32_t datafiles =
            options->datafiles ? options->datafiles : (uint32_t)KVSTORE_DEFAULT_DATAFILES;
        status = check_directory(options->dir, error);
        if (status == KV_OK)
            printf("store %s: none yet; %s would be created\n", options->dir,
                   format_count(datafiles, "data file", count));
        return status;
    }
    if (status != KV_OK)
        return status;
    format_count(kvstore_datafiles(store), "data file", count);
    status = check_directory(options->dir, error);
    if (status == KV_OK)
        status = kvstore_check_writable(store, error);
    enum kv_status closed = kvstore_close(store, status == KV_OK ? error : NULL);
    if (status == KV_OK)
        status = closed;
    if (status == KV_OK)
        printf("store %s: %s\n", options->dir, count);
    return status;
}

static enum kv_status check_cluster(const struct server_options *options, struct kv_error *error)
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
    if (lane_plan_charge(&plan) > limits.msgqueue_bytes)
        return wire_limits_explain(options->queue, plan.bulk_lanes ? plan.bulk : plan.lane, EMFILE,
                                   error);
    char lanes[LANE_PLAN_TEXT_BYTES], need[32], have[32];
    printf("queue %s: %s: %s of the %s that ulimit -q allows this user\n", options->queue,
           lane_plan_describe(&plan, lanes), format_size(lane_plan_charge(&plan), need),
           format_size(limits.msgqueue_bytes, have));
    return KV_OK;
}

enum kv_status server_restore(const struct server_options *options, struct kv_error *error)
{
    struct kvstore_options store_opening = store_options(options);
    return mirroring_restore(options, &store_opening, error);
}

enum kv_status server_check(const struct server_options *options, struct kv_error *error)
{
    enum kv_status status = check_nice(options, error);
    if (status == KV_OK && options->engine == ENGINE_KIND_NATS)
        status = check_cluster(options, error);
    else if (status == KV_OK)
        status = check_store(options, error);
    if (status == KV_OK && options->mirror)
        status = check_cluster(options, error);
    return status == KV_OK ? check_queues(options, error) : status;
}
