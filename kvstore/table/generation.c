#include "kvstore/table/generation.h"

#include <errno.h>
#include <stdlib.h>

#include "kvstore/log/logtail.h"
#include "kvstore/format/sizes.h"

enum kv_status generation_create(struct logfile log, struct generation **generation)
{
    struct generation *created = calloc(1, sizeof *created);
    struct index *index = index_create();
    if (!created || !index) {
        free(created);
        index_free(index);
        logfile_close(&log);
        return KV_NO_MEMORY;
    }
    created->log = log;
    created->index = index;
    created->max_version = log.progress.version_floor;
    *generation = created;
    return KV_OK;
}

void generation_free(struct generation *generation)
{
    if (!generation)
        return;
    index_free(generation->index);
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
        if (verdict != RECORD_VALID) {
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
    generation->live_bytes += size_bytes;
    generation->reserve_bytes += delete_size(record);
    generation->expiring_keys += record->expiry_ms != 0;
}

/* Not below zero: the sums may be those of a forged checkpoint, or the record damaged. */
static void take_off(uint64_t *sum, uint64_t part)
{
    *sum -= at_most(part, *sum);
}

void generation_discount(struct generation *generation, const struct record *record,
                         uint64_t size_bytes)
{
    take_off(&generation->live_bytes, size_bytes);
    take_off(&generation->reserve_bytes, delete_size(record));
    take_off(&generation->expiring_keys, record->expiry_ms != 0);
}

/* Disk space for the record and, if it brings a new key, for deleting that again. */
static enum kv_status ensure_space(struct generation *generation, const struct lookup *lookup,
                                   const struct record *record, uint64_t size_bytes)
{
    if (record->kind == RECORD_DELETE)
        return logtail_ensure_room(&generation->log, size_bytes);
    uint64_t later = generation->reserve_bytes + (lookup->found ? 0 : delete_size(record));
    return logtail_ensure_room_for_data(&generation->log, size_bytes + later);
}

static bool has_slot(const struct lookup *lookup)
{
    return lookup->found || lookup->damaged;
}

/* The index half of a write; room for an insertion has been reserved. */
static void enter(struct generation *generation, struct lookup *lookup, const struct record *record,
                  uint64_t offset, uint64_t size_bytes)
{
    if (record->version > generation->max_version)
        generation->max_version = record->version;
    if (lookup->found) /* what a damaged one counts for is not known: it stays in the sums */
        generation_discount(generation, &lookup->record, lookup->size_bytes);
    if (record->kind == RECORD_DELETE) {
        if (has_slot(lookup))
            index_probe_remove(&lookup->probe);
        return;
    }
    if (has_slot(lookup))
        index_probe_replace(&lookup->probe, offset);
    else
        index_insert(generation->index, lookup->hash, offset);
    generation_count(generation, record, size_bytes);
    if (record->expiry_ms != 0)
        index_note_expiry(generation->index, lookup->hash, record->expiry_ms);
}

static bool reserve_slot(struct generation *generation, const struct lookup *lookup,
                         const struct record *record)
{
    return has_slot(lookup) || record->kind == RECORD_DELETE ||
           index_reserve(generation->index, lookup->hash);
}

static enum kv_status no_slot(const struct generation *generation, const struct lookup *lookup)
{
    return index_is_crowded(generation->index, lookup->hash) ? KV_CROWDED : KV_NO_MEMORY;
}

enum kv_status generation_append(struct generation *generation, struct lookup *lookup,
                                 const struct record *record, struct kv_slice value_tail)
{
    uint64_t size_bytes =
        record_size(record->key.size, record->value.size + value_tail.size, record->expiry_ms != 0);
    enum kv_status status = ensure_space(generation, lookup, record, size_bytes);
    if (status != KV_OK)
        return status;
    if (!reserve_slot(generation, lookup, record))
        return no_slot(generation, lookup);
    uint64_t offset = generation->log.tail;
    status = logtail_append(&generation->log, record, value_tail);
    if (status != KV_OK)
        return status;
    enter(generation, lookup, record, offset, size_bytes);
    return KV_OK;
}

enum kv_status generation_adopt(struct generation *generation, struct lookup *lookup,
                                const struct record *record, uint64_t offset, uint64_t size_bytes)
{
    if (!reserve_slot(generation, lookup, record))
        return no_slot(generation, lookup);
    enter(generation, lookup, record, offset, size_bytes);
    return KV_OK;
}

void generation_forget(struct generation *generation, struct lookup *lookup)
{
    generation_discount(generation, &lookup->record, lookup->size_bytes);
    index_probe_remove(&lookup->probe);
    lookup->found = false;
}
