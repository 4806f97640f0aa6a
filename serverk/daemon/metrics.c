#include "serverk/daemon/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mqueue.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "bridges/cluster/mirror/mirror.h"
#include "common/report/error.h"
#include "serverk/daemon/figures.h"
#include "serverk/daemon/metrics_writer.h"
#include "serverk/daemon/reload.h"
#include "serverk/session/audit.h"
#include "serverk/session/session_hold.h"
#include "wire/operation.h"

/* Data files that have lines of their own; of more only the sums are told, as file="all". */
#define MAX_FILES_LISTED 256u

/* Users whose sessions are counted; those of more are counted as uid="other". */
#define MAX_USERS_LISTED 32u

static double seconds_of_ns(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* The process, and what it has from the machine ------------------------------------------------ */

static void put_memory(const struct stats_source *source, FILE *out)
{
    char text[128];
    ssize_t size = source->memory < 0 ? -1 : pread(source->memory, text, sizeof text - 1, 0);
    unsigned long long all_pages, resident_pages;
    if (size <= 0)
        return;
    text[size] = '\0';
    if (sscanf(text, "%llu %llu", &all_pages, &resident_pages) == 2)
        metrics_put_new(out, "resident_memory_bytes", "Resident memory of the daemon.",
                        resident_pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

static double seconds_of_timeval(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void put_cpu(FILE *out)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    metrics_begin(out, "cpu_seconds_total", "CPU time of the daemon.");
    fprintf(out, "mqkv_cpu_seconds_total{mode=\"user\"} %.3f\n",
            seconds_of_timeval(usage.ru_utime));
    fprintf(out, "mqkv_cpu_seconds_total{mode=\"system\"} %.3f\n",
            seconds_of_timeval(usage.ru_stime));
}

/* Returns the number of entries of the directory, which several threads read. */
static uint64_t count_entries(DIR *directory)
{
    static pthread_mutex_t one_reader = PTHREAD_MUTEX_INITIALIZER;
    const struct dirent *entry;
    uint64_t count = 0;
    pthread_mutex_lock(&one_reader);
    rewinddir(directory);
    while ((entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    pthread_mutex_unlock(&one_reader);
    return count;
}

static void put_descriptors(const struct stats_source *source, FILE *out)
{
    struct rlimit limit;
    if (source->descriptors)
        metrics_put_new(out, "open_fds", "Descriptors that the daemon has open.",
                        count_entries(source->descriptors));
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_put_new(out, "max_fds", "Descriptors that it may have.", (uint64_t)limit.rlim_cur);
}

/* Puts the size of /dev/shm, where the index and the memory of clients are. */
static void put_shared_memory(FILE *out)
{
    struct statvfs shared;
    if (statvfs("/dev/shm", &shared) != 0)
        return;
    metrics_put_new(out, "shm_free_bytes", "Free in /dev/shm.",
                    (uint64_t)shared.f_bavail * shared.f_frsize);
    metrics_put_new(out, "shm_bytes", "Size of /dev/shm.",
                    (uint64_t)shared.f_blocks * shared.f_frsize);
}

static void put_queue_metrics(const struct service *service, FILE *out)
{
    static const char *const kinds[] = {"lane", "bulk", "guest", "read"};
    struct lanes_depth depths[4];
    lanes_depths(service->lanes, &depths[0], &depths[1], &depths[2], &depths[3]);
    metrics_begin(out, "queue_messages", "Messages that wait in the request queues.");
    for (unsigned kind = 0; kind < 4; kind++)
        metrics_put_labelled(out, "queue_messages", "kind", kinds[kind], depths[kind].messages);
    metrics_begin(out, "queue_capacity", "Messages that fit into them.");
    for (unsigned kind = 0; kind < 4; kind++)
        metrics_put_labelled(out, "queue_capacity", "kind", kinds[kind], depths[kind].capacity);
}

static void put_refusals(const struct service *service, FILE *out)
{
    struct session_counts counts;
    session_counts(service->sessions, &counts);
    metrics_begin(out, "sessions_refused_total", "Clients that got no session, by why.");
    for (unsigned status = KV_OK + 1; status < KV_STATUS_COUNT; status++)
        if (counts.refused[status] > 0 || status == KV_DENIED || status == KV_LIMIT)
            metrics_put_labelled(out, "sessions_refused_total", "reason",
                                 kv_status_name((enum kv_status)status), counts.refused[status]);
    metrics_put_new(out, "audit_lost_records_total",
                    "Records that the audit log lacks: its disk took none.", audit_lost_records());
}

static void put_reload(const struct reload *reload, FILE *out)
{
    uint64_t when_ms;
    bool succeeded = reload_last(reload, &when_ms);
    metrics_put_new(
        out, "last_reload_success",
        "Whether the last reload did all that the configuration says; 1 before the first.",
        succeeded);
    metrics_begin(out, "last_reload_timestamp_seconds", "When that was, since 1970; 0: never.");
    fprintf(out, "mqkv_last_reload_timestamp_seconds %.3f\n", (double)when_ms / 1e3);
}

static void put_backups(FILE *out)
{
    struct session_hold_counts counts;
    session_hold_counts(&counts);
    const struct {
        const char *event;
        const struct session_hold_event *is;
    } events[] = {
        {"begun", &counts.begun}, {"finished", &counts.finished}, {"failed", &counts.failed}};
    metrics_begin(out, "backups_total", "Backups that were begun, finished, failed.");
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        metrics_put_labelled(out, "backups_total", "event", events[i].event, events[i].is->count);
    metrics_begin(out, "last_backup_timestamp_seconds",
                  "When the last one was, since 1970; 0: never since the start.");
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        fprintf(out, "mqkv_last_backup_timestamp_seconds{event=\"%s\"} %.3f\n", events[i].event,
                (double)events[i].is->last_ms / 1e3);
}

/* What the metrics say of the daemon's process, of what it has from the machine, and of what became
 * of reloads, backups, the audit log and those who wanted a session. What the kernel does not tell
 * is left out. */
static void put_process_metrics(const struct stats_source *source, FILE *out)
{
    const struct service *service = source->service;
    put_memory(source, out);
    put_cpu(out);
    put_descriptors(source, out);
    put_shared_memory(out);
    put_queue_metrics(service, out);
    put_refusals(service, out);
    if (source->reload)
        put_reload(source->reload, out);
    if (service->store)
        put_backups(out);
}

/* The daemon ----------------------------------------------------------------------------------- */

static void put_daemon_metrics(const struct stats_source *source, FILE *out)
{
    const struct service *service = source->service;
    metrics_begin(out, "info", "What serves: always 1.");
    fputs("mqkv_info{version=\"" MQKV_VERSION "\",queue=\"", out);
    metrics_put_escaped(out, service->options->queue);
    fputs("\",dir=\"", out);
    metrics_put_escaped(out, service->options->dir);
    fputs("\"} 1\n", out);
    metrics_begin(out, "start_time_seconds", "When the daemon started, since 1970.");
    fprintf(out, "mqkv_start_time_seconds %.3f\n", (double)source->started_real_ms / 1e3);
    figures_put_workers(service, (struct figures){.metrics = out});
    figures_put_waiting_replies(service, (struct figures){.metrics = out});
}

/* One histogram of the family. Upper bounds of the buckets: 1, 2, 5, 10 us ... 10 s. */
static void put_histogram_metric(const char *family, const char *label, const char *of,
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
                seconds_of_ns(bound_ns), counted);
        if (i % 3 == 2)
            unit_ns *= 10;
    }
    for (; bucket < HISTOGRAM_BUCKETS; bucket++)
        counted += histogram->counts[bucket];
    fprintf(out, "mqkv_%s_bucket{%s=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", family, label, of, counted);
    fprintf(out, "mqkv_%s_sum{%s=\"%s\"} %.9f\n", family, label, of,
            seconds_of_ns(histogram->total_ns));
    fprintf(out, "mqkv_%s_count{%s=\"%s\"} %" PRIu64 "\n", family, label, of, counted);
}

static void put_stage_metrics(const struct worker_statistics *sum, FILE *out)
{
    metrics_begin_histogram(
        out, "stage_seconds",
        "Time of sampled messages in each stage: in the queue, waiting for locks, at work, "
        "waiting for the disk, sending the reply.");
    for (unsigned stage = 0; stage < STAGES; stage++)
        put_histogram_metric("stage_seconds", "stage",
                             latency_stage_name((enum latency_stage)stage), &sum->stages[stage],
                             out);
}

/* Puts the time of stage="work" by what the message asks for. */
static void put_work_metrics(const struct worker_statistics *sum, FILE *out)
{
    metrics_begin_histogram(
        out, "work_seconds",
        "Time of messages at work, by their operation; those of several are a batch.");
    for (unsigned kind = 0; kind < STATISTICS_OPCODES; kind++)
        put_histogram_metric("work_seconds", "operation", statistics_operation_name(kind),
                             &sum->work[kind], out);
}

/* Files ---------------------------------------------------------------------------------------- */

/* Puts the value of each file, or, where more than MAX_FILES_LISTED are there, that of all. */
static void put_file_figure(FILE *out, const struct figure *figure,
                            const struct kvstore_file_statistics *files, uint32_t count,
                            const struct file_totals *totals)
{
    char number[16];
    metrics_begin(out, figure->metric, figure->help);
    if (count > MAX_FILES_LISTED)
        metrics_put_labelled(out, figure->metric, "file", "all",
                             figure_value(figure, &totals->sums));
    for (uint32_t i = 0; i < count && count <= MAX_FILES_LISTED; i++) {
        snprintf(number, sizeof number, "%" PRIu32, i);
        metrics_put_labelled(out, figure->metric, "file", number, figure_value(figure, &files[i]));
    }
}

static void put_unsynced_seconds(FILE *out, const struct kvstore_file_statistics *files,
                                 uint32_t count, const struct file_totals *totals)
{
    metrics_begin(out, "file_unsynced_seconds",
                  "How long the oldest write waits to be known to be on disk.");
    if (count > MAX_FILES_LISTED)
        fprintf(out, "mqkv_file_unsynced_seconds{file=\"all\"} %.3f\n",
                (double)totals->oldest_unsynced_ms / 1e3);
    for (uint32_t i = 0; i < count && count <= MAX_FILES_LISTED; i++)
        fprintf(out, "mqkv_file_unsynced_seconds{file=\"%" PRIu32 "\"} %.3f\n", i,
                (double)files[i].unsynced_ms / 1e3);
}

/* An engine_number_visit. */
static void put_engine_metric(void *out, const struct engine_number *number)
{
    char name[64];
    snprintf(name, sizeof name, "engine_%s", number->name);
    metrics_put_new(out, name, number->help, number->value);
}

/* An engine_number_visit. */
static void put_mirror_metric(void *out, const struct engine_number *number)
{
    char name[64];
    snprintf(name, sizeof name, "mirror_%s", number->name);
    metrics_put_new(out, name, number->help, number->value);
}

static void put_lock_seconds(FILE *out, const char *metric, const char *file, uint64_t ns)
{
    fprintf(out, "mqkv_%s{file=\"%s\"} %.9f\n", metric, file, (double)ns / 1e9);
}

/* Where there are too many files to list, of all together. */
static void put_lock_metrics(const struct service *service, FILE *out)
{
    static const char *const waits = "file_lock_waits_total";
    static const char *const wait = "file_lock_longest_wait_seconds";
    static const char *const hold = "file_lock_longest_hold_seconds";
    struct kvstore_lock_facts locks[MAX_FILES_LISTED] = {0};
    uint32_t count = kvstore_datafiles(service->store);
    bool lists = count <= MAX_FILES_LISTED;
    for (uint32_t i = 0; i < count; i++) {
        struct kvstore_lock_facts facts, *to = &locks[lists ? i : 0];
        kvstore_lock_facts(service->store, i, &facts);
        to->waits += facts.waits;
        if (facts.longest_wait_ns > to->longest_wait_ns)
            to->longest_wait_ns = facts.longest_wait_ns;
        if (facts.longest_hold_ns > to->longest_hold_ns)
            to->longest_hold_ns = facts.longest_hold_ns;
    }
    char names[MAX_FILES_LISTED][16] = {"all"};
    uint32_t rows = lists ? count : 1;
    for (uint32_t i = 0; i < count && lists; i++)
        snprintf(names[i], sizeof names[i], "%" PRIu32, i);
    metrics_begin(out, waits, "Waits for a file's lock for which a thread slept.");
    for (uint32_t i = 0; i < rows; i++)
        metrics_put_labelled(out, waits, "file", names[i], locks[i].waits);
    metrics_begin(out, wait, "The longest of those waits.");
    for (uint32_t i = 0; i < rows; i++)
        put_lock_seconds(out, wait, names[i], locks[i].longest_wait_ns);
    metrics_begin(out, hold, "The longest time that a writer held the lock while others waited.");
    for (uint32_t i = 0; i < rows; i++)
        put_lock_seconds(out, hold, names[i], locks[i].longest_hold_ns);
}

/* False: out of memory. */
static bool put_file_metrics(const struct service *service, FILE *out)
{
    uint32_t count = engine_datafiles(service->engine);
    struct kvstore_file_statistics *files = calloc(count, sizeof *files);
    if (!files)
        return false;
    struct file_totals totals = {.full = 0};
    for (uint32_t i = 0; i < count; i++) {
        kvstore_file_statistics(service->store, i, &files[i]);
        file_totals_add(&totals, &files[i]);
    }
    for (const struct figure *figure = file_figures; figure->json || figure->metric; figure++)
        if (figure->metric)
            put_file_figure(out, figure, files, count, &totals);
    put_unsynced_seconds(out, files, count, &totals);
    figures_put_file_totals(&totals, (struct figures){.metrics = out});
    figures_put_disk(service, (struct figures){.metrics = out});
    put_lock_metrics(service, out);
    free(files);
    return true;
}

/* Users and quotas ----------------------------------------------------------------------------- */

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

static void put_quota_metrics(const struct service *service, const struct access_rules *rules,
                              FILE *out)
{
    for (const struct figure *figure = quota_figures; figure->metric && rules->quota_count > 0;
         figure++) {
        metrics_begin(out, figure->metric, figure->help);
        for (unsigned quota = 0; quota < rules->quota_count; quota++) {
            const struct access_rule *rule = access_quota_rule(rules, quota);
            struct quota_facts facts;
            if (rule && rule->quota != quota)
                continue; /* its section is told once */
            quota_facts_read(service, quota, rules->quotas[quota].max_bytes,
                             rules->quotas[quota].max_keys, &facts);
            put_quota_label(out, figure->metric, rules, quota);
            fprintf(out, "%" PRIu64 "\n", figure_value(figure, &facts));
        }
    }
}

static void put_user_figures(const struct access *access, FILE *out)
{
    const struct access_user *users = atomic_load(&access->users);
    for (const struct figure *figure = user_figures; figure->metric && users; figure++) {
        metrics_begin(out, figure->metric, figure->help);
        for (const struct access_user *user = users; user; user = user->next)
            fprintf(out, "mqkv_%s{uid=\"%lu\",reader=\"%d\"} %" PRIu64 "\n", figure->metric,
                    (unsigned long)user->uid, user->reads_only, figure_value(figure, user));
    }
}

/* Puts the metrics of restricted users and of quotas. */
static void put_user_metrics(const struct service *service, FILE *out)
{
    struct access *access = service->access;
    put_user_figures(access, out);
    pthread_mutex_lock(&access->lock);
    if (access->rules && service->store)
        put_quota_metrics(service, access->rules, out);
    pthread_mutex_unlock(&access->lock);
}

/* Sessions ------------------------------------------------------------------------------------- */

struct user_counts {
    unsigned users;
    struct {
        uid_t uid;
        uint64_t sessions;
    } each[MAX_USERS_LISTED];
    uint64_t others;
};

static bool count_session_of_user(void *context, struct session *session)
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

static void put_session_metrics(const struct service *service, FILE *out)
{
    struct session_counts counts;
    struct user_counts users = {0};
    char uid[16];
    session_counts(service->sessions, &counts);
    session_each(service->sessions, count_session_of_user, &users);
    metrics_begin(out, "sessions", "Sessions, one per client thread, by user.");
    for (unsigned i = 0; i < users.users; i++) {
        snprintf(uid, sizeof uid, "%u", (unsigned)users.each[i].uid);
        metrics_put_labelled(out, "sessions", "uid", uid, users.each[i].sessions);
    }
    if (users.others > 0)
        metrics_put_labelled(out, "sessions", "uid", "other", users.others);
    metrics_put_new(out, "sessions_max", "Sessions that there can be at once.",
                    session_table_capacity(service->sessions));
    figures_put_sessions(&counts, (struct figures){.metrics = out});
}

/* All of it ------------------------------------------------------------------------------------ */

enum kv_status metrics_text(const struct stats_source *source, char **text, size_t *size)
{
    struct worker_statistics *sum = statistics_create(1);
    FILE *out = sum ? open_memstream(text, size) : NULL;
    if (!out) {
        free(sum);
        return KV_NO_MEMORY;
    }
    struct figures to = {.metrics = out};
    stats_source_sum(source, sum);
    put_daemon_metrics(source, out);
    put_process_metrics(source, out);
    figures_put_operations(sum, to);
    put_stage_metrics(sum, out);
    put_work_metrics(sum, out);
    put_session_metrics(source->service, out);
    figures_put_cache(source->service, to);
    figures_put_bound(source->service, to);
    figures_put_order(source->service, to);
    if (source->service->access)
        put_user_metrics(source->service, out);
    const struct service *service = source->service;
    service->engine->calls->numbers(service->engine, put_engine_metric, out);
    if (service->mirror)
        mirror_numbers(service->mirror, put_mirror_metric, out);
    bool complete = !service->store || put_file_metrics(service, out);
    free(sum);
    if (fclose(out) == 0 && complete)
        return KV_OK;
    free(*text);
    return KV_NO_MEMORY;
}
