#include "serverk/daemon/metrics.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/report/error.h"
#include "serverk/daemon/daemon_metrics.h"
#include "serverk/daemon/metrics_writer.h"
#include "wire/operation.h"
#include "bridges/cluster/mirror/mirror.h"

/* Data files that have lines of their own; of more only the sums are told, as file="all". */
#define MAX_FILES_LISTED 256u

/* Users whose sessions are counted; those of more are counted as uid="other". */
#define MAX_USERS_LISTED 32u

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Parts ----------------------------------------------------------------------------------------
 */

static void put_daemon(const struct stats_source *source, FILE *out)
{
    const struct service *service = source->service;
    metrics_begin(out, "info", "gauge", "What serves: always 1.");
    fputs("mqkv_info{version=\"" MQKV_VERSION "\",queue=\"", out);
    metrics_put_escaped(out, service->options->queue);
    fputs("\",dir=\"", out);
    metrics_put_escaped(out, service->options->dir);
    fputs("\"} 1\n", out);
    metrics_begin(out, "start_time_seconds", "gauge", "When the daemon started, since 1970.");
    fprintf(out, "mqkv_start_time_seconds %.3f\n", (double)source->started_real_ms / 1e3);
    metrics_put(out, "workers", "gauge", "Worker threads.", service->options->workers);
    if (service->parking) {
        struct parking_counts counts = parking_counts(service->parking);
        metrics_put(out, "workers_awake", "gauge", "Worker threads that are not parked.",
                    counts.active + counts.away);
        metrics_put(out, "workers_away", "gauge",
                    "Worker threads that have not come back for 2 ms or more.", counts.away);
    }
    if (service->aside)
        metrics_put(out, "messages_set_aside", "gauge",
                    "Messages that wait since all workers are away.",
                    aside_waiting(service->aside));
    metrics_put(out, "replies_waiting_for_sync", "gauge",
                "Replies to writes that are not on disk yet.",
                service->commit ? commit_waiting(service->commit) : 0);
}

static void put_operations(const struct worker_statistics *sum, FILE *out)
{
    metrics_put(out, "messages_total", "counter", "Messages received.", sum->messages);
    metrics_begin(out, "operations_total", "counter", "Operations executed.");
    for (unsigned opcode = 1; opcode < STATISTICS_OPCODES; opcode++)
        metrics_put_labelled(out, "operations_total", "operation", stats_operation_name(opcode),
                             sum->operations[opcode]);
    metrics_begin(out, "errors_total", "counter", "Operations that did not end with ok.");
    for (unsigned status = KV_OK + 1; status < KV_STATUS_COUNT; status++)
        metrics_put_labelled(out, "errors_total", "status", kv_status_name((enum kv_status)status),
                             sum->statuses[status]);
    metrics_begin(out, "reads_total", "counter", "Reads of one key, by whether it was there.");
    metrics_put_labelled(out, "reads_total", "result", "hit", sum->hits);
    metrics_put_labelled(out, "reads_total", "result", "miss", sum->misses);
    metrics_put(out, "received_bytes_total", "counter", "Bytes of requests.", sum->bytes_in);
    metrics_put(out, "sent_bytes_total", "counter", "Bytes of replies.", sum->bytes_out);
    metrics_begin(out, "dropped_messages_total", "counter", "Messages dropped unanswered.");
    for (unsigned reason = 0; reason < DROPPED_REASONS; reason++)
        metrics_put_labelled(out, "dropped_messages_total", "reason",
                             dropped_reason_name((enum dropped_reason)reason),
                             sum->dropped[reason]);
}

/* One histogram of the family. Upper bounds of the buckets: 1, 2, 5, 10 us ... 10 s. */
static void put_histogram(const char *family, const char *label, const char *of,
                          const struct histogram *histogram, FILE *out)
{
    static const unsigned steps[] = {1, 2, 5};
    uint64_t counted = 0, unit_ns = 1000;
    unsigned bucket = 0;
    for (unsigned i = 0; i <= 21; i++) {
        uint64_t bound_ns = steps[i % 3] * unit_ns;
        for (; bucket < HISTOGRAM_BUCKETS && histogram_bucket_top_ns(bucket) <= bound_ns; bucket++)
            counted += histogram->counts[bucket];
        fprintf(out, "mqkv_%s_bucket{%s=\"%s\",le=\"%g\"} %" PRIu64 "\n", family, label, of,
                seconds(bound_ns), counted);
        if (i % 3 == 2)
            unit_ns *= 10;
    }
    for (; bucket < HISTOGRAM_BUCKETS; bucket++)
        counted += histogram->counts[bucket];
    fprintf(out, "mqkv_%s_bucket{%s=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", family, label, of, counted);
    fprintf(out, "mqkv_%s_sum{%s=\"%s\"} %.9f\n", family, label, of, seconds(histogram->total_ns));
    fprintf(out, "mqkv_%s_count{%s=\"%s\"} %" PRIu64 "\n", family, label, of, counted);
}

static void put_stages(const struct worker_statistics *sum, FILE *out)
{
    metrics_begin(
        out, "stage_seconds", "histogram",
        "Time of sampled messages in each stage: in the queue, waiting for locks, at work, "
        "waiting for the disk, sending the reply.");
    for (unsigned stage = 0; stage < STAGES; stage++)
        put_histogram("stage_seconds", "stage", latency_stage_name((enum latency_stage)stage),
                      &sum->stages[stage], out);
}

/* The same as stage="work", by what the message asks for. */
static void put_work(const struct worker_statistics *sum, FILE *out)
{
    metrics_begin(out, "work_seconds", "histogram",
                  "Time of messages at work, by their operation; those of several are a batch.");
    for (unsigned kind = 0; kind < STATISTICS_OPCODES; kind++)
        put_histogram("work_seconds", "operation", stats_operation_name(kind), &sum->work[kind],
                      out);
}

/* Files ----------------------------------------------------------------------------------------
 */

#define FILE_METRIC(name, type, help, field)                              \
    {                                                                     \
        name, type, help, offsetof(struct kvstore_file_statistics, field) \
    }

static const struct {
    const char *name, *type, *help;
    size_t offset; /* of a uint64_t */
} file_metrics[] = {
    FILE_METRIC("file_keys", "gauge", "Keys.", keys),
    FILE_METRIC("file_expiring_keys", "gauge", "Keys with an expiry.", expiring_keys),
    FILE_METRIC("file_live_bytes", "gauge", "Bytes of records that a get would find.", live_bytes),
    FILE_METRIC("file_dead_bytes", "gauge", "Bytes of replaced, deleted and expired records.",
                dead_bytes),
    FILE_METRIC("file_bytes", "gauge", "Bytes of disk.", file_bytes),
    FILE_METRIC("file_index_bytes", "gauge", "Memory of the index.", index_bytes),
    FILE_METRIC("file_appended_bytes_total", "counter", "Bytes appended.", appended_bytes),
    FILE_METRIC("file_synced_bytes_total", "counter", "Bytes of those known to be on disk.",
                synced_bytes),
    FILE_METRIC("file_syncs_total", "counter", "Syncs.", syncs),
    FILE_METRIC("file_sync_failures_total", "counter", "Syncs that failed.", sync_failures),
    FILE_METRIC("file_compactions_total", "counter", "Compactions.", compactions),
    FILE_METRIC("file_compaction_failures_total", "counter", "Compactions that failed.",
                compaction_failures),
    FILE_METRIC("file_damaged_records", "gauge",
                "Damaged records that were met, up to 8, until they are replaced or left out.",
                damaged_records),
    FILE_METRIC("file_expired_keys_total", "counter", "Keys taken out by expiry.", expired),
};

static uint64_t file_value(const struct kvstore_file_statistics *file, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)file + offset, sizeof value);
    return value;
}

static void put_file_metric(const struct kvstore_file_statistics *files, uint32_t count,
                            const char *name, size_t offset, FILE *out)
{
    uint64_t sum = 0;
    char number[16];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = file_value(&files[i], offset);
        sum += value;
        snprintf(number, sizeof number, "%" PRIu32, i);
        if (count <= MAX_FILES_LISTED)
            metrics_put_labelled(out, name, "file", number, value);
    }
    if (count > MAX_FILES_LISTED)
        metrics_put_labelled(out, name, "file", "all", sum);
}

static void put_file_states(const struct kvstore_file_statistics *files, uint32_t count, FILE *out)
{
    uint64_t read_only = 0, full = 0, stale = 0, unsynced = 0, oldest_ms = 0;
    metrics_begin(out, "file_unsynced_seconds", "gauge",
                  "How long the oldest write waits to be known to be on disk.");
    for (uint32_t i = 0; i < count; i++) {
        if (count <= MAX_FILES_LISTED)
            fprintf(out, "mqkv_file_unsynced_seconds{file=\"%" PRIu32 "\"} %.3f\n", i,
                    (double)files[i].unsynced_ms / 1e3);
        oldest_ms = files[i].unsynced_ms > oldest_ms ? files[i].unsynced_ms : oldest_ms;
        read_only += files[i].read_only;
        full += files[i].full;
        stale += files[i].stale_ms > 0;
        unsynced += files[i].appended_bytes - files[i].synced_bytes;
    }
    metrics_put(out, "unsynced_bytes", "gauge", "Bytes appended and not known to be on disk.",
                unsynced);
    if (count > MAX_FILES_LISTED)
        fprintf(out, "mqkv_file_unsynced_seconds{file=\"all\"} %.3f\n", (double)oldest_ms / 1e3);
    metrics_put(out, "read_only_files", "gauge", "Data files that take no writes after a failure.",
                read_only);
    metrics_put(out, "full_files", "gauge", "Data files whose last put found no space.", full);
    metrics_put(
        out, "stale_files", "gauge",
        "Data files that a write keeps, as on a disk that does not answer: numbers are older.",
        stale);
}

/* An engine_number_visit. */
static void put_engine_number(void *out, const struct engine_number *number)
{
    char name[64];
    snprintf(name, sizeof name, "engine_%s", number->name);
    metrics_put(out, name, number->counts ? "counter" : "gauge", number->help, number->value);
}

/* An engine_number_visit. */
static void put_mirror_number(void *out, const struct engine_number *number)
{
    char name[64];
    snprintf(name, sizeof name, "mirror_%s", number->name);
    metrics_put(out, name, number->counts ? "counter" : "gauge", number->help, number->value);
}

/* False: out of memory. */
static bool put_files(const struct service *service, FILE *out)
{
    uint32_t count = engine_datafiles(service->engine);
    struct kvstore_file_statistics *files = calloc(count, sizeof *files);
    if (!files)
        return false;
    for (uint32_t i = 0; i < count; i++)
        kvstore_file_statistics(service->store, i, &files[i]);
    for (size_t i = 0; i < sizeof file_metrics / sizeof file_metrics[0]; i++) {
        metrics_begin(out, file_metrics[i].name, file_metrics[i].type, file_metrics[i].help);
        put_file_metric(files, count, file_metrics[i].name, file_metrics[i].offset, out);
    }
    put_file_states(files, count, out);
    free(files);
    struct statvfs disk;
    if (statvfs(service->options->dir, &disk) == 0) {
        metrics_put(out, "disk_free_bytes", "gauge",
                    "Free on the file system of the data directory.",
                    (uint64_t)disk.f_bavail * disk.f_frsize);
        metrics_put(out, "disk_bytes", "gauge", "Size of the file system of the data directory.",
                    (uint64_t)disk.f_blocks * disk.f_frsize);
    }
    return true;
}

static void put_cache(const struct service *service, FILE *out)
{
    struct kvstore_cache_statistics cache = {0};
    if (service->store)
        kvstore_cache_statistics(service->store, &cache);
    if (cache.max_bytes == 0)
        return;
    metrics_put(out, "cache_max_bytes", "gauge", "Memory that the cache may use.", cache.max_bytes);
    metrics_put(out, "cache_bytes", "gauge", "Memory that the cache uses.", cache.used_bytes);
    metrics_put(out, "cache_entries", "gauge", "Values in the cache.", cache.entries);
    metrics_put(out, "cache_hits_total", "counter", "Gets that found their key in the cache.",
                cache.hits);
    metrics_put(out, "cache_misses_total", "counter", "Gets that did not.", cache.misses);
    metrics_put(out, "cache_evictions_total", "counter", "Entries taken out to make room.",
                cache.evictions);
}

static void put_bound(const struct service *service, FILE *out)
{
    struct kvstore_bound_statistics bound = {0};
    if (service->store)
        kvstore_bound_statistics(service->store, &bound);
    if (bound.max_bytes == 0)
        return;
    metrics_put(out, "bound_max_bytes", "gauge", "Bytes that live records may have (--max-bytes).",
                bound.max_bytes);
    metrics_put(out, "bound_bytes", "gauge", "Bytes that they have.", bound.live_bytes);
    metrics_put(out, "evictions_total", "counter", "Entries that made room for others.",
                bound.evictions);
    metrics_put(out, "evicted_bytes_total", "counter", "Bytes of those.", bound.evicted_bytes);
    metrics_put(out, "refused_full_total", "counter", "Writes refused at the bound.",
                bound.refusals);
    metrics_put(out, "policy_bytes", "gauge", "Memory of the eviction policy.", bound.memory_bytes);
}

/* Users and quotas -----------------------------------------------------------------------------
 */

/* What begins a metric of the quota, up to its value: mqkv_NAME{of="quota",name="app:"}. Bytes that
 * are no printable ASCII are \\xHH in a label. */
static void put_quota_label(FILE *out, const char *metric, const struct access_rules *rules,
                            unsigned quota)
{
    const struct access_rule *rule = access_quota_rule(rules, quota);
    struct kv_slice name = rule ? kv_slice_from_string(rule->name) : rules->quotas[quota].prefix;
    fprintf(out, "mqkv_%s{of=\"%s\",name=\"", metric,
            rule ? access_subject_name(rule->subject) : "quota");
    for (size_t i = 0; i < name.size; i++) {
        unsigned char byte = ((const unsigned char *)name.data)[i];
        bool plain = byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
        fprintf(out, plain ? "%c" : "\\\\x%02x", byte);
    }
    fputs("\"} ", out);
}

enum quota_number { QUOTA_BYTES, QUOTA_MAX_BYTES, QUOTA_KEYS, QUOTA_MAX_KEYS, QUOTA_REFUSALS };

static uint64_t quota_value(const struct service *service, const struct access_rules *rules,
                            unsigned quota, enum quota_number number)
{
    struct kvstore_quota_usage usage;
    kvstore_quota_usage(service->store, quota, &usage);
    switch (number) {
    case QUOTA_BYTES:
        return usage.bytes;
    case QUOTA_MAX_BYTES:
        return rules->quotas[quota].max_bytes;
    case QUOTA_KEYS:
        return usage.keys;
    case QUOTA_MAX_KEYS:
        return rules->quotas[quota].max_keys;
    case QUOTA_REFUSALS:
        return usage.refusals;
    }
    return 0;
}

static void put_quotas(const struct service *service, const struct access_rules *rules, FILE *out)
{
    static const struct {
        const char *name, *type, *help;
    } families[] = {
        [QUOTA_BYTES] = {"quota_bytes", "gauge", "Bytes of live records that count to a quota."},
        [QUOTA_MAX_BYTES] = {"quota_max_bytes", "gauge", "Bytes that it allows; 0: any number."},
        [QUOTA_KEYS] = {"quota_keys", "gauge", "Keys that count to a quota."},
        [QUOTA_MAX_KEYS] = {"quota_max_keys", "gauge", "Keys that it allows; 0: any number."},
        [QUOTA_REFUSALS] = {"quota_refused_total", "counter", "Writes refused by a quota."}};
    for (unsigned i = 0; i < sizeof families / sizeof families[0] && rules->quota_count > 0; i++) {
        metrics_begin(out, families[i].name, families[i].type, families[i].help);
        for (unsigned quota = 0; quota < rules->quota_count; quota++) {
            const struct access_rule *rule = access_quota_rule(rules, quota);
            if (rule && rule->quota != quota)
                continue; /* its section is told once */
            put_quota_label(out, families[i].name, rules, quota);
            fprintf(out, "%" PRIu64 "\n", quota_value(service, rules, quota, (enum quota_number)i));
        }
    }
}

static void put_user_counter(const struct access *access, FILE *out, const char *name,
                             const char *help, size_t offset)
{
    const struct access_user *user = atomic_load(&access->users);
    if (!user)
        return;
    metrics_begin(out, name, "counter", help);
    for (; user; user = user->next) {
        const _Atomic uint64_t *counter = (const void *)((const char *)user + offset);
        fprintf(out, "mqkv_%s{uid=\"%lu\",reader=\"%d\"} %" PRIu64 "\n", name,
                (unsigned long)user->uid, user->reads_only, atomic_load(counter));
    }
}

/* Of users that are restricted. */
static void put_users(const struct service *service, FILE *out)
{
    struct access *access = service->access;
    put_user_counter(access, out, "user_operations_total", "Operations of restricted users.",
                     offsetof(struct access_user, operations));
    put_user_counter(access, out, "user_denied_total", "Operations that they may not do.",
                     offsetof(struct access_user, denied));
    put_user_counter(access, out, "user_over_quota_total",
                     "Operations beyond those that a second may have.",
                     offsetof(struct access_user, over_quota));
    pthread_mutex_lock(&access->lock);
    if (access->rules && service->store)
        put_quotas(service, access->rules, out);
    pthread_mutex_unlock(&access->lock);
}

/* Sessions -------------------------------------------------------------------------------------
 */

struct user_counts {
    unsigned users;
    struct {
        uid_t uid;
        uint64_t sessions;
    } each[MAX_USERS_LISTED];
    uint64_t others;
};

static bool count_session(void *context, struct session *session)
{
    struct user_counts *counts = context;
    for (unsigned i = 0; i < counts->users; i++) {
        if (counts->each[i].uid == session->uid) {
            counts->each[i].sessions++;
            return true;
        }
    }
    if (counts->users == MAX_USERS_LISTED) {
        counts->others++;
    } else {
        counts->each[counts->users].uid = session->uid;
        counts->each[counts->users++].sessions = 1;
    }
    return true;
}

static void put_sessions(const struct service *service, FILE *out)
{
    struct session_counts counts;
    struct user_counts users = {0};
    char uid[16];
    session_counts(service->sessions, &counts);
    session_each(service->sessions, count_session, &users);
    metrics_begin(out, "sessions", "gauge", "Sessions, one per client thread, by user.");
    for (unsigned i = 0; i < users.users; i++) {
        snprintf(uid, sizeof uid, "%u", (unsigned)users.each[i].uid);
        metrics_put_labelled(out, "sessions", "uid", uid, users.each[i].sessions);
    }
    if (users.others > 0)
        metrics_put_labelled(out, "sessions", "uid", "other", users.others);
    metrics_put(out, "sessions_max", "gauge", "Sessions that there can be at once.",
                session_table_capacity(service->sessions));
    metrics_put(out, "sessions_opened_total", "counter", "Sessions opened.", counts.opened);
    metrics_begin(out, "sessions_ended_total", "counter", "Sessions ended, by how.");
    for (unsigned reason = 0; reason < SESSION_END_REASONS; reason++)
        metrics_put_labelled(out, "sessions_ended_total", "reason",
                             session_end_reason_name((enum session_end_reason)reason),
                             counts.ended[reason]);
}

/* All of it ------------------------------------------------------------------------------------
 */

enum kv_status metrics_text(const struct stats_source *source, char **text, size_t *size)
{
    struct worker_statistics *sum = statistics_create(1);
    FILE *out = sum ? open_memstream(text, size) : NULL;
    if (!out) {
        free(sum);
        return KV_NO_MEMORY;
    }
    stats_source_sum(source, sum);
    put_daemon(source, out);
    daemon_metrics_put(source, out);
    put_operations(sum, out);
    put_stages(sum, out);
    put_work(sum, out);
    put_sessions(source->service, out);
    put_cache(source->service, out);
    put_bound(source->service, out);
    if (source->service->access)
        put_users(source->service, out);
    const struct service *service = source->service;
    service->engine->calls->numbers(service->engine, put_engine_number, out);
    if (service->mirror)
        mirror_numbers(service->mirror, put_mirror_number, out);
    bool complete = !service->store || put_files(service, out);
    free(sum);
    if (fclose(out) == 0 && complete)
        return KV_OK;
    free(*text);
    return KV_NO_MEMORY;
}
