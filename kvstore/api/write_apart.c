/* Writing a large value, which nobody else waits for. */
#include "common/assert/assert.h"
#include "kvstore/api/operations.h"
#include "kvstore/cache/cache.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/found_record.h"

/* How many times a value is copied, if its first place is of no use any more. */
#define APART_TRIES 2u

/* What is asked for, and what becomes of it. */
struct apart {
    struct kvstore *store;
    struct kv_slice key;
    const struct apart_write *asked;
    bool blind;
    struct write write;
    struct placing placing;
    struct lookup base; /* of the entry that is there, if its value is needed */
    bool needs_base;
    uint64_t base_version; /* 0: there is no entry */
    void *old_value_to;    /* of an exchange; NULL: there is none */
};

struct placing_terms write_placing_terms(const struct kvstore *store, const struct datafile *file)
{
    const struct store_context *context = &store->context;
    if (!store->sync || context->lockless || store->was_forked || past_logs_are_wanted(store->past))
        return (struct placing_terms){.reuses = false};
    return (struct placing_terms){
        .reuses = true, .durable_position = sync_durable_position(store->sync, file->number)};
}

/* Fills in what is to be written, of the value no more than the size. Holds: the file's lock for
 * writing. */
static enum kv_status prepare(struct apart *apart)
{
    const struct apart_write *asked = apart->asked;
    struct write *write = &apart->write;
    const struct record *there = &write->lookup.record;
    bool live = write->live;
    uint64_t bytes = asked->value.size;
    enum kv_status status = KV_OK;
    switch (asked->kind) {
    case APART_APPEND:
        bytes += live ? there->value.size : 0;
        write->record.expiry_ms = live ? there->expiry_ms : 0;
        break;
    case APART_TOUCH:
        status = live ? KV_OK : KV_NOT_FOUND;
        bytes = live ? there->value.size : 0;
        write->record.expiry_ms = asked->expiry_ms;
        break;
    default:
        status = write_check(write, asked->options);
        write->record.expiry_ms = write_expiry(write, asked->options);
        break;
    }
    write->record.value = kv_slice(asked->value.data, bytes);
    return status;
}

/* Verifies what refuses the write, or lets it go on as if no entry were there. Of one that is there
 * the value is verified later, without the lock; a put needs none. */
static enum kv_status verify_early(struct apart *apart, enum kv_status status)
{
    bool is_early = status == KV_OK ? !apart->write.live : status != KV_BUSY;
    enum kv_status sound =
        is_early && apart->asked->kind != APART_PUT ? write_verify(&apart->write) : KV_OK;
    return sound == KV_OK ? status : sound;
}

/* What of the entry that is there has to be the same when the value begins to count. */
static uint64_t version_there(const struct apart *apart)
{
    return apart->asked->kind != APART_PUT && apart->write.live ? apart->write.lookup.record.version
                                                                : 0;
}

/* Notes the entry whose value is needed, and where that of an exchange is to go. */
static enum kv_status note_base(struct apart *apart)
{
    const struct apart_write *asked = apart->asked;
    apart->base_version = version_there(apart);
    apart->needs_base = apart->base_version != 0;
    apart->base = apart->write.lookup;
    apart->old_value_to = NULL;
    if (asked->kind != APART_EXCHANGE)
        return KV_OK;
    if (asked->found)
        *asked->found = apart->needs_base;
    if (!apart->needs_base)
        return KV_OK;
    record_describe(&apart->base.record, asked->entry);
    apart->old_value_to = asked->place(asked->context, apart->base.record.value.size);
    return apart->old_value_to ? KV_OK : KV_BUFFER_TOO_SMALL;
}

/* Holds: the file's lock for writing. */
static enum kv_status begin_placing(struct apart *apart)
{
    const struct write *write = &apart->write;
    const struct placing_terms terms = write_placing_terms(apart->store, write->file);
    /* Its own base may not be overwritten either: nothing has replaced it yet. */
    enum kv_status status =
        placing_begin(write->file, &write->lookup, &write->record, &terms, &apart->placing);
    if (status == KV_OK && apart->needs_base)
        apart->placing.base_at = apart->base.offset;
    return status;
}

/* Takes the value's place, if values can be placed in the file, and the condition holds. */
static enum kv_status take_place(struct apart *apart, bool *is_older)
{
    struct write *write = &apart->write;
    *is_older = false;
    enum kv_status status = write_begin(apart->store, apart->key, apart->blind, write);
    if (status != KV_OK)
        return status;
    struct datafile *file = write->file;
    status = prepare(apart);
    if (status == KV_OK &&
        write->record.value.size > context_max_value_bytes(&apart->store->context))
        status = KV_VALUE_TOO_BIG;
    *is_older = status == KV_OK && file->current->log.identity.format_version != FILE_FORMAT_NEWEST;
    if (status == KV_OK && !placing_is_possible(file))
        status = KV_BUSY;
    if (status == KV_OK)
        status = note_base(apart);
    status = verify_early(apart, status);
    if (status == KV_OK)
        status = begin_placing(apart);
    return write_end(write, status);
}

/* Reads the value that is there, which stays as long as its generation, where the new one has its
 * first place. */
static enum kv_status read_base(struct apart *apart)
{
    const struct store_context *context = &apart->store->context;
    const struct generation *generation = apart->placing.extents[0].generation;
    const struct apart_write *asked = apart->asked;
    uint32_t mark = mapguard_mark(generation->log.guard);
    logfile_begin(&generation->log, READ_BUFFER_LOOKUP);
    enum kv_status status = found_record_verify_in(context, apart->write.file, generation,
                                                   READ_BUFFER_LOOKUP, &apart->base);
    struct kv_slice value = apart->base.record.value;
    if (status == KV_OK && asked->kind == APART_EXCHANGE)
        copy_bytes(apart->old_value_to, value.data, value.size);
    if (status == KV_OK && !mapguard_held(generation->log.guard, mark))
        status = datafile_tell_broken(context, apart->write.file, &generation->log);
    if (asked->kind != APART_EXCHANGE) {
        apart->placing.value = value;
        apart->placing.tail = asked->value;
    }
    return status;
}

/* Copies the value to where it has its place, and takes the file's lock. */
static enum kv_status fill_extents(struct apart *apart)
{
    const struct store_context *context = &apart->store->context;
    struct datafile *file = apart->write.file;
    enum kv_status status = apart->needs_base ? read_base(apart) : KV_OK;
    for (;;) {
        if (status == KV_OK)
            status = placing_fill(&apart->placing);
        lockset_write_lock(context->locks, file->number);
        if (status != KV_OK || !placing_follow(file, &apart->placing))
            return status;
        lockset_write_unlock(context->locks, file->number);
    }
}

/* Looks the key up again, since others may have written to it, and has the value count, if the
 * condition still holds. KV_BUSY: the value is to be written once more. Holds: the file's lock for
 * writing. */
static enum kv_status publish_value(struct apart *apart, struct kvstore_written *written)
{
    struct kvstore *store = apart->store;
    struct write *write = &apart->write;
    struct datafile *file = write->file;
    const struct record *placed = &apart->placing.record;
    enum kv_status status = write_find(store, apart->key, apart->blind, false, write);
    if (status == KV_OK)
        status = verify_early(apart, prepare(apart));
    if (status != KV_OK)
        return status;
    if (apart->placing.is_lost || version_there(apart) != apart->base_version ||
        write->record.expiry_ms != placed->expiry_ms)
        return KV_BUSY;
    if (store->cache)
        cache_remove(store->cache, file->number, write->lookup.hash, apart->key);
    status = placing_publish(file, &write->lookup, &apart->placing, written);
    if (status == KV_OK && apart->asked->value_bytes)
        *apart->asked->value_bytes = (uint32_t)placed->value.size;
    return status;
}

static enum kv_status try_apart(struct apart *apart, struct kvstore_written *written)
{
    bool is_older;
    enum kv_status status = take_place(apart, &is_older);
    if (is_older && apart->store->sync) { /* once for each file, unless it fails */
        sync_raise_format(apart->store->sync, apart->write.file->number);
        status = take_place(apart, &is_older);
    }
    if (status != KV_OK)
        return status;
    status = fill_extents(apart);
    if (status == KV_OK)
        status = publish_value(apart, written);
    if (status == KV_IO && logfile_is_broken(&apart->write.file->current->log))
        datafile_tell_broken(&apart->store->context, apart->write.file,
                             &apart->write.file->current->log);
    placing_end(apart->write.file, &apart->placing);
    /* Refused or not, the log has grown: that is to be synced, and may be worth a compaction. */
    write_announce(apart->store, apart->write.file, &apart->placing.record);
    sync_after_placing(apart->store->sync, &apart->store->context, apart->write.file);
    return write_end(&apart->write, status);
}

enum kv_status write_apart(struct kvstore *store, struct kv_slice key,
                           const struct apart_write *asked, struct kvstore_written *written)
{
    struct apart apart = {.store = store, .key = key, .asked = asked};
    /* An entry that is needed is verified without the lock; of that of a put no more than its
     * version may be. */
    apart.blind = asked->kind != APART_PUT ||
                  (asked->options->condition == KVSTORE_ALWAYS && !asked->options->keep_expiry);
    enum kv_status status = KV_BUSY;
    for (unsigned tries = 0; status == KV_BUSY && tries < APART_TRIES; tries++)
        status = try_apart(&apart, written);
    /* The way of all values makes room, or says that there is none. */
    if (status == KV_FULL && store->bound.evict == KVSTORE_EVICT_TTL) {
        bound_forget_refusal(&store->bound);
        status = KV_NO_SPACE;
    }
    return status == KV_NO_SPACE ? KV_BUSY : status;
}
