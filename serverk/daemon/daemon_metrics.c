#include "serverk/daemon/daemon_metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mqueue.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "serverk/daemon/metrics_writer.h"
#include "serverk/daemon/reload.h"
#include "serverk/session/audit.h"
#include "serverk/session/session_hold.h"

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

/* How many entries the directory has, which several threads read. */
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

/* Where the index and the memory of clients are. */
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

void daemon_metrics_put(const struct stats_source *source, FILE *out)
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
