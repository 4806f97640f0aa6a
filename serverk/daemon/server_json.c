#include "serverk/daemon/server_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "serverk/daemon/figures.h"
#include "bridges/cluster/mirror/mirror.h"
#include "serverk/config/lab_seam.h"
#include "serverk/daemon/store_opening.h"
#include "serverk/dispatch/pool.h"

/* What the payer has used while several shared the workers' time. */
static void put_used(const struct service *service, struct json *json, const char *name,
                     unsigned payer)
{
    json_put_us(json, name, (double)atomic_load(&service->shares->payers[payer].used_ns));
}

/* Users other than the daemon's own, where they may come. */
static void put_guests(const struct service *service, struct json *json)
{
    struct guest_facts facts;
    if (!service->shares)
        return;
    put_used(service, json, "own_shared_us", PAYER_OWN);
    put_used(service, json, "door_shared_us", PAYER_DOOR);
    json_begin_member(json, "guests");
    json_open_object(json);
    for (unsigned guest = 0; guest < LANE_PLAN_MAX_GUESTS; guest++) {
        char number[16];
        if (!lanes_guest_facts(service->lanes, guest, &facts))
            continue;
        snprintf(number, sizeof number, "%u", guest);
        json_begin_member(json, number);
        json_open_object(json);
        json_put_number(json, "uid", facts.uid);
        json_put_number(json, "sessions", facts.sessions);
        json_put_flag(json, "given", facts.given);
        json_put_number(json, "depth", facts.geometry.depth);
        json_put_number(json, "message_bytes", facts.geometry.message_bytes);
        json_put_number(json, "messages", facts.messages);
        json_put_number(json, "garbage", facts.garbage);
        put_used(service, json, "shared_us", PAYER_GUESTS + guest);
        json_close_object(json);
    }
    json_close_object(json);
}

/* Those who may only read, where there is a lane for them. */
static void put_readers(const struct service *service, struct json *json)
{
    struct reader_facts facts;
    if (!lanes_reader_facts(service->lanes, &facts))
        return;
    json_begin_member(json, "readers");
    json_open_object(json);
    json_put_number(json, "gid", facts.group);
    json_put_number(json, "sessions", facts.sessions);
    json_put_number(json, "depth", facts.geometry.depth);
    json_put_number(json, "message_bytes", facts.geometry.message_bytes);
    json_put_number(json, "messages", facts.messages);
    json_put_number(json, "garbage", facts.garbage);
    if (service->shares)
        put_used(service, json, "shared_us", PAYER_READERS);
    json_close_object(json);
}

static void put_lanes(const struct service *service, struct json *json)
{
    const struct lane_plan *plan = lanes_plan(service->lanes);
    json_begin_member(json, "lanes");
    json_open_object(json);
    json_put_text(json, "mode", lanes_mode_name(service->options->lanes));
    json_put_number(json, "lanes", plan->lanes);
    json_put_number(json, "lanes_in_use", lanes_in_use(service->lanes));
    json_put_number(json, "lane_depth", plan->lane.depth);
    json_put_number(json, "lane_message_bytes", plan->lane.message_bytes);
    json_put_number(json, "bulk_lanes", plan->bulk_lanes);
    json_put_number(json, "bulk_depth", plan->bulk.depth);
    json_put_number(json, "bulk_message_bytes", plan->bulk.message_bytes);
    put_guests(service, json);
    put_readers(service, json);
    json_close_object(json);
}

static void put_sandbox(const struct sandbox *sandbox, struct json *json)
{
    json_begin_member(json, "sandbox");
    json_open_object(json);
    json_put_text(json, "wanted", sandbox->wanted ? "on" : "off");
    json_put_flag(json, "no_new_privileges", sandbox->no_new_privileges);
    json_put_flag(json, "syscall_filter", sandbox->syscall_filter);
    json_put_number(json, "landlock_abi", (uint64_t)sandbox->landlock_abi);
    json_put_flag(json, "files_confined", sandbox->files_confined);
    json_put_flag(json, "core_files", sandbox->core_files);
    json_close_object(json);
}

/* Why nobody reads without the daemon. */
static const char *reason_of_no_direct(const struct service *service)
{
    const struct server_options *options = service->options;
    if (!service->store)
        return "the data are in a cluster (--engine)";
    if (options->direct != KVSTORE_DIRECT_OFF)
        return "the index could not be put into shared memory: the log says why";
    if (options_text_of(options, "direct")[0] != '\0')
        return "switched off (--direct off)";
    return options->no_direct ? options->no_direct : "off by default with these options";
}

static void put_direct(const struct service *service, struct json *json)
{
    struct kvstore_direct_facts facts = {0};
    service->engine->calls->direct_facts(service->engine, &facts);
    json_begin_member(json, "direct");
    json_open_object(json);
    json_put_text(json, "mode", kvstore_direct_name(facts.direct));
    if (facts.direct == KVSTORE_DIRECT_OFF)
        json_put_text(json, "reason", reason_of_no_direct(service));
    else if (facts.is_gone)
        json_put_text(
            json, "reason",
            "its name in /dev/shm was removed: reads go by message until it is made anew; the "
            "log says what is in the way");
    json_put_text(json, "name", facts.name);
    json_put_number(json, "shared_bytes", facts.shared_bytes);
    json_put_number(json, "private_bytes", facts.private_bytes);
    json_put_number(json, "taken_over_files", facts.taken_over_files);
    json_close_object(json);
}

/* How the engine in this process works. */
static void put_store(const struct service *service, struct json *json)
{
    const struct server_options *options = service->options;
    const struct kvstore_options opened = store_opening(options);
    json_put_text(json, "locking", kvstore_locking_name(opened.locking));
    if (kvstore_locking_has_rwlocks(opened.locking))
        json_put_text(json, "rwlock", kvstore_rwlock_name(opened.rwlock));
    json_put_number(json, "lock_memory_bytes", kvstore_lock_memory_bytes(service->store));
    json_put_text(json, "io", kvstore_io_name(options->io));
    json_put_text(json, "verify", options->verify_every_read ? "every" : "first");
    json_put_text(json, "sync", durability_name(live_durability(service->live)));
    if (live_durability(service->live) == KVSTORE_SYNC_INTERVAL)
        json_put_number(json, "sync_interval_ms", atomic_load(&service->live->sync_interval_ms));
}

/* An engine_number_visit. */
static void put_engine_number(void *json, const struct engine_number *number)
{
    json_put_number(json, number->name, number->value);
}

void put_mirror(const struct stats_source *source, struct json *json)
{
    const struct server_options *options = source->service->options;
    static const char *const over[] = {"nothing", "slow", "fail"};
    json_put_flag(json, "on", source->service->mirror != NULL);
    if (!source->service->mirror)
        return;
    json_put_text(json, "bucket", options->nats.bucket);
    mirror_numbers(source->service->mirror, put_engine_number, json);
    json_put_number(json, "lag_bound_ms", options->mirror_lag_ms);
    json_put_text(json, "over_bound", over[options->mirror_over]);
}

void put_engine(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    json_put_text(json, "name", service->engine->calls->name);
    json_put_number(json, "requests_under_way", submissions_under_way(service->submissions));
    service->engine->calls->numbers(service->engine, put_engine_number, json);
}

void put_server(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    const struct server_options *options = service->options;
    char instance[17];
    snprintf(instance, sizeof instance, "%016" PRIx64, service->terms.instance);
    json_put_text(json, "version", MQKV_VERSION);
    json_put_number(json, "pid", (uint64_t)getpid());
    json_put_text(json, "instance", instance);
    json_put_number(json, "uptime_ms", (clock_monotonic_ns() - source->started_ns) / 1000000);
    json_put_text(json, "queue", options->queue);
    if (service->store)
        json_put_text(json, "dir", options->dir);
    json_put_text(json, "engine", service->engine->calls->name);
    json_put_number(json, "datafiles", engine_datafiles(service->engine));
    figures_put_workers(service, (struct figures){.json = json});
    json_put_text(json, "dispatch", options->dispatch->name);
    if (service->feed->put_stats)
        service->feed->put_stats(service->feed->context, json);
    put_lanes(service, json);
    if (service->store)
        put_store(service, json);
    json_put_number(json, "max_value_bytes", engine_max_value_bytes(service->engine));
    figures_put_waiting_replies(service, (struct figures){.json = json});
    json_put_number(json, "large_message_bytes", atomic_load(&service->budget->used_bytes));
    lab.put_stats(source, json);
    put_direct(service, json);
    put_sandbox(&source->sandbox, json);
}
