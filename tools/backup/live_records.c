#include "tools/backup/live_records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "common/memory/cursor.h"
#include "common/memory/mapguard.h"
#include "common/report/error.h"

#define SALT_OFFSET      32u /* where the header of a data file has its salt */
#define FIRST_SLOT_COUNT 1024u

static bool key_is_at(const struct live_records *records, uint64_t offset, struct kv_slice key)
{
    struct record record;
    uint64_t size;
    return record_parse(records->bytes + offset, records->size - offset, &record, &size) ==
               RECORD_VALID &&
           kv_slice_equal(record.key, key);
}

/* Checks that mapguard has put no zeros in place of bytes that the disk did not give, or that were
 * cut off. */
static enum kv_status check_held(const struct live_records *records, const char *name,
                                 struct kv_error *error)
{
    if (!mapguard_is_broken(records->guard))
        return KV_OK;
    return kv_error_set(error, KV_IO, "%s cannot be read at offset %" PRIu64, name,
                        atomic_load(&records->guard->fault_offset));
}

/* Returns the slot of the key: its own, or a free one. */
static struct live_slot *find_live_slot(const struct live_records *records, struct kv_slice key,
                                        uint64_t hash)
{
    size_t mask = records->slot_count - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct live_slot *slot = &records->slots[i];
        if (slot->offset == 0 || (slot->hash == hash && key_is_at(records, slot->offset, key)))
            return slot;
    }
}

/* Doubles the slots. The hash alone finds the new place of each, since the keys of all differ. */
static bool grow_live_slots(struct live_records *records)
{
    size_t count = records->slot_count ? 2 * records->slot_count : FIRST_SLOT_COUNT;
    struct live_slot *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < records->slot_count; i++) {
        if (records->slots[i].offset == 0)
            continue;
        size_t to = records->slots[i].hash & (count - 1);
        while (slots[to].offset != 0)
            to = (to + 1) & (count - 1);
        slots[to] = records->slots[i];
    }
    free(records->slots);
    records->slots = slots;
    records->slot_count = count;
    return true;
}

/* Returns true if the slot has a superseded pointer: that stands there itself, others by their
 * contents. */
static bool read_superseded_slot(const struct live_records *records, const struct live_slot *slot,
                                 struct record *record)
{
    uint64_t size;
    return slot->offset != 0 &&
           record_parse(records->bytes + slot->offset, records->size - slot->offset, record,
                        &size) == RECORD_VALID &&
           record->kind == RECORD_POINTER;
}

/* `offset`: of a superseded pointer, or of the entry. */
static bool add_live_record(struct live_records *records, const struct record *record,
                            uint64_t offset)
{
    if (records->used * 4 >= records->slot_count * 3 && !grow_live_slots(records))
        return false;
    uint64_t hash = XXH3_64bits(record->key.data, record->key.size);
    struct live_slot *slot = find_live_slot(records, record->key, hash);
    records->used += slot->offset == 0;
    struct record replaced;
    records->superseded += record->kind == RECORD_POINTER;
    records->superseded -= read_superseded_slot(records, slot, &replaced);
    *slot = (struct live_slot){hash, offset};
    return true;
}

static enum kv_status tell_damage(const char *name, uint64_t offset, struct kv_error *error)
{
    return kv_error_set(error, KV_CORRUPT,
                        "%s is damaged at offset %" PRIu64
                        "; kvcheck --salvage saves what is intact",
                        name, offset);
}

/* Looks for a superseded pointer that is the last one of its key: its content is damaged. */
static enum kv_status check_superseded(const struct live_records *records, const char *name,
                                       struct kv_error *error)
{
    for (size_t i = 0; records->superseded > 0 && i < records->slot_count; i++) {
        struct record record;
        if (read_superseded_slot(records, &records->slots[i], &record))
            return tell_damage(name, records->slots[i].offset, error);
    }
    return KV_OK;
}

static enum kv_status read_log_records(struct live_records *records, const char *name,
                                       struct kv_error *error)
{
    struct record record;
    uint64_t size, named_bytes = 0; /* bytes of contents that value pointers name */
    for (uint64_t at = BACKUP_HEADER_BYTES; at < records->size; at += size) {
        enum record_verdict verdict =
            record_walk(records->bytes, records->size, records->salt, at, &record, &size);
        bool is_there = verdict == RECORD_VALID || verdict == RECORD_SUPERSEDED;
        if (!is_there && mapguard_is_broken(records->guard))
            break;
        if (!is_there)
            return tell_damage(name, at, error);
        if (verdict == RECORD_VALID && record.content_at != 0)
            named_bytes += record_entry_bytes(&record, size);
        if (named_bytes > at - BACKUP_HEADER_BYTES) /* contents are all their own, and before it */
            return tell_damage(name, at, error);
        uint64_t offset = verdict == RECORD_SUPERSEDED ? at : record_entry_offset(&record, at);
        if (record.kind != RECORD_EXTENT && !add_live_record(records, &record, offset))
            return kv_error_set(error, KV_NO_MEMORY, "no memory for the keys of %s", name);
    }
    enum kv_status status = check_held(records, name, error);
    return status == KV_OK ? check_superseded(records, name, error) : status;
}

enum kv_status live_records_open(struct live_records *records, const struct source_file *file,
                                 const char *name, struct kv_error *error)
{
    *records = (struct live_records){.size = file->bytes, .at = BACKUP_HEADER_BYTES};
    if (file->bytes < BACKUP_HEADER_BYTES)
        return kv_error_set(error, KV_CORRUPT, "%s is shorter than its header", name);
    void *bytes = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (bytes == MAP_FAILED)
        return kv_error_set_errno(error, "cannot map %s", name);
    records->bytes = bytes;
    records->guard = mapguard_add(bytes, file->bytes);
    records->salt = load_u64(records->bytes + SALT_OFFSET);
    enum kv_status status = read_log_records(records, name, error);
    if (status != KV_OK)
        live_records_close(records);
    return status;
}

void live_records_close(struct live_records *records)
{
    mapguard_remove(records->guard);
    if (records->bytes)
        munmap((void *)(uintptr_t)records->bytes, records->size);
    free(records->slots);
    *records = (struct live_records){0};
}

/* Returns true if the superseded pointer was not superseded when the file was read first, and
 * counts: its extent then stands for the key, and has no later content of it. */
static bool has_become_superseded(const struct live_records *records,
                                  const struct record *superseded)
{
    uint64_t hash = XXH3_64bits(superseded->key.data, superseded->key.size);
    struct record content;
    uint64_t size, offset = superseded->content_at;
    return find_live_slot(records, superseded->key, hash)->offset == offset &&
           record_parse(records->bytes + offset, records->size - offset, &content, &size) ==
               RECORD_VALID &&
           content.version <= superseded->version;
}

enum kv_status live_records_next(struct live_records *records, struct record *record, bool *end,
                                 const char *name, struct kv_error *error)
{
    uint64_t size;
    enum kv_status status;
    *end = false;
    while ((status = check_held(records, name, error)) == KV_OK && records->at < records->size) {
        uint64_t at = records->at;
        enum record_verdict verdict =
            record_walk(records->bytes, records->size, records->salt, at, record, &size);
        bool is_there = verdict == RECORD_VALID ||
                        (verdict == RECORD_SUPERSEDED && !has_become_superseded(records, record));
        if (!is_there && !mapguard_is_broken(records->guard))
            return kv_error_set(error, KV_CORRUPT,
                                "%s has changed at offset %" PRIu64 " while it was read", name, at);
        if (!is_there)
            continue;
        records->at += size;
        uint64_t hash = XXH3_64bits(record->key.data, record->key.size);
        if (record->kind == RECORD_PUT &&
            find_live_slot(records, record->key, hash)->offset == record_entry_offset(record, at) &&
            !mapguard_is_broken(records->guard))
            return KV_OK;
    }
    *end = true;
    return status;
}
