#include "kvstore/api/operations.h"

#include "common/time/clock.h"
#include "common/memory/reserved.h"
#include "common/report/log.h"
#include "kvstore/api/evict.h"
#include "kvstore/cache/cache.h"
#include "kvstore/maintenance/compaction_queue.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/found_record.h"

/* Between two lines in the log about writes that find no room. */
#define NO_SPACE_LOG_INTERVAL_MS 60000u

/* One write makes so many entries go at most; the next goes on. */
#define EVICT_MOST 16384u

/* Can what was found, or that nothing was, be relied on? KV_OK, KV_CORRUPT, KV_IO. Holds: the
 * file's lock. */
static enum kv_status verify_write(struct write *write)
{
    if (write->lookup.found)
        return found_record_verify(&write->store->context, write->file, READ_BUFFER_LOOKUP,
                                   &write->lookup);
    enum kv_status status =
        found_record_explain_absence(&write->store->context, write->file, &write->lookup);
    return status == KV_NOT_FOUND ? KV_OK : status;
}

enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write)
{
    if (!key_is_valid(key))
        return KV_BAD_KEY;
    struct key_place place = key_place(&store->context, key);
    write->store = store;
    write->file = place.file;
    lockset_write_lock(store->context.locks, place.file->number);
    if (datafile_is_read_only(place.file))
        return write_end(write, KV_READ_ONLY);
    generation_find(place.file->current, keyhash_index(place.hash), key, &write->lookup);
    if (!blind || write->lookup.error != 0) {
        enum kv_status status = verify_write(write);
        if (status != KV_OK)
            return write_end(write, status);
    }
    write->live = write->lookup.found && record_is_live(&write->lookup.record);
    write->record = (struct record){.kind = RECORD_PUT, .key = key};
    return KV_OK;
}

enum kv_status write_end(struct write *write, enum kv_status status)
{
    const struct store_context *context = &write->store->context;
    lockset_write_unlock(context->locks, write->file->number);
    logfile_end(context->options.io);
    if (write->file->bound && bound_is_exceeded(write->file->bound))
        evict(write->store, write->file->number, EVICT_MOST);
    return status;
}

/* For the operator; writers get the status each time. */
static void log_no_space(struct kvstore *store, const struct datafile *file)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t logged_ms = atomic_load(&store->no_space_logged_ms);
    if ((logged_ms != 0 && now_ms - logged_ms < NO_SPACE_LOG_INTERVAL_MS) ||
        !atomic_compare_exchange_strong(&store->no_space_logged_ms, &logged_ms, now_ms))
        return;
    log_error(
        "%s/%s: no space left for the data: the disk, a quota or the file is full; writes are "
        "refused until there is, reads continue (logged once a minute)",
        store->context.dir, file_name(file->number, FILE_LOG).text);
}

/* What others have to know of a record that was appended. */
static void tell_others(const struct write *write)
{
    struct kvstore *store = write->store;
    struct datafile *file = write->file;
    if (store->cache)
        cache_remove(store->cache, file->number, write->lookup.hash, write->record.key);
    const struct kvstore_options *options = &store->context.options;
    if (!file->sync_timer_armed) {
        file->sync_timer_armed = true;
        sync_note_written(store->sync, file->number);
        if (context_durability(&store->context) != KVSTORE_SYNC_NONE)
            sync_within_interval(store->sync, file->number);
    }
    if (write->record.expiry_ms != 0)
        sweeper_note_expiry(store->sweeper);
    compaction_queue_consider(store->compactions, file, options, options->compact_min_bytes);
}

enum kv_status write_append(struct write *write, struct kv_slice value_tail,
                            struct kvstore_written *written)
{
    struct kvstore *store = write->store;
    uint64_t max_bytes = context_max_value_bytes(&store->context);
    if (value_tail.size > max_bytes || write->record.value.size > max_bytes - value_tail.size)
        return KV_VALUE_TOO_BIG;
    enum kv_status status = datafile_append(&store->context, write->file, &write->lookup,
                                            &write->record, value_tail, written);
    if (status == KV_OK) {
        tell_others(write);
    } else if (status == KV_NO_SPACE) {
        compaction_queue_want_room(store->compactions);
        log_no_space(store, write->file);
    }
    return status;
}

enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options)
{
    if (!RESERVED_IS_CLEAR(options->reserved))
        return KV_UNSUPPORTED; /* of a newer header */
    if (options->give_version > KVSTORE_MAX_GIVEN_VERSION)
        return KV_USAGE;
    switch (options->condition) {
    case KVSTORE_ALWAYS:
        return KV_OK;
    case KVSTORE_IF_ABSENT:
        return write->live ? KV_EXISTS : KV_OK;
    case KVSTORE_IF_PRESENT:
        return write->live ? KV_OK : KV_NOT_FOUND;
    case KVSTORE_IF_VERSION:
        if (!write->live)
            return KV_NOT_FOUND;
        return write->lookup.record.version == options->version ? KV_OK : KV_VERSION_MISMATCH;
    }
    return KV_BAD_REQUEST;
}

uint64_t write_expiry(const struct write *write, const struct kvstore_put_options *options)
{
    if (options->keep_expiry && write->live)
        return write->lookup.record.expiry_ms;
    return options->expiry_ms;
}

enum kv_status kvstore_put(struct kvstore *store, struct kv_slice key, struct kv_slice value,
                           const struct kvstore_put_options *options,
                           struct kvstore_written *written)
{
    static const struct kvstore_put_options no_options;
    if (!options)
        options = &no_options;
    struct write write;
    bool blind = options->condition == KVSTORE_ALWAYS && !options->keep_expiry;
    enum kv_status status = write_begin(store, key, blind, &write);
    if (status != KV_OK)
        return status;
    status = write_check(&write, options);
    if (status == KV_OK) {
        write.record.value = value;
        write.record.version = options->give_version;
        write.record.expiry_ms = write_expiry(&write, options);
        status = write_append(&write, kv_slice(NULL, 0), written);
    }
    return write_end(&write, status);
}

enum kv_status kvstore_delete(struct kvstore *store, struct kv_slice key, uint64_t if_version,
                              struct kvstore_written *written)
{
    struct write write;
    bool blind = if_version == 0;
    enum kv_status status = write_begin(store, key, blind, &write);
    if (status != KV_OK)
        return status;
    enum kv_status found = write.live ? KV_OK : blind ? verify_write(&write) : KV_NOT_FOUND;
    if (!write.live && found != KV_CORRUPT) { /* a damaged entry is removed */
        status = found == KV_OK ? KV_NOT_FOUND : found;
    } else if (if_version != 0 && write.lookup.record.version != if_version) {
        status = KV_VERSION_MISMATCH;
    } else {
        write.record.kind = RECORD_DELETE;
        status = write_append(&write, kv_slice(NULL, 0), written);
    }
    return write_end(&write, status);
}
