#include "kvstore/table/placing.h"

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/logtail.h"

bool placing_is_possible(const struct datafile *file)
{
    return file->placings_barred == 0 &&
           file->current->log.identity.format_version == FILE_FORMAT_NEWEST;
}

/* Returns the position behind what was appended now. */
static uint64_t count_appended(struct datafile *file, uint64_t bytes)
{
    uint64_t appended = atomic_load_explicit(&file->appended_bytes, memory_order_relaxed) + bytes;
    atomic_store_explicit(&file->appended_bytes, appended, memory_order_release);
    return appended;
}

static void note_extent_taken(struct placing *placing, struct generation *generation,
                              struct extent extent, bool is_reused)
{
    placing->extents[placing->extent_count++] =
        (struct placing_extent){generation, extent, is_reused, KV_OK};
    generation->placings++;
}

static bool is_base(const void *context, uint64_t offset)
{
    const struct datafile *file = context;
    for (const struct placing *placing = file->placings; placing; placing = placing->next)
        if (placing->base_at == offset)
            return true;
    return false;
}

/* Takes an extent of the current generation that had another content before. A compaction copies
 * contents without the lock, so that none changes meanwhile. */
static bool take_free_extent(const struct datafile *file, const struct placing_terms *terms,
                             struct placing *placing)
{
    struct generation *current = file->current;
    struct extent extent;
    const struct free_extent_terms free_extent_terms = {
        .durable_position = terms->durable_position, .context = file, .is_read = is_base};
    if (!terms->reuses || file->copying ||
        !generation_take_free(current, &placing->record, &free_extent_terms, &extent))
        return false;
    note_extent_taken(placing, current, extent, true);
    return true;
}

/* Takes a new extent in `generation`, which is the file's current one or its next. */
static enum kv_status take_extent(struct datafile *file, struct generation *generation,
                                  struct placing *placing)
{
    struct extent extent;
    enum kv_status status = generation_append_extent(generation, &placing->record, &extent);
    if (status != KV_OK)
        return status;
    note_extent_taken(placing, generation, extent, false);
    if (generation == file->current)
        (void)count_appended(file, RECORD_EXTENT_HEAD_BYTES + extent.size_bytes);
    return KV_OK;
}

static const struct extent *extent_in(const struct placing *placing,
                                      const struct generation *generation)
{
    for (uint32_t i = 0; i < placing->extent_count; i++)
        if (placing->extents[i].generation == generation)
            return &placing->extents[i].extent;
    return NULL;
}

enum kv_status placing_begin(struct datafile *file, const struct lookup *lookup,
                             const struct record *record, const struct placing_terms *terms,
                             struct placing *placing)
{
    struct generation *current = file->current;
    KV_ASSERT(placing_is_possible(file) && current->transacting == 0);
    *placing = (struct placing){.record = *record, .value = record->value, .hash = lookup->hash};
    enum kv_status status = KV_OK;
    if (bound_is_told(&file->share))
        status = bound_check(&file->share, lookup, record, kv_slice(NULL, 0), false);
    if (status == KV_OK && !take_free_extent(file, terms, placing))
        status = take_extent(file, current, placing);
    if (status == KV_NO_SPACE)
        file->full = true;
    if (status != KV_OK)
        return status;
    placing->next = file->placings;
    file->placings = placing;
    (void)placing_follow(file, placing);
    return KV_OK;
}

/* The next generation takes no part any more if it has missed something. */
static struct generation *sound_next(const struct datafile *file)
{
    return file->next && file->next_status == KV_OK ? file->next : NULL;
}

/* What came of the value's extent in `generation`, which is taken if there is none. */
static enum kv_status place_in(struct datafile *file, struct generation *generation,
                               struct placing *placing)
{
    for (uint32_t i = 0; i < placing->extent_count; i++)
        if (placing->extents[i].generation == generation)
            return placing->extents[i].status;
    return placing->extent_count < PLACING_MOST_EXTENTS ? take_extent(file, generation, placing)
                                                        : KV_BUSY;
}

bool placing_follow(struct datafile *file, struct placing *placing)
{
    struct generation *wanted[] = {file->current, sound_next(file)};
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted && !placing->is_lost; i++) {
        enum kv_status status = wanted[i] ? place_in(file, wanted[i], placing) : KV_OK;
        if (status == KV_OK)
            continue;
        if (wanted[i] == file->current || status == KV_BUSY)
            placing->is_lost = true; /* what comes next says why, if that stays */
        else
            file->next_status = status;
    }
    return !placing->is_lost && placing->filled < placing->extent_count;
}

/* Copies the value from the first extent, since the caller's bytes may have changed meanwhile. */
static enum kv_status copy_content(const struct placing *placing, uint32_t to)
{
    const struct logfile *from = &placing->extents[0].generation->log;
    struct record content;
    uint64_t size_bytes;
    logfile_begin(from, READ_BUFFER_MIRROR);
    if (logfile_load(from, READ_BUFFER_MIRROR, placing->extents[0].extent.offset, &content,
                     &size_bytes) != RECORD_VALID ||
        logfile_is_broken(from) || size_bytes != placing->extents[to].extent.size_bytes)
        return KV_IO;
    return logtail_fill_extent(&placing->extents[to].generation->log,
                               placing->extents[to].extent.offset, &content, kv_slice(NULL, 0));
}

static enum kv_status copy_value(const struct placing *placing)
{
    const struct placing_extent *first = &placing->extents[0];
    const struct logfile *log = &first->generation->log;
    struct record content = placing->record;
    KV_ASSERT(content.value.size == placing->value.size + placing->tail.size);
    content.value = placing->value;
    return first->is_reused
               ? logtail_refill_extent(log, first->extent.offset, &content, placing->tail)
               : logtail_fill_extent(log, first->extent.offset, &content, placing->tail);
}

enum kv_status placing_fill(struct placing *placing)
{
    const struct placing_extent *first = &placing->extents[0];
    for (; placing->filled < placing->extent_count && first->status == KV_OK; placing->filled++) {
        struct placing_extent *to = &placing->extents[placing->filled];
        to->status =
            placing->filled == 0 ? copy_value(placing) : copy_content(placing, placing->filled);
    }
    return first->status;
}

/* Has the value count in the next generation, too. */
static enum kv_status publish_next(struct datafile *file, struct placing *placing)
{
    struct lookup lookup;
    struct record record = placing->record;
    if (!file->next_keeps_parts)
        record_detach(&record);
    generation_find(file->next, placing->hash, record.key, &lookup);
    if (lookup.error != 0)
        return KV_IO;
    return generation_append_pointer(file->next, &lookup, &record, extent_in(placing, file->next));
}

/* Returns the position behind it. */
static uint64_t confirm_placed(struct datafile *file, struct placing *placing,
                               const struct lookup *replaced, uint64_t size_bytes)
{
    datafile_forget_replaced(file, replaced);
    if (sound_next(file))
        file->next_status = publish_next(file, placing);
    uint64_t position = count_appended(file, size_bytes);
    datafile_free_replaced(file, replaced, position);
    return position;
}

void placing_confirm(struct datafile *file, struct placing *placing, const struct lookup *replaced,
                     uint64_t size_bytes)
{
    if (file->current->transacting != 0)
        file->undecided_bytes -= size_bytes;
    (void)confirm_placed(file, placing, replaced, size_bytes);
}

const struct extent *placing_extent(const struct datafile *file, const struct placing *placing)
{
    return extent_in(placing, file->current);
}

enum kv_status placing_publish(struct datafile *file, struct lookup *lookup,
                               struct placing *placing, struct kvstore_written *written)
{
    struct generation *current = file->current;
    const struct extent *extent = extent_in(placing, current);
    uint64_t tail = current->log.tail;
    KV_ASSERT(extent && !placing->is_lost && placing->filled == placing->extent_count);
    KV_ASSERT(!file->read_only && current->words->tail == tail);
    struct record *record = &placing->record;
    record->version = datafile_next_version(current, lookup, record->version);
    const struct bound_change change = {record->key,
                                        lookup->hash,
                                        lookup->found,
                                        true,
                                        lookup->found ? lookup->size_bytes : 0,
                                        extent->size_bytes};
    bool is_told = bound_is_told(&file->share);
    enum kv_status status = is_told ? bound_check(&file->share, lookup, record, kv_slice(NULL, 0),
                                                  current->transacting != 0)
                                    : KV_OK;
    const struct lookup replaced = *lookup;
    if (status == KV_OK)
        status = generation_append_pointer(current, lookup, record, extent);
    if (status == KV_NO_SPACE)
        file->full = true;
    if (status != KV_OK)
        return status;
    file->full = false;
    uint64_t size_bytes = current->log.tail - tail;
    uint64_t appended = atomic_load_explicit(&file->appended_bytes, memory_order_relaxed);
    if (current->transacting == 0)
        appended = confirm_placed(file, placing, &replaced, size_bytes);
    else
        appended += file->undecided_bytes += size_bytes;
    if (file->ordering)
        datafile_follow_order(file, &replaced, record);
    if (is_told)
        bound_count_change(&file->share, current->words->live_bytes, &change);
    if (written)
        *written = (struct kvstore_written){.version = record->version,
                                            .ticket = {file->number, appended},
                                            .record_bytes = extent->size_bytes};
    return KV_OK;
}

void placing_end(struct datafile *file, struct placing *placing)
{
    struct placing **at = &file->placings;
    while (*at != placing)
        at = &(*at)->next;
    *at = placing->next;
    for (uint32_t i = 0; i < placing->extent_count; i++) {
        KV_ASSERT(placing->extents[i].generation->placings > 0);
        placing->extents[i].generation->placings--;
    }
}

uint64_t placing_settled_end(const struct datafile *file, const struct generation *generation)
{
    uint64_t end = generation->log.tail;
    for (const struct placing *placing = file->placings; placing; placing = placing->next)
        for (uint32_t i = 0; i < placing->extent_count; i++)
            if (placing->extents[i].generation == generation && !placing->extents[i].is_reused)
                end = at_most(end, placing->extents[i].extent.offset - RECORD_EXTENT_HEAD_BYTES);
    return end;
}

void placing_wait(const struct store_context *context, const struct datafile *file,
                  const struct generation *generation)
{
    for (;;) {
        lockset_read_lock(context->locks, file->number);
        bool any = generation->placings > 0;
        lockset_read_unlock(context->locks, file->number);
        if (!any)
            return;
        clock_sleep_ms(1);
    }
}
