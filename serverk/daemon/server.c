#include "serverk/daemon/server.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/numbers/random.h"
#include "engine/local_engine.h"
#include "serverk/daemon/admin.h"
#include "serverk/daemon/control.h"
#include "serverk/daemon/life_log.h"
#include "common/report/notify.h"
#include "serverk/daemon/mirroring.h"
#include "serverk/daemon/pidfile.h"
#include "serverk/daemon/private_files.h"
#include "serverk/daemon/reload.h"
#include "serverk/daemon/start_guard.h"
#include "serverk/daemon/start_limits.h"
#include "serverk/daemon/start_user.h"
#include "serverk/daemon/metrics_file.h"
#include "serverk/daemon/stats_json.h"
#include "serverk/daemon/stats_source.h"
#include "serverk/daemon/store_opening.h"
#include "serverk/config/lab_seam.h"
#include "serverk/dispatch/pool.h"
#include "serverk/execute/execution.h"
#include "serverk/session/audit.h"
#include "serverk/session/orphans.h"
#include "serverk/session/user_share.h"
#include "wire/queue.h"

/* Descriptors of a session: reply queue, pidfd, and two segments that are not mapped. */
#define SESSION_DESCRIPTORS 4u

/* Descriptors of the daemon itself: files, queues, epolls. */
#define OWN_DESCRIPTORS 64u

/* The memory for large messages of all sessions together: LARGE_MESSAGES of the largest size, and
 * at least LARGE_MESSAGE_BYTES. */
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
    struct pool_feed feed;
    struct pool *pool;
    struct pidfile *pidfile; /* NULL: none */
};

/* Start ---------------------------------------------------------------------------------------- */

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

/* Returns the number of sessions that the descriptors allow. */
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
    budget->user_max_bytes = user_share_of_others(budget->max_bytes);
    budget->owner = geteuid();
    pthread_mutex_init(&budget->lock, NULL);
}

static unsigned statistics_blocks(const struct server_options *options)
{
    return dispatch_model_writers(options->dispatch, options->workers);
}

static enum kv_status bind_to_cpus(const struct server_options *options, struct kv_error *error)
{
    if (cpu_list_apply(&options->cpus))
        return KV_OK;
    return kv_error_set_errno(error, "--cpus: some of these CPUs do not exist, or this process "
                                     "may not use them (taskset -p $$ shows which it may)");
}

/* A lanes_tenant_listener. */
static void forget_tenant(void *shares, unsigned tenant)
{
    shares_forget(shares, tenant);
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
        .store_number = direct.number,
        .welcome_flags = WIRE_WELCOME_SHORT_REPLIES |
                         (service->store ? WIRE_WELCOME_TRANSACTIONS : WIRE_WELCOME_NETWORK) |
                         (options->sched == ORDER_FIFO ? 0 : WIRE_WELCOME_PRIORITY)};
}

static enum kv_status lack_memory(struct kv_error *error)
{
    return kv_error_set(error, KV_NO_MEMORY, "no memory to start with (is it limited: ulimit -v?)");
}

/* Creates the parts that need only memory. */
static enum kv_status create_parts(struct server *server, struct kv_error *error)
{
    struct service *service = &server->service;
    const struct server_options *options = service->options;
    unsigned receivers = dispatch_model_receivers(options->dispatch, options->workers);
    uint32_t max_value_bytes = engine_max_value_bytes(service->engine);
    set_budget(&server->budget, max_value_bytes);
    atomic_store(&server->live.max_value_bytes, max_value_bytes);
    server->stats.reload = server->reload;
    server->admin = (struct admin){.stats = &server->stats, .reload = server->reload};
    service->budget = &server->budget;
    service->write_stats = stats_json;
    service->stats_context = &server->stats;
    service->run_admin = admin_run;
    service->admin_context = &server->admin;
    service->admin_waits = admin_waits;
    service->notes = request_notes_create();
    service->statistics = statistics_create_shared(statistics_blocks(options));
    service->sessions =
        session_table_create(session_capacity(engine_datafiles(service->engine)), service->lanes,
                             control_epoll(server->control), service->budget);
    if (!service->notes || !service->statistics || !service->sessions)
        return lack_memory(error);
    request_notes_set_slow(service->notes, options->slow_ms);
    service->terms = hello_terms(service);
    service->farewells = farewells_create(receivers, service->sessions);
    if (!service->farewells)
        return lack_memory(error);
    session_set_death_listener(service->sessions, farewells_process_died, service->farewells);
    if (service->store) {
        service->commit = commit_create(service->store, service->sessions, service->budget);
        if (service->commit)
            service->watchers = watchers_create(service->store, service->sessions, service->budget,
                                                service->live, execute_request, execution_runners);
        if (!service->watchers)
            return lack_memory(error);
    } else {
        service->submissions =
            submissions_create(service->engine, service->sessions, service->budget,
                               service->write_stats, service->stats_context);
        if (!service->submissions)
            return lack_memory(error);
        submissions_set_admin(service->submissions, admin_run, &server->admin);
    }
    if (lanes_have_door(service->lanes)) {
        service->shares = aligned_alloc(_Alignof(struct shares), sizeof(struct shares));
        if (!service->shares)
            return lack_memory(error);
        *service->shares = (struct shares){.workers = receivers};
        lanes_set_tenant_listener(service->lanes, forget_tenant, service->shares);
    }
    if (options->sched == ORDER_LAB && !(service->order = lab.create_order(service)))
        return lack_memory(error);
    /* Workers park where all of them receive. An order has all messages as soon as a worker looks
     * at the lanes: then nothing is set aside. */
    if (!options->dispatch->one_receives && options->lanes == LANES_AUTO) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        service->parking = parking_create(options->workers, cpus < 1 ? 1 : (unsigned)cpus);
        if (!service->parking || (!service->order && !(service->aside = aside_create())))
            return lack_memory(error);
    }
    return KV_OK;
}

static enum kv_status open_store(struct server *server, struct kv_error *error)
{
    struct service *service = &server->service;
    struct kvstore_options options = store_opening(service->options);
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
    else {
        private_files_warn(service->options->dir);
        status = store_opening_advise(
            service->options,
            local_engine_open(service->options->dir, &options, &service->engine, error), error);
    }
    start_guard_free(guard);
    if (status == KV_OK)
        service->store = service->engine->store;
    return status;
}

static enum kv_status release_server(struct server *server, struct kv_error *error);

/* The queues come before the store: if they fail, no new store is created in vain; and clients that
 * come during a long recovery wait for their WELCOME instead of finding no server. The store may be
 * hostile. Before the daemon reads it, it gives up what it no longer needs; the pid file is open by
 * then. */
enum kv_status server_start(const struct server_options *options, struct server **result,
                            struct kv_error *error)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return lack_memory(error);
    struct service *service = &server->service;
    service->options = options;
    server->access = (struct access){.rules = options->access, .file = options->config};
    service->access = &server->access;
    service->live = &server->live;
    service->feed = &server->feed;
    live_settings_take(&server->live, options);
    server->stats.service = service;
    server->stats.started_ns = clock_monotonic_ns();
    server->stats.started_real_ms = clock_realtime_ms();
    server->stats.memory = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    server->stats.descriptors = opendir("/proc/self/fd");
    struct lanes_options lanes = lanes_options(options);

    enum kv_status status = start_user_check(error);
    if (status == KV_OK)
        status = start_limits_check_nice(options, error);
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
        if (options->dispatch->make_feed)
            status = options->dispatch->make_feed(service, &server->feed, error);
    }
    if (status == KV_OK && options->metrics)
        status = metrics_file_start(&server->stats, options->metrics, &server->metrics, error);
    if (status == KV_OK) /* nothing fails behind it: the first request may be answered */
        status = pool_start(service, &server->pool, error);
    if (status != KV_OK) {
        release_server(server, NULL);
        return status;
    }
    life_log_start(service, &server->stats.sandbox);
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
 * answered. */
static enum kv_status release_server(struct server *server, struct kv_error *error)
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
    if (service->order)
        service->order->free(service->order);
    aside_free(service->aside);
    access_free(service->access);
    free(service->shares);
    statistics_free_shared(service->statistics, statistics_blocks(service->options));
    pidfile_remove(server->pidfile);
    lanes_close(service->lanes);
    reload_free(server->reload);
    request_notes_free(service->notes);
    if (server->stats.memory >= 0)
        close(server->stats.memory);
    if (server->stats.descriptors)
        closedir(server->stats.descriptors);
    control_free(server->control);
    free(server);
    return status;
}

enum kv_status server_run(struct server *server, struct kv_error *error)
{
    const struct server_options *options = server->service.options;
    int signal_number = control_run(server->control, &server->service, server->reload);
    if (signal_number == 0)
        log_info("nobody was connected for --idle-exit %s: stopping",
                 options_text_of(options, "idle-exit"));
    else
        log_info("signal %d (%s): stopping", signal_number, strsignal(signal_number));
    control_expect_impatience();
    control_finish_reload(server->control, &server->service);
    notify_send("STOPPING=1"); /* the end of a reload has said READY=1 */
    bool failed = pool_failed(server->pool);
    enum kv_status status = release_server(server, error);
    if (status == KV_OK && failed)
        status = kv_error_set(error, KV_IO, "a request queue failed");
    if (status == KV_OK)
        life_log_stop(options);
    return status;
}

enum kv_status server_restore(const struct server_options *options, struct kv_error *error)
{
    struct kvstore_options opening = store_opening(options);
    return mirroring_restore(options, &opening, error);
}
