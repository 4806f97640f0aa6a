#include "kvstore/api/operations.h"

#include <errno.h>

#include "common/clock.h"
#include "common/copy.h"
#include "common/reserved.h"
#include "kvstore/cache/cache.h"
#include "kvstore/api/optimistic.h"
#include "kvstore/core/readers.h"

static const struct kvstore_put_options no_put_options;

bool record_is_live(const struct record *record)
{
    return record->expiry_ms == 0 || !record_has_expired(record, clock_realtime_ms());
}

static bool key_is_valid(struct kv_slice key)
{
    return key.size >= 1 && key.size <= KVSTORE_MAX_KEY_BYTES;
}

/* In the mapping all of the record is there, and its header has been looked at: what is left is the
 * checksum. */
static enum record_verdict verify_mapped(const struct logfile *log, const struct lookup *lookup)
{
    if (!record_is_sound(log->map + lookup->offset, &lookup->record, log->identity.salt,
                         lookup->offset))
        return RECORD_INVALID;
    verified_bitmap_note(&log->verified, lookup->offset, lookup->size_bytes);
    return RECORD_VALID;
}

/* Brings the whole record of a lookup that found one, sound. Holds: the file's lock, or a place
 * among the readers without one. */
__attribute__((always_inline)) static inline enum kv_status
verify_in(const struct kvstore *store, struct datafile *file, const struct generation *generation,
          enum read_buffer read_buffer, struct lookup *lookup)
{
    const struct logfile *log = &generation->log;
    /* Noted are records in a mapping only: what a call reads may come from the disk each time. */
    bool trusted = (store->options.no_read_verify ||
                    (!store->options.verify_every_read &&
                     verified_bitmap_has(&log->verified, lookup->offset, lookup->size_bytes))) &&
                   !logfile_is_broken(log);
    enum record_verdict verdict;
    if (log->map)
        verdict = trusted ? RECORD_VALID : verify_mapped(log, lookup);
    else
        verdict = trusted ? logfile_load(log, read_buffer, lookup->offset, &lookup->record,
                                         &lookup->size_bytes)
                          : logfile_read(log, read_buffer, lookup->offset, &lookup->record,
                                         &lookup->size_bytes);
    if (verdict == RECORD_VALID)
        return KV_OK;
    return verdict == RECORD_UNREADABLE
               ? datafile_tell_unreadable(store, file, lookup->offset, errno)
               : datafile_tell_damage(store, file, lookup->offset);
}

enum kv_status verify_found(const struct kvstore *store, struct datafile *file,
                            enum read_buffer read_buffer, struct lookup *lookup)
{
    return verify_in(store, file, file->current, read_buffer, lookup);
}

static void describe(const struct record *record, struct kvstore_entry *entry)
{
    if (!entry)
        return;
    entry->version = record->version;
    entry->expiry_ms = record->expiry_ms;
    entry->value_bytes = (uint32_t)record->value.size;
}

enum kv_status copy_found(const struct record *record, void *buffer, size_t capacity,
                          struct kvstore_entry *entry)
{
    describe(record, entry);
    if (record->value.size > capacity)
        return KV_BUFFER_TOO_SMALL;
    if (buffer)
        copy_bytes(buffer, record->value.data, record->value.size);
    return KV_OK;
}

/* Can be relied on that the lookup found nothing? KV_NOT_FOUND if so, else KV_CORRUPT, KV_IO.
 * Holds: as verify_in. */
static enum kv_status explain_absence(const struct kvstore *store, struct datafile *file,
                                      const struct lookup *lookup)
{
    if (lookup->error != 0)
        return datafile_tell_unreadable(store, file, lookup->offset, lookup->error);
    return lookup->damaged ? datafile_tell_damage(store, file, lookup->offset) : KV_NOT_FOUND;
}

/* Holds: the file's lock, or a place among the readers without one. */
__attribute__((always_inline)) static inline enum kv_status
read_found(const struct kvstore *store, struct datafile *file, const struct generation *generation,
           struct lookup *lookup, void *buffer, size_t capacity, struct kvstore_entry *entry)
{
    if (!lookup->found)
        return explain_absence(store, file, lookup);
    uint32_t mark = mapguard_mark(generation->log.guard);
    bool live = record_is_live(&lookup->record);
    if (live && !buffer && capacity == 0) {
        describe(&lookup->record, entry);
        return KV_OK;
    }
    enum kv_status status = verify_in(store, file, generation, READ_BUFFER_LOOKUP, lookup);
    if (status != KV_OK)
        return status;
    status = live ? copy_found(&lookup->record, buffer, capacity, entry) : KV_NOT_FOUND;
    if (!mapguard_held(generation->log.guard, mark)) /* the copy may have zeros in it */
        return datafile_tell_broken(store, file, &generation->log);
    return status;
}

/* False: to be done with the lock. Kept out of kvstore_get, which is to cost nothing more for
 * it. */
__attribute__((noinline)) static bool get_without_lock(struct kvstore *store, struct place place,
                                                       struct kv_slice key, void *buffer,
                                                       size_t capacity, struct kvstore_entry *entry,
                                                       enum kv_status *status)
{
    const struct generation *generation;
    struct lookup lookup;
    struct reader *reader = optimistic_find(store, place, key, &generation, &lookup);
    if (!reader)
        return false;
    *status = read_found(store, place.file, generation, &lookup, buffer, capacity, entry);
    readers_leave(reader);
    store_end_operation(store);
    return true;
}

/* kvstore_get with a cache. What it does not know is read under the lock, so that it may be kept,
 * also where reads take none else. */
__attribute__((noinline)) static enum kv_status get_cached(struct kvstore *store,
                                                           struct place place, struct kv_slice key,
                                                           void *buffer, size_t capacity,
                                                           struct kvstore_entry *entry)
{
    uint32_t number = place.file->number;
    uint32_t hash = keyhash_index(place.hash);
    enum kv_status status;
    if (cache_get(store->cache, number, hash, key, buffer, capacity, entry, &status))
        return status;
    struct lookup lookup;
    lockset_read_lock(store->locks, number);
    const struct generation *generation = place.file->current;
    generation_find(generation, hash, key, &lookup);
    status = read_found(store, place.file, generation, &lookup, buffer, capacity, entry);
    bool value_is_wanted = buffer || capacity > 0;
    uint32_t mark = mapguard_mark(generation->log.guard);
    if ((status == KV_OK && value_is_wanted) || status == KV_BUFFER_TOO_SMALL)
        cache_put(store->cache, number, hash, &lookup.record, status == KV_BUFFER_TOO_SMALL);
    if (!mapguard_held(generation->log.guard, mark))
        cache_remove(store->cache, number, hash, key);
    lockset_read_unlock(store->locks, number);
    store_end_operation(store);
    return status;
}

enum kv_status kvstore_get(struct kvstore *store, struct kv_slice key, void *buffer,
                           size_t capacity, struct kvstore_entry *entry)
{
    if (!key_is_valid(key))
        return KV_BAD_KEY;
    struct place place = place_of(store, key);
    if (store->cache)
        return get_cached(store, place, key, buffer, capacity, entry);
    if (store->readers) {
        enum kv_status unlocked;
        if (get_without_lock(store, place, key, buffer, capacity, entry, &unlocked))
            return unlocked;
    }
    struct lookup lookup;
    uint32_t number = place.file->number;
    lockset_read_lock(store->locks, number);
    const struct generation *generation = place.file->current;
    generation_find(generation, keyhash_index(place.hash), key, &lookup);
    enum kv_status status =
        read_found(store, place.file, generation, &lookup, buffer, capacity, entry);
    lockset_read_unlock(store->locks, number);
    store_end_operation(store);
    return status;
}

/* Writing -------------------------------------------------------------------------------------- */

/* Can what was found, or that nothing was, be relied on? KV_OK, KV_CORRUPT, KV_IO. Holds: the
 * file's lock. */
static enum kv_status verify_write(struct write *write)
{
    if (write->lookup.found)
        return verify_found(write->store, write->file, READ_BUFFER_LOOKUP, &write->lookup);
    enum kv_status status = explain_absence(write->store, write->file, &write->lookup);
    return status == KV_NOT_FOUND ? KV_OK : status;
}

enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write)
{
    if (!key_is_valid(key))
        return KV_BAD_KEY;
    struct place place = place_of(store, key);
    write->store = store;
    write->file = place.file;
    lockset_write_lock(store->locks, place.file->number);
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
    lockset_write_unlock(write->store->locks, write->file->number);
    store_end_operation(write->store);
    return status;
}

enum kv_status write_append(struct write *write, struct kv_slice value_tail,
                            struct kvstore_written *written)
{
    uint64_t max_bytes = write->store->options.max_value_bytes;
    if (value_tail.size > max_bytes || write->record.value.size > max_bytes - value_tail.size)
        return KV_VALUE_TOO_BIG;
    return datafile_append(write->store, write->file, &write->lookup, &write->record, value_tail,
                           written);
}

enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options)
{
    if (!RESERVED_IS_CLEAR(options->reserved))
        return KV_UNSUPPORTED; /* of a newer header */
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
    if (!options)
        options = &no_put_options;
    struct write write;
    bool blind = options->condition == KVSTORE_ALWAYS && !options->keep_expiry;
    enum kv_status status = write_begin(store, key, blind, &write);
    if (status != KV_OK)
        return status;
    status = write_check(&write, options);
    if (status == KV_OK) {
        write.record.value = value;
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
