#include "serverk/daemon/stats_json.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "serverk/daemon/figures.h"
#include "serverk/daemon/metrics.h"
#include "serverk/daemon/server_json.h"

/* Files that are listed one by one; above, the sums must do. */
#define MAX_FILES_LISTED 256u

/* Sections ------------------------------------------------------------------------------------- */

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

/* What the user has of the quota of its section. */
static void put_user_quota(const struct service *service, struct json *json,
                           const struct access_rule *rule)
{
    struct quota_facts facts;
    if (!rule || rule->quota_line == 0 || !service->store)
        return;
    quota_facts_read(service, rule->quota, rule->max_bytes, rule->max_keys, &facts);
    figures_put_members(json, quota_figures, &facts);
}

/* Users that are restricted, and have had a session. */
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

static void put_cache_section(const struct stats_source *source, struct json *json)
{
    figures_put_cache(source->service, (struct figures){.json = json});
}

static void put_bound_section(const struct stats_source *source, struct json *json)
{
    figures_put_bound(source->service, (struct figures){.json = json});
}

static const struct {
    const char *name;
    void (*put)(const struct stats_source *source, struct json *json);
} sections[] = {
    {"server", put_server},
    {"operations", put_operations_section},
    {"latency", put_latency_section},
    {"schedule", put_schedule_section},
    {"files", put_files_section},
    {"cache", put_cache_section},
    {"sessions", put_sessions_section},
    {"engine", put_engine},
    {"mirror", put_mirror},
    {"bound", put_bound_section},
    {"access", put_access_section},
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
