#include "kvstore/api/evict.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "kvstore/api/write_append.h"
#include "kvstore/core/thread.h"
#include "kvstore/eviction/s3fifo.h"
#include "kvstore/format/sizes.h"
#include "kvstore/maintenance/compaction_queue.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/table/bound.h"
#include "kvstore/table/disk_fit.h"
#include "kvstore/table/found_record.h"

/* Entries that are evicted under one lock of a file, at most. */
#define HOLD_ENTRIES 64u

/* With TTL: how many entries with an expiry are looked at, at most, for each that is evicted, and
 * in how many segments of the index. */
#define TTL_LOOKS    16u
#define TTL_SEGMENTS 4u

/* How long writers are refused without a try after no room could be made. */
#define ROOM_RETRY_NS UINT64_C(1000000000)

const char *kvstore_evict_name(enum kvstore_evict evict)
{
    static const char *const names[KVSTORE_EVICTS] = {[KVSTORE_EVICT_NONE] = "none",
                                                      [KVSTORE_EVICT_TTL] = "ttl",
                                                      [KVSTORE_EVICT_S3FIFO] = "s3fifo"};
    return (unsigned)evict < KVSTORE_EVICTS ? names[evict] : NULL;
}

/* Parses the record at lookup->offset; not into the buffer of lookups, since the key is used after
 * its deletion was appended. Holds: the file's lock. */
static bool parse_for_eviction(const struct datafile *file, struct lookup *lookup)
{
    const struct logfile *log = &file->current->log;
    return logfile_parse(log, READ_BUFFER_VISIT, lookup->offset, &lookup->record,
                         &lookup->size_bytes) == RECORD_VALID;
}

/* Finds the first entry with `hash`. Holds: the file's lock. */
static bool find_by_hash(const struct datafile *file, uint32_t hash, struct lookup *lookup)
{
    *lookup = (struct lookup){.hash = hash};
    logfile_begin(&file->current->log, READ_BUFFER_VISIT);
    index_probe_start(&lookup->probe, file->current->index, hash);
    lookup->found =
        index_probe_next(&lookup->probe, &lookup->offset) && parse_for_eviction(file, lookup);
    return lookup->found;
}

/* Finds the entry of `item`. Holds: the file's lock. */
static bool find_by_item(const struct datafile *file, const struct index_item *item,
                         struct lookup *lookup)
{
    *lookup = (struct lookup){.hash = item->hash};
    logfile_begin(&file->current->log, READ_BUFFER_VISIT);
    index_probe_start(&lookup->probe, file->current->index, item->hash);
    while (index_probe_next(&lookup->probe, &lookup->offset))
        if (lookup->offset == item->offset_bytes)
            return lookup->found = parse_for_eviction(file, lookup);
    return false;
}

/* Looks at the items of a segment from a random one on. *best is set to the one that expires first,
 * if one expires before *best_ms. */
static void look_for_expiry(const struct datafile *file, const struct index_item *items,
                            size_t count, unsigned *looks, uint64_t *best_ms,
                            struct index_item *best)
{
    struct record record;
    uint64_t size_bytes;
    size_t first = count > 0 ? random_secret() % count : 0;
    for (size_t i = 0; i < count && *looks < TTL_LOOKS; i++) {
        const struct index_item *item = &items[(first + i) % count];
        logfile_begin(&file->current->log, READ_BUFFER_VISIT);
        if (logfile_parse(&file->current->log, READ_BUFFER_VISIT, item->offset_bytes, &record,
                          &size_bytes) != RECORD_VALID ||
            record.expiry_ms == 0)
            continue;
        (*looks)++;
        if (record.expiry_ms < *best_ms) {
            *best_ms = record.expiry_ms;
            *best = *item;
        }
    }
}

/* Finds an entry that expires soon. Holds: the file's lock. */
static bool find_expiring(const struct datafile *file, struct lookup *lookup)
{
    const struct index *index = file->current->index;
    struct index_item items[INDEX_SEGMENT_SLOTS], best = {0};
    uint64_t best_ms = UINT64_MAX;
    uint64_t hash = random_secret() >> 32;
    unsigned looks = 0;
    if (file->current->words->expiring_keys == 0)
        return false;
    for (unsigned i = 0, wraps = 0; i < TTL_SEGMENTS && looks < TTL_LOOKS && wraps < 2; i++) {
        hash = index_next_expiring(index, hash, SEGMENT_NO_EXPIRY - 1);
        if (hash >= INDEX_HASH_END) {
            hash = 0;
            wraps++;
            continue;
        }
        size_t count = index_collect(index, hash, items, INDEX_SEGMENT_SLOTS, &hash);
        look_for_expiry(file, items, count, &looks, &best_ms, &best);
    }
    return best_ms != UINT64_MAX && find_by_item(file, &best, lookup);
}

/* Finds the entry to evict next. False: there is none. Holds: the file's lock for writing. */
static bool find_next_to_evict(const struct datafile *file, struct lookup *lookup)
{
    uint32_t hash;
    if (!file->share.policy)
        return file->share.bound->evict == KVSTORE_EVICT_TTL && find_expiring(file, lookup);
    while (s3fifo_next(file->share.policy, file->current->words->live_bytes, &hash))
        if (find_by_hash(file, hash, lookup))
            return true;
    return false;
}

/* Deletes the entry that was found. False: that is not possible. Holds: the file's lock for
 * writing. */
static bool evict_found(struct write *write)
{
    struct datafile *file = write->file;
    KV_ASSERT(lockset_is_write_held(write->store->context.locks, file->number));
    KV_ASSERT(write->lookup.found);
    uint64_t size_bytes = write->lookup.size_bytes;
    uint32_t hash = write->lookup.hash;
    bool sound = found_record_verify(&write->store->context, file, READ_BUFFER_VISIT,
                                     &write->lookup) == KV_OK;
    if (!sound) /* reads tell of the damage */
        return file->share.policy != NULL;
    write->record = (struct record){.kind = RECORD_DELETE, .key = write->lookup.record.key};
    enum kv_status status = write_append(write, kv_slice(NULL, 0), NULL);
    /* If the disk has no block for the record, the compaction that follows leaves the entry out. */
    if (status == KV_NO_SPACE && !file->copying &&
        sweep_out(write->store->cache, file, &write->lookup)) {
        past_logs_tell(write->store->past, file); /* a follower learns that it misses a change */
        status = KV_OK;
    }
    if (file->share.policy) {
        if (status == KV_OK)
            s3fifo_was_evicted(file->share.policy, hash);
        else
            s3fifo_spare(file->share.policy, hash);
    }
    if (status != KV_OK)
        return false;
    atomic_fetch_add_explicit(&file->share.bound->evictions, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&file->share.bound->evicted_bytes, size_bytes, memory_order_relaxed);
    return true;
}

/* Evicts entries of `file` under one lock: up to `most` and, unless `always`, no more than the
 * bound asks for. Returns how many. */
static uint64_t evict_some(struct kvstore *store, struct datafile *file, uint64_t most, bool always)
{
    struct write write = {.store = store, .file = file};
    uint64_t gone = 0;
    lockset_write_lock(store->context.locks, file->number);
    while (gone < most && gone < HOLD_ENTRIES && (always || bound_is_exceeded(file->share.bound)) &&
           !datafile_is_read_only(file) && find_next_to_evict(file, &write.lookup) &&
           evict_found(&write))
        gone++;
    lockset_write_unlock(store->context.locks, file->number);
    logfile_end(store->context.options.io);
    return gone;
}

void evict_entries(struct kvstore *store, uint32_t number, uint64_t most)
{
    const struct store_context *context = &store->context;
    if (store->bound.evict == KVSTORE_EVICT_NONE)
        return;
    for (uint32_t i = 0; i < context->datafiles && bound_is_exceeded(&store->bound); i++) {
        struct datafile *file = &context->files[(number + i) % context->datafiles];
        uint64_t gone = 1;
        while (most > 0 && gone > 0 && bound_is_exceeded(&store->bound)) {
            gone = evict_some(store, file, most, false);
            most -= gone;
        }
    }
}

/* The bytes of the file's live records. */
static uint64_t live_bytes(struct kvstore *store, uint32_t number)
{
    lockset_read_lock(store->context.locks, number);
    uint64_t bytes = store->context.files[number].current->words->live_bytes;
    lockset_read_unlock(store->context.locks, number);
    return bytes;
}

/* Evicts as large a part of each file as of the others, then what is still too much. */
static void evict_all(struct kvstore *store)
{
    uint64_t before = atomic_load(&store->bound.evictions);
    double share = (double)atomic_load(&store->bound.max_bytes) /
                   (double)at_least(atomic_load(&store->bound.live_bytes), 1);
    if (store->bound.evict == KVSTORE_EVICT_NONE || share >= 1)
        return;
    for (uint32_t number = 0; number < store->context.datafiles; number++) {
        uint64_t target_bytes = (uint64_t)(share * (double)live_bytes(store, number));
        while (live_bytes(store, number) > target_bytes &&
               evict_some(store, &store->context.files[number], HOLD_ENTRIES / 8, false) > 0)
            ;
    }
    evict_entries(store, 0, UINT64_MAX);
    log_info("%s: %" PRIu64 " entries have made room for the rest (max_bytes %" PRIu64 ")",
             store->context.dir, atomic_load(&store->bound.evictions) - before,
             atomic_load(&store->bound.max_bytes));
}

/* Room ----------------------------------------------------------------------------------------- */

/* Bytes that are free on the disk; UINT64_MAX: not known. */
static uint64_t disk_free_bytes(const struct kvstore *store)
{
    struct statvfs disk;
    if (fstatvfs(store->context.dir_fd, &disk) != 0)
        return UINT64_MAX;
    return at_most((uint64_t)disk.f_bavail, UINT64_MAX / at_least(disk.f_frsize, 1)) *
           disk.f_frsize;
}

/* compaction_gain; 0 also if the disk has no room for the copy. */
static uint64_t gain_of(struct kvstore *store, uint32_t number)
{
    uint64_t copy_bytes;
    uint64_t gain_bytes = compaction_gain(&store->context, number, &copy_bytes);
    bool fits = FILE_HEADER_BYTES + round_up(copy_bytes, PAGE_BYTES) <= disk_free_bytes(store);
    return fits ? gain_bytes : 0;
}

/* The file whose compaction gives back most; D: there is none. */
static uint32_t find_gain(struct kvstore *store)
{
    uint32_t best = store->context.datafiles;
    uint64_t most_bytes = 0;
    for (uint32_t number = 0; number < store->context.datafiles; number++) {
        uint64_t bytes = gain_of(store, number);
        if (bytes <= most_bytes)
            continue;
        most_bytes = bytes;
        best = number;
    }
    return best;
}

/* Evicts entries of the file until its compaction has a gain, and room. False: it has none, however
 * many go. */
static bool evict_until_gain(struct kvstore *store, uint32_t number)
{
    while (gain_of(store, number) == 0)
        if (evict_some(store, &store->context.files[number], HOLD_ENTRIES, true) == 0)
            return false;
    return true;
}

/* Holds: room_lock. */
static bool compact_for_room(struct kvstore *store, uint32_t number)
{
    KV_ASSERT(mutex_is_held(&store->room_lock));
    KV_ASSERT(!lockset_is_held(store->context.locks, number));
    const struct store_context *context = &store->context;
    if (compaction_queue_await(store->compactions))
        return true;
    disk_fit_bound(&store->bound, context);
    evict_entries(store, number, UINT64_MAX);
    uint32_t best = find_gain(store);
    for (uint32_t i = 0; i < context->datafiles && best == context->datafiles; i++)
        if (evict_until_gain(store, (number + i) % context->datafiles))
            best = (number + i) % context->datafiles;
    return best < context->datafiles &&
           compaction_queue_call(store->compactions, best, NULL) == KV_OK;
}

bool evict_for_room(struct kvstore *store, uint32_t number)
{
    uint64_t made_before = atomic_load(&store->rooms_made);
    pthread_mutex_lock(&store->room_lock);
    bool made = atomic_load(&store->rooms_made) != made_before; /* by another thread */
    if (!made && clock_monotonic_ns() >= store->room_not_before_ns) {
        made = compact_for_room(store, number);
        if (made)
            atomic_fetch_add(&store->rooms_made, 1);
        else
            store->room_not_before_ns = clock_monotonic_ns() + ROOM_RETRY_NS;
    }
    pthread_mutex_unlock(&store->room_lock);
    return made;
}

/* Brings the bound in line with the disk, and says so if it is more than fits. */
static void fit_bound(struct kvstore *store)
{
    const struct store_context *context = &store->context;
    uint64_t asked_bytes = atomic_load(&store->bound.asked_bytes);
    uint64_t fitting_bytes = disk_fit_bytes(context->dir_fd, context->datafiles);
    atomic_store(&store->bound.max_bytes, asked_bytes);
    disk_fit_bound(&store->bound, context);
    if (asked_bytes <= fitting_bytes)
        return;
    log_warn("%s: max_bytes %" PRIu64 " is more than the file system has room for: %" PRIu64
             " bytes of live records, with the dead ones between two compactions and the copy that "
             "a compaction makes; %s",
             context->dir, asked_bytes, fitting_bytes,
             store->bound.evict == KVSTORE_EVICT_NONE
                 ? "writes may be refused for want of space before they reach it"
                 : "entries are evicted to stay below that");
}

/* Beginning ------------------------------------------------------------------------------------ */

/* Gives one data file its share in the bound. The sweeper and the compactor are at work already. */
static enum kv_status begin_share(void *argument, uint32_t number, struct kv_error *error)
{
    struct kvstore *store = argument;
    struct lockset *locks = store->context.locks;
    struct datafile *file = &store->context.files[number];
    lockset_write_lock(locks, number);
    enum kv_status status = bound_begin(&store->bound, &file->share, file->current);
    lockset_write_unlock(locks, number);
    if (status == KV_OK)
        return KV_OK;
    return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for the order of eviction",
                        store->context.dir);
}

enum kv_status evict_begin(struct kvstore *store, struct kv_error *error)
{
    const struct kvstore_options *options = &store->context.options;
    if (options->max_bytes == 0)
        return KV_OK;
    store->bound.evict = options->evict;
    atomic_store(&store->bound.asked_bytes, options->max_bytes);
    fit_bound(store);
    enum kv_status status =
        thread_run_parallel(store->context.datafiles, begin_share, store, error);
    if (status == KV_OK)
        evict_all(store);
    return status;
}

enum kv_status kvstore_set_max_bytes(struct kvstore *store, uint64_t max_bytes,
                                     struct kv_error *error)
{
    if (store->context.options.max_bytes == 0)
        return kv_error_set(error, KV_USAGE, "%s: the store was opened without max_bytes",
                            store->context.dir);
    if (max_bytes < KVSTORE_MIN_BOUND_BYTES)
        return kv_error_set(error, KV_USAGE, "max_bytes %" PRIu64 ": the least is %" PRIu64,
                            max_bytes, KVSTORE_MIN_BOUND_BYTES);
    atomic_store(&store->bound.asked_bytes, max_bytes);
    fit_bound(store);
    evict_all(store);
    return KV_OK;
}

uint64_t kvstore_fitting_bytes(const char *dir, uint32_t datafiles)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return UINT64_MAX;
    uint64_t bytes = disk_fit_bytes(dir_fd, datafiles ? datafiles : KVSTORE_DEFAULT_DATAFILES);
    close(dir_fd);
    return bytes;
}
