#include "kvstore/table/generation.h"

#include <errno.h>
#include <stdlib.h>

#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/format/sizes.h"

enum kv_status generation_create(struct logfile log, struct shared_generation *words,
                                 struct generation **generation)
{
    KV_ASSERT(log.tail >= FILE_HEADER_BYTES && log.tail <= log.allocated_bytes);
    KV_ASSERT(log.allocated_bytes <= LOGFILE_MAX_BYTES);
    struct generation *created = calloc(1, sizeof *created);
    if (!created) {
        logfile_close(&log);
        return KV_NO_MEMORY;
    }
    created->log = log;
    created->words = words;
    created->fixed_end = LOGFILE_MAX_BYTES; /* until generation_fix */
    *generation = created;
    return KV_OK;
}

enum kv_status generation_begin_index(struct generation *generation, struct arena *arena)
{
    struct shared_generation *words = generation->words;
    *words = (struct shared_generation){.tail = generation->log.tail,
                                        .max_version = generation->log.progress.version_floor,
                                        .salt = generation->log.identity.salt};
    generation->index = index_create(arena, words);
    return generation->index ? KV_OK : KV_NO_MEMORY;
}

void generation_free(struct generation *generation)
{
    if (!generation)
        return;
    index_free(generation->index);
    free_extents_forget(&generation->free_extents);
    logfile_close(&generation->log);
    free(generation);
}

void generation_find(const struct generation *generation, uint32_t hash, struct kv_slice key,
                     struct lookup *lookup)
{
    const struct logfile *log = &generation->log;
    struct index_probe damaged_probe;
    uint64_t damaged_offset = 0;
    bool damaged = false;
    lookup->hash = hash;
    lookup->found = lookup->damaged = false;
    lookup->error = 0;
    logfile_begin(log, READ_BUFFER_LOOKUP);
    index_probe_start(&lookup->probe, generation->index, hash);
    while (index_probe_next(&lookup->probe, &lookup->offset)) {
        enum record_verdict verdict = logfile_parse(log, READ_BUFFER_LOOKUP, lookup->offset,
                                                    &lookup->record, &lookup->size_bytes);
        lookup->found = verdict == RECORD_VALID && kv_slice_equal(lookup->record.key, key);
        if (lookup->found)
            return;
        /* Another key of the same 32 bits is so rare that verifying the record costs nothing;
         * mostly it is the key itself, damaged, and must not be taken for absent. */
        if (verdict != RECORD_UNREADABLE)
            verdict = logfile_read(log, READ_BUFFER_LOOKUP, lookup->offset, &lookup->record,
                                   &lookup->size_bytes);
        if (verdict == RECORD_UNREADABLE) {
            lookup->error = errno;
            return;
        }
        if (verdict != RECORD_VALID) { /* else it is the record of another key */
            damaged_probe = lookup->probe;
            damaged_offset = lookup->offset;
            damaged = true;
        }
    }
    if (damaged) {
        lookup->damaged = true;
        lookup->probe = damaged_probe;
        lookup->offset = damaged_offset;
    }
}

static uint64_t delete_size(const struct record *record)
{
    return record_size(record->key.size, 0, false);
}

void generation_count(struct generation *generation, const struct record *record,
                      uint64_t size_bytes)
{
    generation->words->live_bytes += size_bytes;
    generation->words->reserve_bytes += delete_size(record);
    generation->words->expiring_keys += record->expiry_ms != 0;
}

/* Subtracts `part`, but not below zero: the sum may be that of a forged checkpoint, or the record
 * damaged. */
static void subtract_from_sum(uint64_t *sum, uint64_t part)
{
    *sum -= at_most(part, *sum);
}

void generation_discount(struct generation *generation, const struct record *record,
                         uint64_t size_bytes)
{
    subtract_from_sum(&generation->words->live_bytes, size_bytes);
    subtract_from_sum(&generation->words->reserve_bytes, delete_size(record));
    subtract_from_sum(&generation->words->expiring_keys, record->expiry_ms != 0);
}

/* A copy needs no more than there is. */
static uint64_t bytes_to_give(const struct generation *generation)
{
    return generation->leaves_room ? LOGTAIL_GIVEN_BYTES : 0;
}

/* Bytes that are needed after the tail: for the record, and so that every key can be deleted, a new
 * one among them. */
static uint64_t space_for(const struct generation *generation, const struct lookup *lookup,
                          const struct record *record, uint64_t size_bytes)
{
    if (record->kind == RECORD_DELETE && record->transaction == 0)
        return size_bytes;
    if (record->kind == RECORD_DELETE) /* with its part it is larger than what is kept for it */
        return size_bytes + generation->words->reserve_bytes -
               at_most(lookup->found ? delete_size(record) : 0, generation->words->reserve_bytes);
    uint64_t later = generation->words->reserve_bytes + (lookup->found ? 0 : delete_size(record));
    return size_bytes + later + bytes_to_give(generation);
}

/* How much of the disk a write that needs `bytes` of room leaves free. A compaction copies what is
 * live, and then what is written meanwhile: as much as the log grows by, a quarter of the copy at
 * least. */
static uint64_t bytes_to_leave(const struct generation *generation, uint64_t copy_bytes,
                               uint64_t bytes)
{
    const struct copy_reserve *reserve = generation->reserve;
    if (!atomic_load(&reserve->in_use))
        return LOGTAIL_SPARE_BYTES + copy_bytes / 4 + copy_bytes;
    uint64_t grown_bytes = atomic_load(&reserve->grown_bytes);
    if (generation->copied_from != 0)
        grown_bytes += logtail_growth_bytes(&generation->log, bytes);
    return LOGTAIL_SPARE_BYTES + at_least(grown_bytes, copy_bytes / 4);
}

static enum kv_status ensure_room_beside_copy(struct generation *generation, uint64_t bytes)
{
    struct logfile *log = &generation->log;
    uint64_t copy_bytes =
        at_least(generation_copy_bytes(generation), atomic_load(&generation->reserve->copy_bytes));
    uint64_t leave_bytes = bytes_to_leave(generation, copy_bytes, bytes);
    if (logtail_ensure_room_for_data(log, bytes, leave_bytes + copy_bytes / 2) == KV_OK)
        return KV_OK;
    generation->is_short = true;
    return logtail_ensure_room_for_data(log, bytes, leave_bytes);
}

void generation_note_copying(struct generation *generation, bool begins)
{
    const struct logfile *log = &generation->log;
    generation->copied_from = begins ? log->tail : 0;
    if (generation->reserve)
        atomic_store(&generation->reserve->grown_bytes,
                     begins ? log->allocated_bytes - log->tail : 0);
}

/* Makes the log grow by `bytes`. */
__attribute__((noinline)) static enum kv_status
grow_log(struct generation *generation, const struct record *record, uint64_t bytes)
{
    struct logfile *log = &generation->log;
    if (record->kind == RECORD_DELETE)
        return logtail_ensure_room(log, bytes);
    if (!generation->reserve) {
        uint64_t copy_bytes = generation->leaves_room ? at_most(generation_copy_bytes(generation),
                                                                logtail_most_to_leave(log))
                                                      : 0;
        return logtail_ensure_room_for_data(log, bytes, LOGTAIL_SPARE_BYTES + copy_bytes);
    }
    enum kv_status status = ensure_room_beside_copy(generation, bytes);
    if (generation->copied_from != 0)
        atomic_store(&generation->reserve->grown_bytes,
                     log->allocated_bytes - generation->copied_from);
    return status;
}

bool generation_may_grow(const struct generation *generation, const struct lookup *lookup,
                         const struct record *record, struct kv_slice value_tail)
{
    uint64_t size_bytes = record_bytes_in_log(record, record->value.size + value_tail.size);
    return space_for(generation, lookup, record, size_bytes) <=
           generation->log.map_bytes - generation->log.tail;
}

static bool lookup_has_slot(const struct lookup *lookup)
{
    return lookup->found || lookup->damaged;
}

/* Brings index and sums up to date with a record in the log; a slot for a new key was reserved. */
static void index_enter(struct generation *generation, struct lookup *lookup,
                        const struct record *record, uint64_t offset, uint64_t size_bytes)
{
    KV_ASSERT(offset >= FILE_HEADER_BYTES && offset + size_bytes <= generation->log.tail);
    KV_ASSERT(offset % RECORD_ALIGNMENT == 0 && size_bytes % RECORD_ALIGNMENT == 0);
    if (record->version > generation->words->max_version)
        generation->words->max_version = record->version;
    if (lookup->found) /* the size of a damaged record is not known: it stays in the sums */
        generation_discount(generation, &lookup->record, lookup->size_bytes);
    if (record->kind == RECORD_DELETE) {
        if (lookup_has_slot(lookup))
            index_probe_remove(&lookup->probe);
        return;
    }
    if (lookup_has_slot(lookup))
        index_probe_replace(&lookup->probe, offset);
    else
        index_insert(generation->index, lookup->hash, offset);
    generation_count(generation, record, size_bytes);
    if (record->expiry_ms != 0)
        index_note_expiry(generation->index, lookup->hash, record->expiry_ms);
}

static enum kv_status no_slot(const struct generation *generation, uint32_t hash)
{
    return index_is_crowded(generation->index, hash) ? KV_CROWDED : KV_NO_MEMORY;
}

/* A slot in the index for a record that brings a new key: KV_OK, KV_CROWDED, KV_NO_MEMORY. */
static enum kv_status reserve_slot(struct generation *generation, const struct lookup *lookup,
                                   const struct record *record)
{
    if (lookup_has_slot(lookup) || record->kind == RECORD_DELETE ||
        index_reserve(generation->index, lookup->hash))
        return KV_OK;
    return no_slot(generation, lookup->hash);
}

enum kv_status generation_append(struct generation *generation, struct lookup *lookup,
                                 const struct record *record, struct kv_slice value_tail)
{
    struct logfile *log = &generation->log;
    uint64_t size_bytes = record_bytes_in_log(record, record->value.size + value_tail.size);
    uint64_t needed_bytes = space_for(generation, lookup, record, size_bytes);
    enum kv_status status = KV_OK;
    if (needed_bytes > log->allocated_bytes - log->tail)
        status = grow_log(generation, record, needed_bytes);
    if (status != KV_OK)
        return status;
    generation_begin_change(generation);
    uint64_t offset = log->tail;
    status = reserve_slot(generation, lookup, record);
    if (status == KV_OK)
        status = logtail_append(log, record, value_tail);
    if (status == KV_OK) {
        KV_ASSERT(log->tail == offset + size_bytes);
        __atomic_store_n(&generation->words->tail, log->tail, __ATOMIC_RELEASE);
        generation->last = offset;
        index_enter(generation, lookup, record, offset, size_bytes);
    }
    generation_end_change(generation);
    return status;
}

static enum kv_status ensure_room_for(struct generation *generation, const struct record *record,
                                      uint64_t bytes)
{
    const struct logfile *log = &generation->log;
    return bytes > log->allocated_bytes - log->tail ? grow_log(generation, record, bytes) : KV_OK;
}

enum kv_status generation_append_extent(struct generation *generation, const struct record *record,
                                        struct extent *extent)
{
    struct logfile *log = &generation->log;
    struct record content = *record;
    content.in_extent = true;
    uint64_t size_bytes = record_bytes_in_log(&content, content.value.size);
    uint64_t version = generation->words->max_version + 1;
    uint64_t placed_bytes = record_size(record->key.size, sizeof(uint64_t), record->expiry_ms != 0);
    enum kv_status status = logtail_erase_remains(log);
    if (status == KV_OK)
        status = ensure_room_for(generation, record,
                                 RECORD_EXTENT_HEAD_BYTES + size_bytes + placed_bytes +
                                     generation->words->reserve_bytes + delete_size(record) +
                                     bytes_to_give(generation));
    if (status != KV_OK)
        return status;
    generation_begin_change(generation);
    uint64_t offset = log->tail;
    status = logtail_append_extent(log, version, size_bytes);
    if (status == KV_OK) {
        __atomic_store_n(&generation->words->tail, log->tail, __ATOMIC_RELEASE);
        generation->last = offset;
        generation->extents_end = log->tail;
        generation->words->max_version = version;
        *extent = (struct extent){offset + RECORD_EXTENT_HEAD_BYTES, size_bytes};
    }
    generation_end_change(generation);
    return status;
}

bool generation_take_free(struct generation *generation, const struct record *record,
                          const struct free_extent_terms *terms, struct extent *extent)
{
    struct logfile *log = &generation->log;
    struct record content = *record;
    uint64_t offset;
    content.in_extent = true;
    uint64_t size_bytes = record_bytes_in_log(&content, content.value.size);
    if (!free_extents_take(&generation->free_extents, size_bytes, terms, &offset))
        return false;
    KV_ASSERT(offset >= generation->fixed_end && offset + size_bytes <= log->tail);
    /* From here on nobody who looks at the record takes it for what it was. */
    if (logtail_empty_extent(log, offset) != KV_OK)
        return false;
    *extent = (struct extent){offset, size_bytes};
    return true;
}

void generation_note_replaced(struct generation *generation, const struct lookup *replaced,
                              uint64_t position)
{
    const struct logfile *log = &generation->log;
    if (!replaced->found || !replaced->record.in_extent || replaced->offset < generation->fixed_end)
        return;
    uint64_t end = logfile_extent_end(log, READ_BUFFER_MIRROR, replaced->offset, log->tail);
    if (end <= replaced->offset)
        return;
    const struct free_extent spare = {
        .offset = replaced->offset, .capacity_bytes = end - replaced->offset, .position = position};
    free_extents_add(&generation->free_extents, &spare,
                     replaced->record.version <= generation->promised_version);
}

void generation_fix(struct generation *generation)
{
    generation->fixed_end = generation->log.tail;
    free_extents_forget(&generation->free_extents);
}

enum kv_status generation_append_pointer(struct generation *generation, struct lookup *lookup,
                                         const struct record *record, const struct extent *extent)
{
    struct logfile *log = &generation->log;
    struct record placed;
    uint8_t place[sizeof(uint64_t)];
    struct record content = *record;
    content.in_extent = true;
    record_place(&content, extent->offset, place, &placed);
    uint64_t size_bytes = record_bytes_in_log(&placed, placed.value.size);
    enum kv_status status =
        ensure_room_for(generation, record, space_for(generation, lookup, record, size_bytes));
    if (status != KV_OK)
        return status;
    generation_begin_change(generation);
    uint64_t offset = log->tail;
    status = reserve_slot(generation, lookup, record);
    if (status == KV_OK)
        status = logtail_number_extent(log, extent->offset, &content);
    if (status == KV_OK)
        status = logtail_append(log, &placed, kv_slice(NULL, 0));
    if (status == KV_OK) {
        __atomic_store_n(&generation->words->tail, log->tail, __ATOMIC_RELEASE);
        generation->last = offset;
        generation->extents_end = log->tail;
        index_enter(generation, lookup, record, extent->offset, extent->size_bytes);
    }
    generation_end_change(generation);
    return status;
}

enum kv_status generation_adopt(struct generation *generation, struct lookup *lookup,
                                const struct record *record, uint64_t offset, uint64_t size_bytes)
{
    enum kv_status status = reserve_slot(generation, lookup, record);
    if (status == KV_OK)
        index_enter(generation, lookup, record, offset, size_bytes);
    return status;
}

enum kv_status generation_append_damaged(struct generation *generation, const uint8_t *bytes,
                                         uint64_t size_bytes)
{
    struct shared_generation *words = generation->words;
    enum kv_status status =
        logtail_ensure_room(&generation->log, size_bytes + words->reserve_bytes);
    if (status != KV_OK)
        return status;
    generation_begin_change(generation);
    status = logtail_append_damaged(&generation->log, bytes, size_bytes);
    if (status == KV_OK) {
        __atomic_store_n(&words->tail, generation->log.tail, __ATOMIC_RELEASE);
        words->live_bytes += size_bytes;
        generation->last = 0; /* what is before the tail is no record */
    }
    generation_end_change(generation);
    return status;
}

enum kv_status generation_adopt_damaged(struct generation *generation, uint32_t hash,
                                        uint64_t offset)
{
    if (!index_reserve(generation->index, hash))
        return no_slot(generation, hash);
    struct shared_generation *words = generation->words;
    uint64_t reserve_bytes =
        words->reserve_bytes + record_size(KVSTORE_MAX_KEY_BYTES, 0, false); /* its key, at most */
    enum kv_status status =
        logtail_ensure_room(&generation->log, at_most(reserve_bytes, words->live_bytes));
    if (status != KV_OK)
        return status;
    generation_begin_change(generation);
    index_insert(generation->index, hash, offset);
    words->reserve_bytes = at_most(reserve_bytes, words->live_bytes);
    generation_end_change(generation);
    return KV_OK;
}

void generation_forget(struct generation *generation, struct lookup *lookup)
{
    KV_ASSERT(lookup->found);
    generation_begin_change(generation);
    generation_discount(generation, &lookup->record, lookup->size_bytes);
    index_probe_remove(&lookup->probe);
    generation_end_change(generation);
    lookup->found = false;
}

void generation_bound_expiry(struct generation *generation, uint32_t hash, uint64_t bound_ms)
{
    generation_begin_change(generation);
    index_set_expiry_bound(generation->index, hash, bound_ms);
    generation_end_change(generation);
}

/* Words --------------------------------------------------------------------------------------- */

/* Since the factors are odd, another value of one word alone always gives another sum. */
uint64_t generation_check_of(const struct shared_generation *words, uint64_t chapter,
                             uint64_t index_sum)
{
    return index_sum + chapter + words->directory * UINT64_C(0x9e3779b97f4a7c15) +
           words->tail * UINT64_C(0xc2b2ae3d27d4eb4f) + words->keys * UINT64_C(0x165667b19e3779f9) +
           words->segments * UINT64_C(0x85ebca77c2b2ae63) +
           words->live_bytes * UINT64_C(0x27d4eb2f165667c5) +
           words->expiring_keys * UINT64_C(0xd6e8feb86659fd93) +
           words->reserve_bytes * UINT64_C(0xa0761d6478bd642f) +
           words->max_version * UINT64_C(0xe7037ed1a0b428db);
}

void generation_end_change(struct generation *generation)
{
    struct shared_generation *words = generation->words;
    words->check =
        generation_check_of(words, generation->log.chapter, index_sum(generation->index));
    __atomic_store_n(&words->writing, generation->transacting, __ATOMIC_RELEASE);
}

void generation_begin_transaction(struct generation *generation)
{
    KV_ASSERT(generation->transacting == 0);
    generation->transacting = 1;
    __atomic_store_n(&generation->words->writing, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void generation_end_transaction(struct generation *generation)
{
    KV_ASSERT(generation->transacting == 1);
    generation->transacting = 0;
    __atomic_store_n(&generation->words->writing, 0, __ATOMIC_RELEASE);
}

/* Has the index point at what it pointed at before. Its slot is there: the append has used it, or
 * freed it. */
static void undo_entry(struct generation *generation, const struct record *record,
                       const struct appended *appended)
{
    const struct lookup *replaced = &appended->replaced;
    struct index_probe probe;
    uint64_t offset;
    if (record->kind == RECORD_DELETE) {
        if (lookup_has_slot(replaced) && index_reserve(generation->index, replaced->hash))
            index_insert(generation->index, replaced->hash, replaced->offset);
    } else {
        generation_discount(generation, record, appended->entry_bytes);
        index_probe_start(&probe, generation->index, replaced->hash);
        while (index_probe_next(&probe, &offset) && offset != appended->entry_offset)
            ;
        if (lookup_has_slot(replaced))
            index_probe_replace(&probe, replaced->offset);
        else
            index_probe_remove(&probe);
    }
    if (!replaced->found)
        return;
    generation_count(generation, &replaced->record, replaced->size_bytes);
    if (replaced->record.expiry_ms != 0)
        index_note_expiry(generation->index, replaced->hash, replaced->record.expiry_ms);
}

void generation_undo(struct generation *generation, const struct record *record,
                     const struct appended *appended)
{
    KV_ASSERT(generation->transacting == 1);
    KV_ASSERT(generation->log.tail == appended->offset + appended->size_bytes);
    generation_begin_change(generation);
    undo_entry(generation, record, appended);
    logtail_take_back(&generation->log, appended->offset);
    __atomic_store_n(&generation->words->tail, generation->log.tail, __ATOMIC_RELEASE);
    generation->last = appended->last;
    generation_end_change(generation);
}

void generation_update_words(struct generation *generation)
{
    __atomic_store_n(&generation->words->tail, generation->log.tail, __ATOMIC_RELEASE);
    generation_end_change(generation);
}

int generation_sync(struct generation *generation)
{
    uint64_t *flags = &generation->words->flags;
    __atomic_fetch_or(flags, SHARED_GENERATION_SYNCING, __ATOMIC_SEQ_CST);
    if (logfile_sync(&generation->log) != 0)
        return -1;
    __atomic_fetch_and(flags, ~(uint64_t)SHARED_GENERATION_SYNCING, __ATOMIC_SEQ_CST);
    return 0;
}
