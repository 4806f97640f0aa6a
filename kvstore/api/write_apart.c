/* Putting a large value, which nobody else waits for. */
#include "common/assert/assert.h"
#include "kvstore/api/operations.h"
#include "kvstore/cache/cache.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/placing.h"

/* How many times a value is copied, if its first place is of no use any more. */
#define APART_TRIES 2u

/* The arguments of kvstore_put, and what becomes of them. */
struct apart {
    struct kvstore *store;
    struct kv_slice key;
    struct kv_slice value;
    const struct kvstore_put_options *options;
    bool blind;
    struct write write;
    struct placing placing;
};

/* Fills in what is to be written. Holds: the file's lock for writing. */
static enum kv_status prepare(struct apart *apart)
{
    enum kv_status status = write_check(&apart->write, apart->options);
    apart->write.record.value = apart->value;
    apart->write.record.expiry_ms = write_expiry(&apart->write, apart->options);
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
    if (status == KV_OK && apart->value.size > context_max_value_bytes(&apart->store->context))
        status = KV_VALUE_TOO_BIG;
    *is_older = status == KV_OK && file->current->log.identity.format_version != FILE_FORMAT_NEWEST;
    if (status == KV_OK && !placing_is_possible(file))
        status = KV_BUSY;
    if (status == KV_OK)
        status = placing_begin(file, &write->lookup, &write->record, &apart->placing);
    return write_end(write, status);
}

/* Copies the value to where it has its place, and takes the file's lock. */
static enum kv_status fill_berths(struct apart *apart)
{
    const struct store_context *context = &apart->store->context;
    struct datafile *file = apart->write.file;
    for (;;) {
        enum kv_status status = placing_fill(&apart->placing);
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
    enum kv_status status = write_find(store, apart->key, apart->blind, false, write);
    if (status == KV_OK)
        status = prepare(apart);
    if (status != KV_OK)
        return status;
    if (apart->placing.is_lost || write->record.expiry_ms != apart->placing.record.expiry_ms)
        return KV_BUSY;
    if (store->cache)
        cache_remove(store->cache, file->number, write->lookup.hash, apart->key);
    status = placing_publish(file, &write->lookup, &apart->placing, written);
    if (status == KV_OK)
        write_announce(store, file, &apart->placing.record);
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
    status = fill_berths(apart);
    if (status == KV_OK)
        status = publish_value(apart, written);
    if (status == KV_IO && logfile_is_broken(&apart->write.file->current->log))
        datafile_tell_broken(&apart->store->context, apart->write.file,
                             &apart->write.file->current->log);
    placing_end(apart->write.file, &apart->placing);
    return write_end(&apart->write, status);
}

enum kv_status write_apart(struct kvstore *store, struct kv_slice key, struct kv_slice value,
                           const struct kvstore_put_options *options,
                           struct kvstore_written *written)
{
    struct apart apart = {.store = store,
                          .key = key,
                          .value = value,
                          .options = options,
                          .blind = options->condition == KVSTORE_ALWAYS && !options->keep_expiry};
    enum kv_status status = KV_BUSY;
    for (unsigned tries = 0; status == KV_BUSY && tries < APART_TRIES; tries++)
        status = try_apart(&apart, written);
    /* The way of all values makes room, or says that there is none. */
    return status == KV_NO_SPACE ? KV_BUSY : status;
}
