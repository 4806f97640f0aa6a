#include "serverk/daemon/figures.h"

#include <sys/statvfs.h>

#include "serverk/daemon/metrics_writer.h"
#include "serverk/daemon/store_opening.h"

/* Renderers ------------------------------------------------------------------------------------ */

static void figure_put(struct figures to, const char *json, const char *metric, const char *help,
                       uint64_t value)
{
    if (to.json && json)
        json_put_number(to.json, json, value);
    else if (to.metrics && metric)
        metrics_put_new(to.metrics, metric, help, value);
}

/* Puts one of the figures of a metric with labels. help: that of the metric, with the first of
 * them; NULL with the others. */
static void figure_put_labelled(struct figures to, const char *json, const char *metric,
                                const char *help, const char *label, const char *is, uint64_t value)
{
    if (to.json)
        json_put_number(to.json, json, value);
    if (to.metrics && help)
        metrics_begin(to.metrics, metric, help);
    if (to.metrics)
        metrics_put_labelled(to.metrics, metric, label, is, value);
}

/* JSON has what follows, up to figures_close, in an object of its own. */
static void figures_open(struct figures to, const char *json)
{
    if (!to.json)
        return;
    json_begin_member(to.json, json);
    json_open_object(to.json);
}

static void figures_close(struct figures to)
{
    if (to.json)
        json_close_object(to.json);
}

/* Of each file, user and quota ----------------------------------------------------------------- */

#define FILE_FIELD(field) offsetof(struct kvstore_file_statistics, field)
const struct figure file_figures[] = {
    {"keys", "file_keys", "Keys.", FILE_FIELD(keys)},
    {"expiring_keys", "file_expiring_keys", "Keys with an expiry.", FILE_FIELD(expiring_keys)},
    {"live_bytes", "file_live_bytes", "Bytes of records that a get would find.",
     FILE_FIELD(live_bytes)},
    {"dead_bytes", "file_dead_bytes", "Bytes of replaced, deleted and expired records.",
     FILE_FIELD(dead_bytes)},
    {"spare_bytes", "file_spare_bytes",
     "Bytes of those that are places of large values, which other values may get.",
     FILE_FIELD(spare_bytes)},
    {"file_bytes", "file_bytes", "Bytes of disk.", FILE_FIELD(file_bytes)},
    {"index_bytes", "file_index_bytes", "Memory of the index.", FILE_FIELD(index_bytes)},
    {"appended_bytes", "file_appended_bytes_total", "Bytes appended.", FILE_FIELD(appended_bytes)},
    {"synced_bytes", "file_synced_bytes_total", "Bytes of those known to be on disk.",
     FILE_FIELD(synced_bytes)},
    {"syncs", "file_syncs_total", "Syncs.", FILE_FIELD(syncs)},
    {"sync_failures", "file_sync_failures_total", "Syncs that failed.", FILE_FIELD(sync_failures)},
    {"compactions", "file_compactions_total", "Compactions.", FILE_FIELD(compactions)},
    {"compaction_failures", "file_compaction_failures_total", "Compactions that failed.",
     FILE_FIELD(compaction_failures)},
    {NULL, "file_damaged_records",
     "Damaged records that were met, up to 8, until they are replaced or left out.",
     FILE_FIELD(damaged_records)},
    {"expired", "file_expired_keys_total", "Keys taken out by expiry.", FILE_FIELD(expired)},
    {"read_retries", NULL, NULL, FILE_FIELD(read_retries)},
    {"read_fallbacks", NULL, NULL, FILE_FIELD(read_fallbacks)},
    {"recovered_bytes_cut", NULL, NULL, FILE_FIELD(recovered_bytes_cut)},
    {"damaged_records", NULL, NULL, FILE_FIELD(damaged_records)}, /* JSON has it at the end */
    {0},
};

#define USER_FIELD(field) offsetof(struct access_user, field)
const struct figure user_figures[] = {
    {"operations", "user_operations_total", "Operations of restricted users.",
     USER_FIELD(operations)},
    {"denied", "user_denied_total", "Operations that they may not do.", USER_FIELD(denied)},
    {"over_quota", "user_over_quota_total", "Operations beyond those that a second may have.",
     USER_FIELD(over_quota)},
    {0},
};

#define QUOTA_FIELD(field) offsetof(struct quota_facts, field)
const struct figure quota_figures[] = {
    {"bytes", "quota_bytes", "Bytes of live records that count to a quota.", QUOTA_FIELD(bytes)},
    {"max_bytes", "quota_max_bytes", "Bytes that it allows; 0: any number.",
     QUOTA_FIELD(max_bytes)},
    {"keys", "quota_keys", "Keys that count to a quota.", QUOTA_FIELD(keys)},
    {"max_keys", "quota_max_keys", "Keys that it allows; 0: any number.", QUOTA_FIELD(max_keys)},
    {"refusals", "quota_refused_total", "Writes refused by a quota.", QUOTA_FIELD(refusals)},
    {0},
};

/* The figures of users change meanwhile. */
uint64_t figure_value(const struct figure *figure, const void *of)
{
    const uint64_t *number = (const void *)((const char *)of + figure->offset);
    return __atomic_load_n(number, __ATOMIC_RELAXED);
}

void figures_put_members(struct json *json, const struct figure *table, const void *of)
{
    for (const struct figure *figure = table; figure->json || figure->metric; figure++)
        if (figure->json)
            json_put_number(json, figure->json, figure_value(figure, of));
}

void quota_facts_read(const struct service *service, unsigned quota, uint64_t max_bytes,
                      uint64_t max_keys, struct quota_facts *facts)
{
    struct kvstore_quota_usage usage;
    kvstore_quota_usage(service->store, quota, &usage);
    *facts = (struct quota_facts){usage.bytes, max_bytes, usage.keys, max_keys, usage.refusals};
}

void file_totals_add(struct file_totals *totals, const struct kvstore_file_statistics *file)
{
    for (const struct figure *figure = file_figures; figure->json || figure->metric; figure++)
        if (figure->json) /* each field once */
            *(uint64_t *)(void *)((char *)&totals->sums + figure->offset) +=
                figure_value(figure, file);
    totals->unsynced_bytes += file->appended_bytes - file->synced_bytes;
    if (file->unsynced_ms > totals->oldest_unsynced_ms)
        totals->oldest_unsynced_ms = file->unsynced_ms;
    totals->read_only += file->read_only;
    totals->full += file->full;
    totals->compaction_failing += file->compaction_failing;
    totals->stale += file->stale_ms > 0;
    totals->nameless += file->nameless;
}

/* Of the daemon -------------------------------------------------------------------------------- */

void figures_put_workers(const struct service *service, struct figures to)
{
    uint64_t set_aside = service->aside ? aside_waiting(service->aside) : 0;
    figure_put(to, "workers", "workers", "Worker threads.", service->options->workers);
    if (service->parking) {
        struct parking_counts counts = parking_counts(service->parking);
        figure_put(to, "workers_awake", "workers_awake", "Worker threads that are not parked.",
                   counts.active + counts.away);
        figure_put(to, "workers_away", "workers_away",
                   "Worker threads that have not come back for 2 ms or more.", counts.away);
        figure_put(to, "set_aside", NULL, NULL, set_aside);
        figure_put(to, "all_away_ms", NULL, NULL, counts.all_away_ms);
    }
    if (service->aside)
        figure_put(to, NULL, "messages_set_aside", "Messages that wait since all workers are away.",
                   set_aside);
}

void figures_put_waiting_replies(const struct service *service, struct figures to)
{
    figure_put(to, "replies_waiting_for_sync", "replies_waiting_for_sync",
               "Replies to writes that are not on disk yet.",
               service->commit ? commit_waiting(service->commit) : 0);
}

/* JSON leaves out errors that did not occur. */
static void put_errors(const struct worker_statistics *sum, struct figures to)
{
    figures_open(to, "errors");
    for (unsigned status = KV_OK + 1; status < KV_STATUS_COUNT; status++) {
        const char *name = kv_status_name((enum kv_status)status);
        const char *help = status == KV_OK + 1 ? "Operations that did not end with ok." : NULL;
        if (to.metrics || sum->statuses[status] > 0)
            figure_put_labelled(to, name, "errors_total", help, "status", name,
                                sum->statuses[status]);
    }
    figures_close(to);
}

void figures_put_operations(const struct worker_statistics *sum, struct figures to)
{
    uint64_t total = 0;
    for (unsigned opcode = 1; opcode < STATISTICS_OPCODES; opcode++)
        total += sum->operations[opcode];
    figure_put(to, "messages", "messages_total", "Messages received.", sum->messages);
    figure_put(to, "total", NULL, NULL, total);
    for (unsigned opcode = 1; opcode < STATISTICS_OPCODES; opcode++) {
        const char *name = statistics_operation_name(opcode);
        figure_put_labelled(to, name, "operations_total",
                            opcode == 1 ? "Operations executed." : NULL, "operation", name,
                            sum->operations[opcode]);
    }
    if (to.metrics)
        put_errors(sum, to);
    figure_put_labelled(to, "hits", "reads_total", "Reads of one key, by whether it was there.",
                        "result", "hit", sum->hits);
    figure_put_labelled(to, "misses", "reads_total", NULL, "result", "miss", sum->misses);
    figure_put(to, "direct_reads", "direct_reads_total",
               "Those of them that clients made in place, and have told of.", sum->direct_reads);
    figure_put(to, "bytes_in", "received_bytes_total", "Bytes of requests.", sum->bytes_in);
    figure_put(to, "bytes_out", "sent_bytes_total", "Bytes of replies.", sum->bytes_out);
    figure_put(to, "sleeps", NULL, NULL, sum->sleeps);
    if (to.json)
        put_errors(sum, to);
    figures_open(to, "dropped");
    for (unsigned reason = 0; reason < DROPPED_REASONS; reason++) {
        const char *name = dropped_reason_name((enum dropped_reason)reason);
        figure_put_labelled(to, name, "dropped_messages_total",
                            reason == 0 ? "Messages dropped unanswered." : NULL, "reason", name,
                            sum->dropped[reason]);
    }
    figures_close(to);
}

void figures_put_sessions(const struct session_counts *counts, struct figures to)
{
    figure_put(to, "live", NULL, NULL, counts->live);
    figure_put(to, "opened", "sessions_opened_total", "Sessions opened.", counts->opened);
    figures_open(to, "ended");
    for (unsigned reason = 0; reason < SESSION_END_REASONS; reason++) {
        const char *name = session_end_reason_name((enum session_end_reason)reason);
        figure_put_labelled(to, name, "sessions_ended_total",
                            reason == 0 ? "Sessions ended, by how." : NULL, "reason", name,
                            counts->ended[reason]);
    }
    figures_close(to);
}

/* Of the store --------------------------------------------------------------------------------- */

void figures_put_file_totals(const struct file_totals *totals, struct figures to)
{
    figure_put(to, "unsynced_ms", NULL, NULL, totals->oldest_unsynced_ms);
    figure_put(to, NULL, "unsynced_bytes", "Bytes appended and not known to be on disk.",
               totals->unsynced_bytes);
    figure_put(to, "read_only_files", "read_only_files",
               "Data files that take no writes after a failure.", totals->read_only);
    figure_put(to, "full_files", "full_files", "Data files whose last put found no space.",
               totals->full);
    figure_put(to, "compaction_failing_files", NULL, NULL, totals->compaction_failing);
    figure_put(to, "stale_files", "stale_files",
               "Data files that a write keeps, as on a disk that does not answer: numbers are "
               "older.",
               totals->stale);
    figure_put(to, "nameless_files", "nameless_files",
               "Data files that somebody removed: they are lost when the daemon stops.",
               totals->nameless);
}

/* The service has a store. */
void figures_put_disk(const struct service *service, struct figures to)
{
    struct statvfs disk;
    figure_put(to, "directory_displaced", "directory_displaced",
               "1 if the data directory was moved or removed.",
               !kvstore_is_in_place(service->store));
    if (statvfs(service->options->dir, &disk) != 0)
        return;
    figure_put(to, "disk_free_bytes", "disk_free_bytes",
               "Free on the file system of the data directory.",
               (uint64_t)disk.f_bavail * disk.f_frsize);
    figure_put(to, "disk_bytes", "disk_bytes", "Size of the file system of the data directory.",
               (uint64_t)disk.f_blocks * disk.f_frsize);
}

/* The metrics tell of a cache, and of a bound, where there is one. */
void figures_put_cache(const struct service *service, struct figures to)
{
    struct kvstore_cache_statistics cache = {0};
    if (service->store)
        kvstore_cache_statistics(service->store, &cache);
    if (cache.max_bytes == 0)
        to.metrics = NULL;
    figure_put(to, "max_bytes", "cache_max_bytes", "Memory that the cache may use.",
               cache.max_bytes);
    figure_put(to, "used_bytes", "cache_bytes", "Memory that the cache uses.", cache.used_bytes);
    figure_put(to, "entries", "cache_entries", "Values in the cache.", cache.entries);
    figure_put(to, "hits", "cache_hits_total", "Gets that found their key in the cache.",
               cache.hits);
    figure_put(to, "misses", "cache_misses_total", "Gets that did not.", cache.misses);
    figure_put(to, "evictions", "cache_evictions_total", "Entries taken out to make room.",
               cache.evictions);
    if (to.json)
        json_put_text(to.json, "allocator",
                      kvstore_allocator_name(store_opening(service->options).allocator));
    figure_put(to, "segment_bytes", NULL, NULL, cache.segment_bytes);
    figure_put(to, "segment_free_bytes", NULL, NULL, cache.segment_free_bytes);
}

void figures_put_bound(const struct service *service, struct figures to)
{
    struct kvstore_bound_statistics bound = {0};
    if (service->store)
        kvstore_bound_statistics(service->store, &bound);
    if (bound.max_bytes == 0)
        to.metrics = NULL;
    figure_put(to, "max_bytes", "bound_max_bytes",
               "Bytes that live records may have (--max-bytes).", bound.max_bytes);
    figure_put(to, "fitting_bytes", NULL, NULL, bound.fitting_bytes);
    figure_put(to, "live_bytes", "bound_bytes", "Bytes that they have.", bound.live_bytes);
    if (to.json)
        json_put_text(to.json, "evict", kvstore_evict_name(bound.evict));
    figure_put(to, "evictions", "evictions_total", "Entries that made room for others.",
               bound.evictions);
    figure_put(to, "evicted_bytes", "evicted_bytes_total", "Bytes of those.", bound.evicted_bytes);
    figure_put(to, "refusals", "refused_full_total", "Writes refused at the bound.",
               bound.refusals);
    figure_put(to, "policy_bytes", "policy_bytes", "Memory of the eviction policy.",
               bound.memory_bytes);
}

/* The metrics tell of an order where there is one. */
void figures_put_order(const struct service *service, struct figures to)
{
    struct kvstore_order_facts order = {0};
    if (service->store)
        kvstore_order_facts(service->store, &order);
    if (!order.ordered)
        to.metrics = NULL;
    if (to.json) {
        json_put_flag(to.json, "ordered", order.ordered);
        json_put_flag(to.json, "whole", order.whole);
    }
    figure_put(to, NULL, "order_whole",
               "Whether ranges can be read; 0: the order of the keys is being built.", order.whole);
    figure_put(to, "keys", "order_keys",
               "Keys that are in order; while that is being built, of all that there are.",
               order.keys);
    figure_put(to, "bytes", "order_bytes", "Memory of the order.", order.bytes);
    figure_put(to, "depth", "order_depth", "Levels of its highest tree.", order.depth);
    figure_put(to, "leaves", "order_leaves", "Leaves of its trees.", order.leaves);
    figure_put(to, "room", "order_room", "Keys for which the leaves have room.", order.room);
}
