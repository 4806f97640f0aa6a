#include "kvstore/api/write_append.h"

#include "common/report/log.h"
#include "common/time/clock.h"
#include "kvstore/cache/cache.h"
#include "kvstore/maintenance/compaction_queue.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/sync/sync.h"

/* Time between two lines in the log about writes that find no room. */
#define NO_SPACE_LOG_INTERVAL_MS 60000u

void write_tell_no_space(struct kvstore *store, uint32_t number)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t logged_ms = atomic_load(&store->no_space_logged_ms);
    if ((logged_ms != 0 && now_ms - logged_ms < NO_SPACE_LOG_INTERVAL_MS) ||
        !atomic_compare_exchange_strong(&store->no_space_logged_ms, &logged_ms, now_ms))
        return;
    log_error(
        "%s/%s: no space left for the data: the disk, a quota or the file is full; writes are "
        "refused until there is, reads continue (logged once a minute)",
        store->context.dir, file_name(number, FILE_LOG).text);
}

/* Inline: it is on the way of every write. */
__attribute__((always_inline)) static inline void
announce(struct kvstore *store, struct datafile *file, const struct record *record)
{
    sync_after_append(store->sync, &store->context, file);
    if (record->expiry_ms != 0)
        sweeper_note_expiry(store->sweeper);
    past_logs_tell(store->past, file);
    const struct kvstore_options *options = &store->context.options;
    compaction_queue_consider(store->compactions, file, options, options->compact_min_bytes);
    if (__builtin_expect(file->current->is_short, 0)) {
        file->current->is_short = false;
        compaction_queue_want_room(store->compactions);
    }
}

void write_announce(struct kvstore *store, struct datafile *file, const struct record *record)
{
    announce(store, file, record);
}

enum kv_status write_append(struct write *write, struct kv_slice value_tail,
                            struct kvstore_written *written)
{
    struct kvstore *store = write->store;
    struct datafile *file = write->file;
    uint64_t max_bytes = context_max_value_bytes(&store->context);
    if (value_tail.size > max_bytes || write->record.value.size > max_bytes - value_tail.size)
        return KV_VALUE_TOO_BIG;
    /* The cache comes first: a reader that has seen the new value in the index must not be given
     * the old one from the cache. */
    if (store->cache)
        cache_remove(store->cache, file->number, write->lookup.hash, write->record.key);
    enum kv_status status =
        datafile_append(&store->context, file, &write->lookup, &write->record, value_tail, written);
    if (status == KV_NO_SPACE) {
        if (generation_may_grow(file->current, &write->lookup, &write->record, value_tail))
            past_logs_want_room(store->past);
        compaction_queue_want_room(store->compactions);
        if (store->bound.evict == KVSTORE_EVICT_NONE) /* else see write_may_repeat */
            write_tell_no_space(store, file->number);
    }
    if (status == KV_OK && file->current->transacting == 0)
        announce(store, file, &write->record);
    return status;
}
