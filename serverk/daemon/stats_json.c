#include "serverk/daemon/stats_json.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridges/cluster/mirror/mirror.h"
#include "common/time/clock.h"
#include "serverk/config/lab_seam.h"
#include "serverk/daemon/figures.h"
#include "serverk/daemon/metrics.h"
#include "serverk/daemon/store_opening.h"
#include "serverk/dispatch/pool.h"

/* Files that are listed one by one; above, the sums must do. */
#define MAX_FILES_LISTED 256u

/* The sections server, engine and mirror ------------------------------------------------------- */

/* Puts what the tenant has used while several shared the workers' time. */
static void put_used(const struct service *service, struct json *json, const char *name,
                     unsigned tenant)
{
    json_put_us(json, name, (double)atomic_load(&service->shares->tenants[tenant].used_ns));
}

/* Puts the lanes of users other than the daemon's own, where they may come. */
static void put_guests(const struct service *service, struct json *json)
{
    struct guest_facts facts;
    if (!service->shares)
        return;
    put_used(service, json, "own_shared_us", TENANT_OWN);
    put_used(service, json, "door_shared_us", TENANT_DOOR);
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
        put_used(service, json, "shared_us", TENANT_GUESTS + guest);
        json_close_object(json);
    }
    json_close_object(json);
}

/* Puts the lane of users who may only read, where there is one. */
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
        put_used(service, json, "shared_us", TENANT_READERS);
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

/* Returns why nobody reads without the daemon. */
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

/* Puts how the engine in this process works. */
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

static void put_mirror_section(const struct stats_source *source, struct json *json)
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

static void put_engine_section(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    json_put_text(json, "name", service->engine->calls->name);
    json_put_number(json, "requests_under_way", submissions_under_way(service->submissions));
    service->engine->calls->numbers(service->engine, put_engine_number, json);
}

static void put_server_section(const struct stats_source *source, struct json *json)
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

/* The other sections --------------------------------------------------------------------------- */

static void put_operations_section(const struct stats_source *source, struct json *json)
{
    struct worker_statistics *sum = statistics_create(1);
    if (!sum)
        return;
    stats_source_sum(source, sum);
    figures_put_operations(sum, (struct figures){.json = json});
    free(sum);
}

static void put_latency_section(const struct stats_source *source, struct json *json)
{
    struct worker_statistics *sum = statistics_create(1);
    if (!sum)
        return;
    stats_source_sum(source, sum);
    for (unsigned stage = 0; stage < STAGES; stage++)
        json_put_quantiles(json, latency_stage_name((enum latency_stage)stage),
                           &sum->stages[stage]);
    json_begin_member(json, "work_by_operation");
    json_open_object(json);
    for (unsigned kind = 0; kind < STATISTICS_OPCODES; kind++)
        if (sum->work[kind].total_count > 0)
            json_put_quantiles(json, statistics_operation_name(kind), &sum->work[kind]);
    json_close_object(json);
    free(sum);
}

static void put_schedule_section(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    json_put_text(json, "sched", sched_name(service->options->sched));
    json_put_flag(json, "nice", service->options->nice);
    if (service->order)
        service->order->put_stats(service->order, json);
}

static void put_quota_list(const struct service *service, struct json *json)
{
    const struct access_rules *rules = service->access ? service->access->rules : NULL;
    json_begin_member(json, "quotas");
    json_open_array(json);
    for (unsigned i = 0; rules && service->store && i < rules->quota_count; i++) {
        const struct access_rule *rule = access_quota_rule(rules, i);
        struct quota_facts facts;
        quota_facts_read(service, i, rules->quotas[i].max_bytes, rules->quotas[i].max_keys, &facts);
        json_begin_element(json);
        json_open_object(json);
        json_put_bytes(json, "prefix", rules->quotas[i].prefix);
        figures_put_members(json, quota_figures, &facts);
        if (rule) {
            json_put_text(json, "of", access_subject_name(rule->subject));
            json_put_text(json, "name", rule->name);
        }
        json_close_object(json);
    }
    json_close_array(json);
}

/* Puts what the user has used of the quota of its section. */
static void put_user_quota(const struct service *service, struct json *json,
                           const struct access_rule *rule)
{
    struct quota_facts facts;
    if (!rule || rule->quota_line == 0 || !service->store)
        return;
    quota_facts_read(service, rule->quota, rule->max_bytes, rule->max_keys, &facts);
    figures_put_members(json, quota_figures, &facts);
}

/* Puts the users that are restricted and have had a session, and all quotas. */
static void put_access_section(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    if (service->access)
        pthread_mutex_lock(&service->access->lock);
    json_put_flag(json, "restricted",
                  service->access && access_rules_restrict(service->access->rules));
    json_begin_member(json, "users");
    json_open_array(json);
    const struct access_user *user = service->access ? atomic_load(&service->access->users) : NULL;
    for (; user; user = user->next) {
        const struct access_rule *rule = atomic_load(&user->rule);
        json_begin_element(json);
        json_open_object(json);
        json_put_number(json, "uid", user->uid);
        json_put_flag(json, "read_only", user->reads_only);
        json_put_text(json, "rule", rule ? access_subject_name(rule->subject) : "none");
        json_put_text(json, "name", rule ? rule->name : "");
        json_put_number(json, "max_sessions", rule ? rule->sessions : 0);
        json_put_number(json, "max_operations_s", rule ? rule->operations_s : 0);
        figures_put_members(json, user_figures, user);
        put_user_quota(service, json, rule);
        json_close_object(json);
    }
    json_close_array(json);
    put_quota_list(service, json);
    if (service->access)
        pthread_mutex_unlock(&service->access->lock);
}

static bool put_session(void *context, struct session *session)
{
    struct json *json = context;
    json_begin_element(json);
    json_open_object(json);
    json_put_number(json, "session", session->id);
    json_put_number(json, "pid", (uint64_t)session->pid);
    json_put_number(json, "uid", session->uid);
    json_put_number(json, "age_ms", clock_monotonic_coarse_ms() - session->opened_ms);
    json_put_number(json, "threads", session->threads);
    json_put_number(json, "lane", session->assignment.lane);
    json_put_flag(json, "read_only", session->assignment.queue == LANE_PLAN_READ_LANE);
    json_put_number(json, "credits", session->assignment.credits);
    json_put_number(json, "reply_bytes", session->reply_bytes);
    json_put_text(json, "replies", session->ring ? "shared" : "queue");
    const struct wire_segment *segment = atomic_load(&session->segment);
    json_put_number(json, "segment_bytes", segment ? wire_segment_bytes(segment) : 0);
    json_close_object(json);
    return true;
}

static void put_sessions_section(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    struct session_counts counts;
    session_counts(service->sessions, &counts);
    figures_put_sessions(&counts, (struct figures){.json = json});
    json_begin_member(json, "each");
    json_open_array(json);
    session_each(service->sessions, put_session, json);
    json_close_array(json);
}

static void put_file(struct json *json, uint32_t number, const struct kvstore_file_statistics *file)
{
    json_begin_element(json);
    json_open_object(json);
    json_put_number(json, "file", number);
    figures_put_members(json, file_figures, file);
    json_put_number(json, "unsynced_ms", file->unsynced_ms);
    json_put_number(json, "stale_ms", file->stale_ms);
    json_put_flag(json, "from_checkpoint", file->from_checkpoint);
    json_put_flag(json, "taken_over", file->taken_over);
    json_put_flag(json, "read_only", file->read_only);
    json_put_flag(json, "full", file->full);
    json_put_flag(json, "compaction_failing", file->compaction_failing);
    json_put_flag(json, "nameless", file->nameless);
    json_put_number(json, "damaged_at", file->damaged_at);
    json_close_object(json);
}

static void put_files_section(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    struct file_totals totals = {.full = 0};
    uint32_t count = engine_datafiles(service->engine);
    if (service->store)
        figures_put_disk(service, (struct figures){.json = json});
    json_begin_member(json, "each");
    json_open_array(json);
    for (uint32_t i = 0; i < count; i++) {
        struct kvstore_file_statistics file;
        kvstore_file_statistics(service->store, i, &file);
        file_totals_add(&totals, &file);
        if (i < MAX_FILES_LISTED)
            put_file(json, i, &file);
    }
    json_close_array(json);
    json_begin_member(json, "sum");
    json_open_object(json);
    json_put_number(json, "files", count);
    figures_put_members(json, file_figures, &totals.sums);
    figures_put_file_totals(&totals, (struct figures){.json = json});
    json_close_object(json);
}

static void put_locks_section(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    uint32_t count = service->store ? kvstore_datafiles(service->store) : 0;
    json_begin_member(json, "each");
    json_open_array(json);
    for (uint32_t i = 0; i < count && i < MAX_FILES_LISTED; i++) {
        struct kvstore_lock_facts facts;
        kvstore_lock_facts(service->store, i, &facts);
        json_begin_element(json);
        json_open_object(json);
        json_put_number(json, "file", i);
        json_put_number(json, "waits", facts.waits);
        json_put_us(json, "longest_wait_us", (double)facts.longest_wait_ns);
        json_put_us(json, "longest_hold_us", (double)facts.longest_hold_ns);
        json_close_object(json);
    }
    json_close_array(json);
}

static void put_cache_section(const struct stats_source *source, struct json *json)
{
    figures_put_cache(source->service, (struct figures){.json = json});
}

static void put_bound_section(const struct stats_source *source, struct json *json)
{
    figures_put_bound(source->service, (struct figures){.json = json});
}

static void put_order_section(const struct stats_source *source, struct json *json)
{
    figures_put_order(source->service, (struct figures){.json = json});
}

static const struct {
    const char *name;
    void (*put)(const struct stats_source *source, struct json *json);
} sections[] = {
    {"server", put_server_section},     {"operations", put_operations_section},
    {"latency", put_latency_section},   {"schedule", put_schedule_section},
    {"files", put_files_section},       {"cache", put_cache_section},
    {"sessions", put_sessions_section}, {"engine", put_engine_section},
    {"mirror", put_mirror_section},     {"bound", put_bound_section},
    {"order", put_order_section},       {"access", put_access_section},
    {"locks", put_locks_section},
};

enum kv_status stats_json(const void *source, struct kv_slice section, char **text, size_t *size)
{
    if (kv_slice_equal(section, kv_slice_from_string(METRICS_SECTION)))
        return metrics_text(source, text, size);
    struct json json = {.stream = open_memstream(text, size)};
    if (!json.stream)
        return KV_NO_MEMORY;
    bool known = section.size == 0;
    json_open_object(&json);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        bool asked = kv_slice_equal(section, kv_slice_from_string(sections[i].name));
        known |= asked;
        if (section.size > 0 && !asked)
            continue;
        json_begin_member(&json, sections[i].name);
        json_open_object(&json);
        sections[i].put(source, &json);
        json_close_object(&json);
    }
    json_close_object(&json);
    if (fclose(json.stream) != 0)
        return KV_NO_MEMORY;
    return known ? KV_OK : KV_NOT_FOUND;
}
