#include "bridges/kresp/session/transaction_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/parse.h"
#include "common/time/clock.h"
#include "bridges/kresp/protocol/decimal.h"

#define MAX_VIEWED_KEYS CLIENTK_MAX_TRANSACTION_STEPS

/* Versions of what the commands have written: no entry of the store has such a one. */
#define FIRST_VIEW_VERSION ((uint64_t)1 << 63)

/* A result's value is not const, since it may be memory of its own; here it is borrowed. */
static void *borrowed_data(struct kv_slice slice)
{
    return (void *)(uintptr_t)slice.data;
}

/* What an operation takes besides its values, as if it were bytes to copy. */
#define OPERATION_WORK_BYTES 256u

void transaction_view_init(struct transaction_view *view, struct buffer_owner *owner,
                           size_t max_value_bytes)
{
    *view = (struct transaction_view){
        .owner = owner, .max_value_bytes = max_value_bytes, .last_version = FIRST_VIEW_VERSION};
}

void transaction_view_free(struct transaction_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        clientk_value_free(&view->keys[i].before.value);
        byte_buffer_free(&view->keys[i].bytes[0]);
        byte_buffer_free(&view->keys[i].bytes[1]);
        free(borrowed_data(view->keys[i].key));
    }
    free(view->keys);
    view->keys = NULL;
    view->count = 0;
}

void transaction_view_restart(struct transaction_view *view)
{
    view->is_missing = view->is_full = view->failed = false;
    for (size_t i = 0; i < view->count; i++) {
        struct viewed_key *key = &view->keys[i];
        key->is_written = key->is_touched = key->is_looked_at = false;
        transaction_view_take_read(key, VIEWED_NOTHING);
    }
}

void transaction_view_take_read(struct viewed_key *key, enum viewed_part was)
{
    const struct clientk_value *value = &key->before.value;
    if (was == VIEWED_NOTHING) {
        key->is_there = key->known != VIEWED_NOTHING && key->before.status == KV_OK;
        key->version = key->is_there ? value->version : 0;
        key->expiry_ms = key->is_there ? value->expiry_ms : 0;
    }
    key->value = kv_slice(value->data, key->is_there ? value->size : 0);
}

struct viewed_key *transaction_view_find(const struct transaction_view *view, struct kv_slice key)
{
    for (size_t i = 0; i < view->count; i++)
        if (kv_slice_equal(view->keys[i].key, key))
            return &view->keys[i];
    return NULL;
}

/* Returns the key, new if need be; NULL: the view is full, or there is no memory. */
static struct viewed_key *viewed_key_of(struct transaction_view *view, struct kv_slice key)
{
    struct viewed_key *found = transaction_view_find(view, key);
    if (found)
        return found;
    if (!view->keys)
        view->keys = calloc(MAX_VIEWED_KEYS, sizeof *view->keys);
    view->failed = view->failed || !view->keys;
    view->is_full = view->is_full || view->count == MAX_VIEWED_KEYS;
    if (!view->keys || view->count == MAX_VIEWED_KEYS)
        return NULL;
    char *copy = malloc(key.size);
    view->failed = view->failed || !copy;
    if (!copy)
        return NULL;
    memcpy(copy, key.data, key.size);
    found = &view->keys[view->count++];
    *found = (struct viewed_key){.key = kv_slice(copy, key.size),
                                 .bytes = {{.owner = view->owner}, {.owner = view->owner}}};
    return found;
}

/* Returns how much of the key as it was the operation needs. */
static enum viewed_part part_needed(const struct clientk_operation *operation)
{
    const struct clientk_write_options *write = &operation->write;
    switch (operation->opcode) {
    case CLIENTK_PUT:
        return write->if_absent || write->if_present || write->if_version != 0 || write->keep_expiry
                   ? VIEWED_SIZE
                   : VIEWED_NOTHING;
    case CLIENTK_EXISTS:
    case CLIENTK_DELETE:
    case CLIENTK_TOUCH:
        return VIEWED_SIZE;
    default:
        return VIEWED_VALUE;
    }
}

static void note_need(struct transaction_view *view, struct viewed_key *key,
                      enum viewed_part needed)
{
    if (key->needed < needed)
        key->needed = needed;
    view->is_missing = true;
}

static bool is_storable_key(struct kv_slice key)
{
    return key.size > 0 && key.size <= MAX_STORED_KEY_BYTES;
}

void transaction_view_require(struct transaction_view *view,
                              const struct clientk_operation *operations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum viewed_part needed = part_needed(&operations[i]);
        struct viewed_key *key = needed != VIEWED_NOTHING && is_storable_key(operations[i].key)
                                     ? viewed_key_of(view, operations[i].key)
                                     : NULL;
        if (key && !key->is_written && key->known < needed)
            note_need(view, key, needed);
    }
}

void transaction_view_expect(struct transaction_view *view, struct kv_slice name)
{
    if (!is_storable_key(name) || view->count == MAX_VIEWED_KEYS)
        return;
    struct viewed_key *key = viewed_key_of(view, name);
    if (key && !key->is_written && key->known == VIEWED_NOTHING)
        key->needed = VIEWED_VALUE;
}

/* Notes what the operation needs, and that the key is absent if it has expired. */
static void look_at_key(struct transaction_view *view, struct viewed_key *key,
                        enum viewed_part needed)
{
    if (!key->is_written && needed != VIEWED_NOTHING)
        key->is_looked_at = true;
    if (!key->is_written && key->known < needed) {
        note_need(view, key, needed);
        key->is_there = false;
    }
    if (key->is_there && key->expiry_ms != 0 && key->expiry_ms <= clock_realtime_ms())
        key->is_there = false;
}

static enum kv_status check_view_conditions(const struct viewed_key *key,
                                            const struct clientk_write_options *write)
{
    if (write->if_absent && key->is_there)
        return KV_EXISTS;
    if ((write->if_present || write->if_version != 0) && !key->is_there)
        return KV_NOT_FOUND;
    return write->if_version != 0 && write->if_version != key->version ? KV_VERSION_MISMATCH
                                                                       : KV_OK;
}

/* The key has what is in bytes[in_use] from now on. */
static void take_value(struct transaction_view *view, struct viewed_key *key, uint64_t expiry_ms)
{
    const struct byte_buffer *bytes = &key->bytes[key->in_use];
    view->failed = view->failed || bytes->failed;
    key->value = byte_buffer_slice(bytes);
    key->is_there = key->is_written = true;
    key->expiry_ms = expiry_ms;
    key->version = ++view->last_version;
}

/* Puts into the other buffer, so that what the key had is there until the next write. */
static enum kv_status put_viewed(struct transaction_view *view, struct viewed_key *key,
                                 struct kv_slice value, const struct clientk_write_options *write)
{
    uint64_t kept_ms = key->is_there ? key->expiry_ms : 0;
    if (value.size > view->max_value_bytes)
        return KV_VALUE_TOO_BIG;
    key->in_use = !key->in_use;
    key->bytes[key->in_use].start = key->bytes[key->in_use].end = 0;
    byte_buffer_append(&key->bytes[key->in_use], value.data, value.size);
    take_value(view, key, write->keep_expiry ? kept_ms : write->expiry_ms);
    return KV_OK;
}

static enum kv_status append_viewed(struct transaction_view *view, struct viewed_key *key,
                                    struct kv_slice more, struct clientk_result *result)
{
    struct kv_slice old = key->is_there ? key->value : kv_slice(NULL, 0);
    struct byte_buffer *bytes = &key->bytes[key->in_use];
    if (more.size > view->max_value_bytes || old.size > view->max_value_bytes - more.size)
        return KV_VALUE_TOO_BIG;
    if (!key->is_there || !key->is_written) {
        bytes->start = bytes->end = 0;
        byte_buffer_append(bytes, old.data, old.size);
    }
    byte_buffer_append(bytes, more.data, more.size);
    take_value(view, key, key->is_there ? key->expiry_ms : 0);
    result->number = (int64_t)key->value.size;
    return KV_OK;
}

static enum kv_status add_viewed(struct transaction_view *view, struct viewed_key *key,
                                 const struct clientk_operation *operation,
                                 struct clientk_result *result)
{
    static const struct clientk_write_options keeps_expiry = {.keep_expiry = true};
    int64_t old = 0;
    char text[INTEGER_BYTES];
    if (!key->is_there && operation->add.if_present)
        return KV_NOT_FOUND;
    if (key->is_there && !decimal_parse(key->value, &old))
        return KV_NOT_A_NUMBER;
    if (__builtin_add_overflow(old, operation->delta, &result->number))
        return KV_OUT_OF_BOUNDS;
    return put_viewed(view, key, kv_slice(text, format_i64(result->number, text)), &keeps_expiry);
}

static enum kv_status write_viewed(struct transaction_view *view, struct viewed_key *key,
                                   const struct clientk_operation *operation,
                                   struct clientk_result *result)
{
    struct kv_slice old = key->value;
    bool was_there = key->is_there;
    enum kv_status status = check_view_conditions(key, &operation->write);
    if (status != KV_OK)
        return status;
    switch (operation->opcode) {
    case CLIENTK_PUT:
        return put_viewed(view, key, operation->value, &operation->write);
    case CLIENTK_EXCHANGE:
        status = put_viewed(view, key, operation->value, &operation->write);
        result->found = was_there;
        result->value = (struct clientk_value){.data = borrowed_data(old), .size = old.size};
        return status;
    case CLIENTK_APPEND:
        return append_viewed(view, key, operation->value, result);
    case CLIENTK_DELETE:
        key->is_there = false;
        key->is_written = key->is_written || was_there;
        return was_there ? KV_OK : KV_NOT_FOUND;
    case CLIENTK_TOUCH:
        key->is_touched = key->is_touched || was_there;
        key->expiry_ms = operation->write.expiry_ms;
        return was_there ? KV_OK : KV_NOT_FOUND;
    default:
        return KV_UNSUPPORTED;
    }
}

static void execute_viewed(struct transaction_view *view, const struct clientk_operation *operation,
                           struct clientk_result *result)
{
    *result = (struct clientk_result){.status = KV_BAD_KEY};
    if (!is_storable_key(operation->key))
        return;
    struct viewed_key *key = viewed_key_of(view, operation->key);
    result->status = KV_NO_MEMORY;
    if (!key)
        return;
    look_at_key(view, key, part_needed(operation));
    view->work_bytes += OPERATION_WORK_BYTES + operation->value.size +
                        (operation->opcode == CLIENTK_EXISTS ? 0 : key->value.size);
    if (operation->opcode == CLIENTK_GET || operation->opcode == CLIENTK_EXISTS) {
        result->status = key->is_there ? KV_OK : KV_NOT_FOUND;
        if (!key->is_there)
            return;
        result->value.data = borrowed_data(key->value);
        result->value.size = key->value.size;
    } else if (operation->opcode == CLIENTK_ADD) {
        result->status = add_viewed(view, key, operation, result);
    } else {
        result->status = write_viewed(view, key, operation, result);
    }
    result->value.version = key->version;
    result->value.expiry_ms = key->expiry_ms;
}

void transaction_view_execute(struct transaction_view *view,
                              const struct clientk_operation *operations, size_t count,
                              struct clientk_result *results)
{
    for (size_t i = 0; i < count; i++)
        execute_viewed(view, &operations[i], &results[i]);
}
