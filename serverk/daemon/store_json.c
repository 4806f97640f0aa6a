#include "serverk/daemon/store_json.h"
#include "serverk/daemon/store_opening.h"

#include <stddef.h>
#include <string.h>
#include <sys/statvfs.h>

/* Files that are listed one by one; above, the sums must do. */
#define MAX_FILES_LISTED 256u

/* The numbers of a data file, which add up over files. */
#define FILE_FIELD(name)                                      \
    {                                                         \
#name, offsetof(struct kvstore_file_statistics, name) \
    }
static const struct {
    const char *name;
    size_t offset;
} file_fields[] = {
    FILE_FIELD(keys),
    FILE_FIELD(expiring_keys),
    FILE_FIELD(live_bytes),
    FILE_FIELD(dead_bytes),
    FILE_FIELD(file_bytes),
    FILE_FIELD(index_bytes),
    FILE_FIELD(appended_bytes),
    FILE_FIELD(synced_bytes),
    FILE_FIELD(syncs),
    FILE_FIELD(sync_failures),
    FILE_FIELD(compactions),
    FILE_FIELD(compaction_failures),
    FILE_FIELD(expired),
    FILE_FIELD(read_retries),
    FILE_FIELD(read_fallbacks),
    FILE_FIELD(recovered_bytes_cut),
    FILE_FIELD(damaged_records),
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

void put_files(const struct stats_source *source, struct json *json)
{
    const struct service *service = source->service;
    uint64_t numbers[FILE_FIELD_COUNT], sums[FILE_FIELD_COUNT] = {0};
    uint64_t read_only = 0, full = 0, failing = 0, stale = 0, oldest_ms = 0;
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
        failing += file.compaction_failing;
        oldest_ms = file.unsynced_ms > oldest_ms ? file.unsynced_ms : oldest_ms;
        stale += file.stale_ms > 0;
        if (i >= MAX_FILES_LISTED)
            continue;
        begin_element(json);
        open_object(json);
        put_number(json, "file", i);
        put_file(json, numbers);
        put_number(json, "unsynced_ms", file.unsynced_ms);
        put_number(json, "stale_ms", file.stale_ms);
        put_flag(json, "from_checkpoint", file.from_checkpoint);
        put_flag(json, "taken_over", file.taken_over);
        put_flag(json, "read_only", file.read_only);
        put_flag(json, "full", file.full);
        put_flag(json, "compaction_failing", file.compaction_failing);
        put_number(json, "damaged_at", file.damaged_at);
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
    put_number(json, "compaction_failing_files", failing);
    put_number(json, "stale_files", stale);
    close_object(json);
}

void put_cache(const struct stats_source *source, struct json *json)
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
    put_text(json, "allocator", kvstore_allocator_name(store_opening(service->options).allocator));
    put_number(json, "segment_bytes", cache.segment_bytes);
    put_number(json, "segment_free_bytes", cache.segment_free_bytes);
}

void put_bound(const struct stats_source *source, struct json *json)
{
    struct kvstore_bound_statistics bound = {0};
    if (source->service->store)
        kvstore_bound_statistics(source->service->store, &bound);
    put_number(json, "max_bytes", bound.max_bytes);
    put_number(json, "fitting_bytes", bound.fitting_bytes);
    put_number(json, "live_bytes", bound.live_bytes);
    put_text(json, "evict", kvstore_evict_name(bound.evict));
    put_number(json, "evictions", bound.evictions);
    put_number(json, "evicted_bytes", bound.evicted_bytes);
    put_number(json, "refusals", bound.refusals);
    put_number(json, "policy_bytes", bound.memory_bytes);
}
