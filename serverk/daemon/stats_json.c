#include "serverk/daemon/stats_json.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "mirror/mirror.h"
#include "serverk/daemon/json_writer.h"
#include "serverk/daemon/metrics.h"
#include "serverk/daemon/stats_source.h"

/* Files that are listed one by one; above, the sums must do. */
#define MAX_FILES_LISTED 256u

/* Sections
 * ----------------------------------------------------------------------------------------- */

/* What the payer has used while several shared the workers' time. */
static void put_used(const struct service *service, struct json *json, const char *name,
                     unsigned payer)
{
    put_us(json, name, (double)atomic_load(&service->shares->payers[payer].used_ns));
}

/* Users other than the daemon's own, where they may come. */
static void put_guests(const struct service *service, struct json *json)
{
    struct guest_facts facts;
    if (!service->shares)
        return;
    put_used(service, json, "own_shared_us", PAYER_OWN);
    put_used(service, json, "door_shared_us", PAYER_DOOR);
    begin_member(json, "guests");
    open_object(json);
    for (unsigned guest = 0; guest < LANE_PLAN_MAX_GUESTS; guest++) {
        char number[16];
        if (!lanes_guest_facts(service->lanes, guest, &facts))
            continue;
        snprintf(number, sizeof number, "%u", guest);
        begin_member(json, number);
        open_object(json);
        put_number(json, "uid", facts.uid);
        put_number(json, "sessions", facts.sessions);
        put_flag(json, "given", facts.given);
        put_number(json, "depth", facts.geometry.depth);
        put_number(json, "message_bytes", facts.geometry.message_bytes);
        put_number(json, "messages", facts.messages);
        put_number(json, "garbage", facts.garbage);
        put_used(service, json, "shared_us", PAYER_GUESTS + guest);
        close_object(json);
    }
    close_object(json);
}

/* Those who may only read, where there is a lane for them. */
static void put_readers(const struct service *service, struct json *json)
{
    struct reader_facts facts;
    if (!lanes_reader_facts(service->lanes, &facts))
        return;
    begin_member(json, "readers");
    open_object(json);
    put_number(json, "gid", facts.group);
    put_number(json, "sessions", facts.sessions);
    put_number(json, "depth", facts.geometry.depth);
    put_number(json, "message_bytes", facts.geometry.message_bytes);
    put_number(json, "messages", facts.messages);
    put_number(json, "garbage", facts.garbage);
    if (service->shares)
        put_used(service, json, "shared_us", PAYER_READERS);
    close_object(json);
}

static void put_queues(const struct service *service, struct json *json)
{
    const struct lane_plan *plan = lanes_plan(service->lanes);
    begin_member(json, "lanes");
    open_object(json);
    put_text(json, "mode", lanes_mode_name(service->options->lanes));
    put_number(json, "lanes", plan->lanes);
    put_number(json, "lanes_in_use", lanes_in_use(service->lanes));
    put_number(json, "lane_depth", plan->lane.depth);
    put_number(json, "lane_message_bytes", plan->lane.message_bytes);
    put_number(json, "bulk_lanes", plan->bulk_lanes);
    put_number(json, "bulk_depth", plan->bulk.depth);
    put_number(json, "bulk_message_bytes", plan->bulk.message_bytes);
    put_guests(service, json);
    put_readers(service, json);
    close_object(json);
}

static void put_workers(const struct service *service, struct json *json)
{
    put_number(json, "workers", service->options->workers);
    if (!service->parking)
        return;
    struct parking_counts counts = parking_counts(service->parking);
    put_number(json, "workers_awake", counts.active + counts.in_long);
}

/* Of the models in which each request has a thread or process of its own. */
static void put_requests_alive(const struct service *service, struct json *json)
{
    if (!service->slots)
        return;
    struct slot_counts counts = slots_counts(service->slots);
    begin_member(json, "alive");
    open_object(json);
    put_number(json, "now", counts.live);
    put_number(json, "most", counts.live_max);
    put_number(json, "limit", counts.limit);
    put_number(json, "started", counts.started);
    put_number(json, "limit_waits", counts.waits);
    put_number(json, "died", counts.died);
    put_number(json, "taken_back", counts.taken_back);
    close_object(json);
}

static void put_sandbox(const struct sandbox *sandbox, struct json *json)
{
    begin_member(json, "sandbox");
    open_object(json);
    put_text(json, "wanted", sandbox->wanted ? "on" : "off");
    put_flag(json, "no_new_privileges", sandbox->no_new_privileges);
    put_flag(json, "syscall_filter", sandbox->syscall_filter);
    put_number(json, "landlock_abi", (uint64_t)sandbox->landlock_abi);
    put_flag(json, "files_confined", sandbox->files_confined);
    put_flag(json, "core_files", sandbox->core_files);
    close_object(json);
}

static void put_direct(const struct service *service, struct json *json)
{
    struct kvstore_direct_facts facts = {0};
    service->engine->calls->direct_facts(service->engine, &facts);
    begin_member(json, "direct");
    open_object(json);
    put_text(json, "mode", kvstore_direct_name(facts.direct));
    put_text(json, "name", facts.name);
    put_number(json, "shared_bytes", facts.shared_bytes);
    put_number(json, "private_bytes", facts.private_bytes);
    put_number(json, "taken_over_files", facts.taken_over_files);
    close_object(json);
}

/* How the engine in this process works. */
static void put_store(const struct service *service, struct json *json)
{
    const struct server_options *options = service->options;
    put_text(json, "locking", kvstore_locking_name(options->locking));
    if (kvstore_locking_has_rwlocks(options->locking))
        put_text(json, "rwlock", kvstore_rwlock_name(options->rwlock));
    put_number(json, "lock_memory_bytes", kvstore_lock_memory_bytes(service->store));
    put_text(json, "io", kvstore_io_name(options->io));
    put_text(json, "verify", options->verify_every_read ? "every" : "first");
    put_text(json, "sync", durability_name(live_durability(service->live)));
    if (live_durability(service->live) == KVSTORE_SYNC_INTERVAL)
        put_number(json, "sync_interval_ms", atomic_load(&service->live->sync_interval_ms));
}

/* An engine_number_visit. */
static void put_engine_number(void *json, const struct engine_number *number)
{
    put_number(json, number->name, number->value);
}

static void put_mirror(const struct stats_source *source, struct json *json)
{
    const struct server_options *options = source->service->options;
    static const char *const over[] = {"nothing", "slow", "fail"};
    put_flag(json, "on", source->service->mirror != NULL);
    if (!source->service->mirror)
        return;
    put_text(json, "bucket", options->nats.bucket);
    mirror_numbers(source->service->mirror, put_engine_number, json);
    put_number(json, "lag_bound_ms", options->mirror_lag_ms);
    put_text(json, "over_bound", over[options->mirror_over]);
}

static void put_engine(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    put_text(json, "name", service->engine->calls->name);
    put_number(json, "requests_under_way", submissions_under_way(service->submissions));
    service->engine->calls->numbers(service->engine, put_engine_number, json);
}

/* Present only where each operation is made slow, which is no way to serve anybody. */
static void put_service_time(const struct stats_source *source, struct json *json)
{
    const struct server_options *options = source->service->options;
    struct worker_statistics *sum;
    if (options->service_time.delay.kind == DELAY_OFF || !(sum = statistics_create(1)))
        return;
    stats_source_sum(source, sum);
    begin_member(json, "service_time");
    open_object(json);
    put_text(json, "warning", "each operation is made slow, for experiments");
    put_text(json, "setting", options_text_of(options, "service-time"));
    put_number(json, "operations", sum->served);
    put_us(json, "asked_us", (double)sum->served_asked_ns);
    put_us(json, "taken_us", (double)sum->served_taken_ns);
    close_object(json);
    free(sum);
}

static void put_server(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    const struct server_options *options = service->options;
    char instance[17];
    snprintf(instance, sizeof instance, "%016" PRIx64, service->terms.instance);
    put_text(json, "version", MQKV_VERSION);
    put_number(json, "pid", (uint64_t)getpid());
    put_text(json, "instance", instance);
    put_number(json, "uptime_ms", (clock_monotonic_ns() - source->started_ns) / 1000000);
    put_text(json, "queue", options->queue);
    if (service->store)
        put_text(json, "dir", options->dir);
    put_text(json, "engine", service->engine->calls->name);
    put_number(json, "datafiles", engine_datafiles(service->engine));
    put_workers(service, json);
    put_text(json, "dispatch", dispatch_model_name(options->dispatch));
    put_requests_alive(service, json);
    put_queues(service, json);
    if (service->store)
        put_store(service, json);
    put_number(json, "max_value_bytes", engine_max_value_bytes(service->engine));
    put_number(json, "replies_waiting_for_sync",
               service->commit ? commit_waiting(service->commit) : 0);
    put_number(json, "large_message_bytes", atomic_load(&service->budget->used_bytes));
    put_service_time(source, json);
    put_direct(service, json);
    put_sandbox(&source->sandbox, json);
}

static void put_operations(const struct stats_source *source, struct json *json)
{
    struct worker_statistics *sum = statistics_create(1);
    if (!sum)
        return;
    stats_source_sum(source, sum);
    uint64_t total = 0;
    for (unsigned opcode = 1; opcode < STATISTICS_OPCODES; opcode++)
        total += sum->operations[opcode];
    put_number(json, "messages", sum->messages);
    put_number(json, "total", total);
    for (unsigned opcode = 1; opcode < STATISTICS_OPCODES; opcode++)
        put_number(json, stats_operation_name(opcode), sum->operations[opcode]);
    put_number(json, "hits", sum->hits);
    put_number(json, "misses", sum->misses);
    put_number(json, "bytes_in", sum->bytes_in);
    put_number(json, "bytes_out", sum->bytes_out);
    put_number(json, "sleeps", sum->sleeps);
    begin_member(json, "errors");
    open_object(json);
    for (unsigned status = KV_OK + 1; status < KV_STATUS_COUNT; status++)
        if (sum->statuses[status] > 0)
            put_number(json, kv_status_name((enum kv_status)status), sum->statuses[status]);
    close_object(json);
    begin_member(json, "dropped");
    open_object(json);
    for (unsigned reason = 0; reason < DROPPED_REASONS; reason++)
        put_number(json, dropped_reason_name((enum dropped_reason)reason), sum->dropped[reason]);
    close_object(json);
    free(sum);
}

static void put_histogram(struct json *json, const char *name, const struct histogram *histogram)
{
    begin_member(json, name);
    open_object(json);
    put_number(json, "count", histogram->total_count);
    put_us(json, "mean_us", histogram_mean_ns(histogram));
    put_us(json, "p50_us", (double)histogram_quantile_ns(histogram, 0.5));
    put_us(json, "p90_us", (double)histogram_quantile_ns(histogram, 0.9));
    put_us(json, "p99_us", (double)histogram_quantile_ns(histogram, 0.99));
    put_us(json, "p999_us", (double)histogram_quantile_ns(histogram, 0.999));
    put_us(json, "max_us", (double)histogram->max_ns);
    close_object(json);
}

static void put_latency(const struct stats_source *source, struct json *json)
{
    struct worker_statistics *sum = statistics_create(1);
    if (!sum)
        return;
    stats_source_sum(source, sum);
    for (unsigned stage = 0; stage < STAGES; stage++)
        put_histogram(json, latency_stage_name((enum latency_stage)stage), &sum->stages[stage]);
    begin_member(json, "work_by_operation");
    open_object(json);
    for (unsigned kind = 0; kind < STATISTICS_OPCODES; kind++)
        if (sum->work[kind].total_count > 0)
            put_histogram(json, stats_operation_name(kind), &sum->work[kind]);
    close_object(json);
    free(sum);
}

static void put_waits(struct json *json, const struct schedule_statistics *statistics)
{
    static const char *const names[SCHEDULE_CLASSES] = {"0-7", "8-15", "16-23", "24-31"};
    begin_member(json, "waits_by_priority");
    open_object(json);
    for (unsigned i = 0; i < SCHEDULE_CLASSES; i++)
        put_histogram(json, names[i], &statistics->waits[i]);
    close_object(json);
}

static void put_schedule(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    put_text(json, "sched", sched_name(service->options->sched));
    put_flag(json, "nice", service->options->nice);
    if (!service->schedule)
        return;
    struct schedule_statistics *statistics = malloc(sizeof *statistics);
    if (!statistics)
        return;
    schedule_statistics(service->schedule, statistics);
    put_number(json, "capacity", statistics->capacity);
    put_number(json, "received", statistics->received);
    put_number(json, "waiting", statistics->waiting);
    put_number(json, "waiting_max", statistics->waiting_max);
    begin_member(json, "waiting_mean");
    fprintf(json->stream, "%.3f", statistics->waiting_mean);
    put_number(json, "full", statistics->full);
    put_waits(json, statistics);
    free(statistics);
}

/* The numbers of a data file, which add up over files. */
#define FILE_FIELD(name)                                      \
    {                                                         \
#name, offsetof(struct kvstore_file_statistics, name) \
    }
static const struct {
    const char *name;
    size_t offset;
} file_fields[] = {
    FILE_FIELD(keys),           FILE_FIELD(expiring_keys),
    FILE_FIELD(live_bytes),     FILE_FIELD(dead_bytes),
    FILE_FIELD(file_bytes),     FILE_FIELD(index_bytes),
    FILE_FIELD(appended_bytes), FILE_FIELD(synced_bytes),
    FILE_FIELD(syncs),          FILE_FIELD(sync_failures),
    FILE_FIELD(compactions),    FILE_FIELD(compaction_failures),
    FILE_FIELD(expired),        FILE_FIELD(read_retries),
    FILE_FIELD(read_fallbacks), FILE_FIELD(recovered_bytes_cut),
};
#define FILE_FIELD_COUNT (sizeof file_fields / sizeof file_fields[0])

static void put_file(struct json *json, const uint64_t numbers[FILE_FIELD_COUNT])
{
    for (size_t i = 0; i < FILE_FIELD_COUNT; i++)
        put_number(json, file_fields[i].name, numbers[i]);
}

/* The file's numbers, and added to the sums. */
static void read_file_numbers(const struct kvstore_file_statistics *file,
                              uint64_t numbers[FILE_FIELD_COUNT], uint64_t sums[FILE_FIELD_COUNT])
{
    for (size_t i = 0; i < FILE_FIELD_COUNT; i++) {
        memcpy(&numbers[i], (const char *)file + file_fields[i].offset, sizeof numbers[i]);
        sums[i] += numbers[i];
    }
}

/* Of the file system that the data directory is on; nothing if it does not tell. */
static void put_disk(const struct service *service, struct json *json)
{
    struct statvfs disk;
    if (statvfs(service->options->dir, &disk) != 0)
        return;
    put_number(json, "disk_free_bytes", (uint64_t)disk.f_bavail * disk.f_frsize);
    put_number(json, "disk_bytes", (uint64_t)disk.f_blocks * disk.f_frsize);
}

static void put_files(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    uint64_t numbers[FILE_FIELD_COUNT], sums[FILE_FIELD_COUNT] = {0};
    uint64_t read_only = 0, full = 0, oldest_ms = 0;
    uint32_t count = engine_datafiles(service->engine);
    if (service->store)
        put_disk(service, json);
    begin_member(json, "each");
    open_array(json);
    for (uint32_t i = 0; i < count; i++) {
        struct kvstore_file_statistics file;
        kvstore_file_statistics(service->store, i, &file);
        read_file_numbers(&file, numbers, sums);
        read_only += file.read_only;
        full += file.full;
        oldest_ms = file.unsynced_ms > oldest_ms ? file.unsynced_ms : oldest_ms;
        if (i >= MAX_FILES_LISTED)
            continue;
        begin_element(json);
        open_object(json);
        put_number(json, "file", i);
        put_file(json, numbers);
        put_number(json, "unsynced_ms", file.unsynced_ms);
        put_flag(json, "from_checkpoint", file.from_checkpoint);
        put_flag(json, "taken_over", file.taken_over);
        put_flag(json, "read_only", file.read_only);
        put_flag(json, "full", file.full);
        close_object(json);
    }
    close_array(json);
    begin_member(json, "sum");
    open_object(json);
    put_number(json, "files", count);
    put_file(json, sums);
    put_number(json, "unsynced_ms", oldest_ms);
    put_number(json, "read_only_files", read_only);
    put_number(json, "full_files", full);
    close_object(json);
}

static void put_cache(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    struct kvstore_cache_statistics cache = {0};
    if (service->store)
        kvstore_cache_statistics(service->store, &cache);
    put_number(json, "max_bytes", cache.max_bytes);
    put_number(json, "used_bytes", cache.used_bytes);
    put_number(json, "entries", cache.entries);
    put_number(json, "hits", cache.hits);
    put_number(json, "misses", cache.misses);
    put_number(json, "evictions", cache.evictions);
    put_text(json, "allocator", kvstore_allocator_name(service->options->allocator));
    put_number(json, "segment_bytes", cache.segment_bytes);
    put_number(json, "segment_free_bytes", cache.segment_free_bytes);
}

static void put_bound(const struct stats_source *source, struct json *json)
{
    struct kvstore_bound_statistics bound = {0};
    if (source->service->store)
        kvstore_bound_statistics(source->service->store, &bound);
    put_number(json, "max_bytes", bound.max_bytes);
    put_number(json, "live_bytes", bound.live_bytes);
    put_text(json, "evict", kvstore_evict_name(bound.evict));
    put_number(json, "evictions", bound.evictions);
    put_number(json, "evicted_bytes", bound.evicted_bytes);
    put_number(json, "refusals", bound.refusals);
    put_number(json, "policy_bytes", bound.memory_bytes);
}

static void put_quotas(const struct service *service, struct json *json)
{
    const struct access_rules *rules = service->access ? service->access->rules : NULL;
    begin_member(json, "quotas");
    fputc('[', json->stream);
    json->first = true;
    for (unsigned i = 0; rules && service->store && i < rules->quota_count; i++) {
        const struct access_rule *rule = access_quota_rule(rules, i);
        struct kvstore_quota_usage usage;
        kvstore_quota_usage(service->store, i, &usage);
        begin_element(json);
        open_object(json);
        begin_member(json, "prefix");
        escape_print_json(json->stream, rules->quotas[i].prefix);
        put_number(json, "bytes", usage.bytes);
        put_number(json, "max_bytes", rules->quotas[i].max_bytes);
        put_number(json, "keys", usage.keys);
        put_number(json, "max_keys", rules->quotas[i].max_keys);
        put_number(json, "refusals", usage.refusals);
        if (rule) {
            put_text(json, "of", access_subject_name(rule->subject));
            put_text(json, "name", rule->name);
        }
        close_object(json);
    }
    fputc(']', json->stream);
    json->first = false;
}

/* What the user has of the quota of its section. */
static void put_user_quota(const struct service *service, struct json *json,
                           const struct access_rule *rule)
{
    struct kvstore_quota_usage usage;
    if (!rule || rule->quota_line == 0 || !service->store)
        return;
    kvstore_quota_usage(service->store, rule->quota, &usage);
    put_number(json, "bytes", usage.bytes);
    put_number(json, "max_bytes", rule->max_bytes);
    put_number(json, "keys", usage.keys);
    put_number(json, "max_keys", rule->max_keys);
    put_number(json, "refusals", usage.refusals);
}

/* Users that are restricted, and have had a session. */
static void put_access(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    if (service->access)
        pthread_mutex_lock(&service->access->lock);
    put_flag(json, "restricted", service->access && access_rules_restrict(service->access->rules));
    begin_member(json, "users");
    fputc('[', json->stream);
    json->first = true;
    const struct access_user *user = service->access ? atomic_load(&service->access->users) : NULL;
    for (; user; user = user->next) {
        const struct access_rule *rule = atomic_load(&user->rule);
        begin_element(json);
        open_object(json);
        put_number(json, "uid", user->uid);
        put_flag(json, "read_only", user->reads_only);
        put_text(json, "rule", rule ? access_subject_name(rule->subject) : "none");
        put_text(json, "name", rule ? rule->name : "");
        put_number(json, "max_sessions", rule ? rule->sessions : 0);
        put_number(json, "max_operations_s", rule ? rule->operations_s : 0);
        put_number(json, "operations", atomic_load(&user->operations));
        put_number(json, "denied", atomic_load(&user->denied));
        put_number(json, "over_quota", atomic_load(&user->over_quota));
        put_user_quota(service, json, rule);
        close_object(json);
    }
    fputc(']', json->stream);
    json->first = false;
    put_quotas(service, json);
    if (service->access)
        pthread_mutex_unlock(&service->access->lock);
}

static bool put_session(void *context, struct session *session)
{
    struct json *json = context;
    begin_element(json);
    open_object(json);
    put_number(json, "session", session->id);
    put_number(json, "pid", (uint64_t)session->pid);
    put_number(json, "uid", session->uid);
    put_number(json, "age_ms", clock_monotonic_coarse_ms() - session->opened_ms);
    put_number(json, "threads", session->threads);
    put_number(json, "lane", session->assignment.lane);
    put_flag(json, "read_only", session->assignment.queue == LANE_PLAN_READ_LANE);
    put_number(json, "credits", session->assignment.credits);
    put_number(json, "reply_bytes", session->reply_bytes);
    put_text(json, "replies", session->ring ? "shared" : "queue");
    const struct wire_segment *segment = atomic_load(&session->segment);
    put_number(json, "segment_bytes", segment ? wire_segment_bytes(segment) : 0);
    close_object(json);
    return true;
}

static void put_sessions(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    struct session_counts counts;
    session_counts(service->sessions, &counts);
    put_number(json, "live", counts.live);
    put_number(json, "opened", counts.opened);
    begin_member(json, "ended");
    open_object(json);
    for (unsigned reason = 0; reason < SESSION_END_REASONS; reason++)
        put_number(json, session_end_reason_name((enum session_end_reason)reason),
                   counts.ended[reason]);
    close_object(json);
    begin_member(json, "each");
    open_array(json);
    session_each(service->sessions, put_session, json);
    close_array(json);
}

static const struct {
    const char *name;
    void (*put)(const struct stats_source *source, struct json *json);
} sections[] = {
    {"server", put_server},     {"operations", put_operations}, {"latency", put_latency},
    {"schedule", put_schedule}, {"files", put_files},           {"cache", put_cache},
    {"sessions", put_sessions}, {"engine", put_engine},         {"mirror", put_mirror},
    {"bound", put_bound},       {"access", put_access},
};

enum kv_status stats_json(const void *source, struct kv_slice section, char **text, size_t *size)
{
    if (kv_slice_equal(section, kv_slice_from_string(METRICS_SECTION)))
        return metrics_text(source, text, size);
    struct json json = {.stream = open_memstream(text, size)};
    if (!json.stream)
        return KV_NO_MEMORY;
    bool known = section.size == 0;
    open_object(&json);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        bool asked = kv_slice_equal(section, kv_slice_from_string(sections[i].name));
        known |= asked;
        if (section.size > 0 && !asked)
            continue;
        begin_member(&json, sections[i].name);
        open_object(&json);
        sections[i].put(source, &json);
        close_object(&json);
    }
    close_object(&json);
    if (fclose(json.stream) != 0)
        return KV_NO_MEMORY;
    return known ? KV_OK : KV_NOT_FOUND;
}
