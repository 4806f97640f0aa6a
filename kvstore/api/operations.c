#include "kvstore/api/operations.h"

#include "common/assert/assert.h"
#include "common/memory/reserved.h"
#include "kvstore/api/evict.h"
#include "kvstore/table/found_record.h"
#include "kvstore/table/placing.h"

/* A write evicts at most this many entries; the next write continues. */
#define EVICT_MOST 16384u

enum kv_status write_verify(struct write *write)
{
    if (write->lookup.found)
        return found_record_verify(&write->store->context, write->file, READ_BUFFER_LOOKUP,
                                   &write->lookup);
    enum kv_status status = found_record_explain_absence(&write->store->context, write->file,
                                                         &write->lookup, write->record.key);
    return status == KV_NOT_FOUND ? KV_OK : status;
}

/* Inline: it is on the way of every write. */
__attribute__((always_inline)) static inline enum kv_status find_for_write(struct key_place place,
                                                                           struct kv_slice key,
                                                                           bool blind, bool reads,
                                                                           struct write *write)
{
    if (!reads && datafile_is_read_only(place.file))
        return KV_READ_ONLY;
    generation_find(place.file->current, keyhash_index(place.hash), key, &write->lookup);
    write->record = (struct record){.kind = RECORD_PUT, .key = key};
    if (!blind || write->lookup.error != 0) {
        enum kv_status status = write_verify(write);
        if (status != KV_OK)
            return status;
    }
    write->live = write->lookup.found && record_is_live(&write->lookup.record);
    return KV_OK;
}

enum kv_status write_find(struct kvstore *store, struct kv_slice key, bool blind, bool reads,
                          struct write *write)
{
    struct key_place place = key_place(&store->context, key);
    write->store = store;
    write->file = place.file;
    return find_for_write(place, key, blind, reads, write);
}

enum kv_status write_begin(struct kvstore *store, struct kv_slice key, bool blind,
                           struct write *write)
{
    if (!is_valid_key(key))
        return KV_BAD_KEY;
    struct key_place place = key_place(&store->context, key);
    write->store = store;
    write->file = place.file;
    lockset_write_lock(store->context.locks, place.file->number);
    enum kv_status status = find_for_write(place, key, blind, false, write);
    return status == KV_OK ? KV_OK : write_end(write, status);
}

void write_evict(struct kvstore *store, uint32_t number)
{
    const struct bound_share *share = &store->context.files[number].share;
    if (share->bound && bound_is_exceeded(share->bound))
        evict_entries(store, number, EVICT_MOST);
}

enum kv_status write_end(struct write *write, enum kv_status status)
{
    const struct store_context *context = &write->store->context;
    KV_ASSERT(lockset_is_write_held(context->locks, write->file->number));
    lockset_write_unlock(context->locks, write->file->number);
    logfile_end(context->options.io);
    write_evict(write->store, write->file->number);
    return status;
}

/* Others may have taken the store above its bound for the moment until they have evicted. */
static bool may_repeat_when_full(struct kvstore *store, uint32_t number, unsigned *tries)
{
    if (store->bound.evict != KVSTORE_EVICT_TTL || ++*tries >= WRITE_TRIES)
        return false;
    write_evict(store, number);
    if (bound_is_exceeded(&store->bound))
        return false;
    bound_forget_refusal(&store->bound);
    return true;
}

bool write_may_repeat(struct kvstore *store, struct kv_slice key, enum kv_status status,
                      unsigned *tries)
{
    uint32_t number = key_place(&store->context, key).file->number;
    if (status == KV_FULL)
        return may_repeat_when_full(store, number, tries);
    if (status != KV_NO_SPACE || store->bound.evict == KVSTORE_EVICT_NONE)
        return false;
    if (++*tries < WRITE_TRIES && evict_for_room(store, number))
        return true;
    write_tell_no_space(store, number);
    return false;
}

enum kv_status write_check(const struct write *write, const struct kvstore_put_options *options)
{
    if (!RESERVED_IS_CLEAR(options->reserved))
        return KV_UNSUPPORTED; /* of a newer header */
    if (options->give_version > KVSTORE_MAX_GIVEN_VERSION)
        return KV_USAGE;
    return kvstore_condition_status(options->condition, write->live,
                                    write->live &&
                                        write->lookup.record.version == options->version);
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
    struct write write;
    enum kv_status status;
    unsigned tries = 0;
    if (!options)
        options = &no_options;
    if (value.size >= PLACE_MIN_BYTES && options->give_version == 0) {
        const struct apart_write asked = {.kind = APART_PUT, .value = value, .options = options};
        status = write_apart(store, key, &asked, written);
        if (status != KV_BUSY)
            return status;
    }
    bool blind = options->condition == KVSTORE_ALWAYS && !options->keep_expiry;
    do {
        status = write_begin(store, key, blind, &write);
        if (status != KV_OK)
            return status;
        status = write_check(&write, options);
        if (status == KV_OK) {
            write.record.value = value;
            write.record.version = options->give_version;
            write.record.expiry_ms = write_expiry(&write, options);
            status = write_append(&write, kv_slice(NULL, 0), written);
        }
        status = write_end(&write, status);
    } while (status != KV_OK && write_may_repeat(store, key, status, &tries));
    return status;
}

enum kv_status kvstore_delete(struct kvstore *store, struct kv_slice key, uint64_t if_version,
                              struct kvstore_written *written)
{
    struct write write;
    bool blind = if_version == 0;
    enum kv_status status = write_begin(store, key, blind, &write);
    if (status != KV_OK)
        return status;
    enum kv_status found = write.live ? KV_OK : blind ? write_verify(&write) : KV_NOT_FOUND;
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
