/* The operations whose new entry depends on the old one: add, append, exchange, touch. */
#include "kvstore/api/operations.h"

#include "common/text/parse.h"
#include "common/memory/reserved.h"
#include "kvstore/api/buffer_place.h"
#include "kvstore/table/placing.h"

/* Returns true if kvstore_add would have written the number in another way. */
static bool value_has_leading_zeros(struct kv_slice value)
{
    const char *bytes = value.data;
    if (value.size < 2)
        return false;
    return bytes[0] == '0' || (bytes[0] == '-' && bytes[1] == '0');
}

/* The number that kvstore_add starts from: the entry's, or `initial`. */
static enum kv_status number_found(const struct write *write,
                                   const struct kvstore_add_options *options, int64_t *number)
{
    if (!write->live) {
        *number = options->initial;
        return options->if_present ? KV_NOT_FOUND : KV_OK;
    }
    struct kv_slice value = write->lookup.record.value;
    if (options->canonical && value_has_leading_zeros(value))
        return KV_NOT_A_NUMBER;
    return parse_i64_bytes(value.data, value.size, number) ? KV_OK : KV_NOT_A_NUMBER;
}

enum kv_status write_prepare_sum(struct write *write, int64_t delta,
                                 const struct kvstore_add_options *options,
                                 char text[INTEGER_BYTES], int64_t *sum)
{
    int64_t number, result;
    enum kv_status status = number_found(write, options, &number);
    if (status != KV_OK)
        return status;
    *sum = number;
    if (__builtin_add_overflow(number, delta, &result) ||
        (options->has_min && result < options->min) || (options->has_max && result > options->max))
        return KV_OUT_OF_BOUNDS;
    write->record.value = kv_slice(text, format_i64(result, text));
    write->record.expiry_ms = write->live ? write->lookup.record.expiry_ms : options->expiry_ms;
    *sum = result;
    return KV_OK;
}

static enum kv_status number_add(struct write *write, int64_t delta,
                                 const struct kvstore_add_options *options, int64_t *sum,
                                 struct kvstore_written *written)
{
    char text[INTEGER_BYTES];
    int64_t result;
    enum kv_status status = write_prepare_sum(write, delta, options, text, &result);
    if (status == KV_OUT_OF_BOUNDS)
        *sum = result;
    if (status != KV_OK)
        return status;
    status = write_append(write, kv_slice(NULL, 0), written);
    if (status == KV_OK)
        *sum = result;
    return status;
}

enum kv_status kvstore_add(struct kvstore *store, struct kv_slice key, int64_t delta,
                           const struct kvstore_add_options *options, int64_t *sum,
                           struct kvstore_written *written)
{
    static const struct kvstore_add_options no_options;
    if (!options)
        options = &no_options;
    if (!RESERVED_IS_CLEAR(options->reserved) || !RESERVED_BYTES_ARE_CLEAR(options->reserved_bytes))
        return KV_UNSUPPORTED; /* of a newer header */
    int64_t unwanted;
    struct write write;
    enum kv_status status;
    unsigned tries = 0;
    do {
        status = write_begin(store, key, false, &write);
        if (status != KV_OK)
            return status;
        status =
            write_end(&write, number_add(&write, delta, options, sum ? sum : &unwanted, written));
    } while (status != KV_OK && write_may_repeat(store, key, status, &tries));
    return status;
}

void write_keep_entry(struct write *write)
{
    write->record.value = write->lookup.record.value;
    write->record.expiry_ms = write->lookup.record.expiry_ms;
}

/* Begins a write that needs the entry that is there, or, in the first try, does all of it without
 * the lock, if the values are large. True: the lock is held, and the entry is verified. Else
 * *status is what came of the write. */
static bool begin_with_entry(struct kvstore *store, struct kv_slice key, bool first_try,
                             const struct apart_write *asked, struct kvstore_written *written,
                             struct write *write, enum kv_status *status)
{
    *status = write_begin(store, key, true, write);
    if (*status != KV_OK)
        return false;
    uint64_t there = write->lookup.found ? write->lookup.record.value.size : 0;
    if (first_try && there + asked->value.size >= PLACE_MIN_BYTES) {
        (void)write_end(write, KV_OK);
        *status = write_apart(store, key, asked, written);
        if (*status != KV_BUSY)
            return false;
        *status = write_begin(store, key, true, write);
        if (*status != KV_OK)
            return false;
    }
    *status = write_verify(write);
    if (*status != KV_OK)
        (void)write_end(write, *status);
    return *status == KV_OK;
}

enum kv_status kvstore_append(struct kvstore *store, struct kv_slice key, struct kv_slice suffix,
                              uint32_t *value_bytes, struct kvstore_written *written)
{
    const struct apart_write asked = {
        .kind = APART_APPEND, .value = suffix, .value_bytes = value_bytes};
    struct write write;
    enum kv_status status;
    unsigned tries = 0;
    do {
        if (!begin_with_entry(store, key, tries == 0, &asked, written, &write, &status))
            return status;
        if (write.live)
            write_keep_entry(&write);
        status = write_append(&write, suffix, written);
        if (status == KV_OK && value_bytes)
            *value_bytes = (uint32_t)(write.record.value.size + suffix.size);
        write_end(&write, status);
    } while (status != KV_OK && write_may_repeat(store, key, status, &tries));
    return status;
}

enum kv_status kvstore_exchange_to(struct kvstore *store, struct kv_slice key,
                                   struct kv_slice value, const struct kvstore_put_options *options,
                                   kvstore_place place, void *context, bool *found,
                                   struct kvstore_entry *entry, struct kvstore_written *written)
{
    static const struct kvstore_put_options no_options;
    struct write write;
    enum kv_status status;
    unsigned tries = 0;
    const struct apart_write asked = {.kind = APART_EXCHANGE,
                                      .value = value,
                                      .options = options ? options : &no_options,
                                      .place = place,
                                      .context = context,
                                      .found = found,
                                      .entry = entry};
    if (!options)
        options = &no_options;
    bool may_be_apart = options->give_version == 0;
    do {
        if (!begin_with_entry(store, key, tries == 0 && may_be_apart, &asked, written, &write,
                              &status))
            return status;
        status = write_check(&write, options);
        if (status == KV_OK && found)
            *found = write.live;
        if (status == KV_OK && write.live)
            status = record_give(&write.lookup.record, place, context, entry);
        if (status == KV_OK) {
            write.record.value = value;
            write.record.expiry_ms = write_expiry(&write, options);
            status = write_append(&write, kv_slice(NULL, 0), written);
        }
        write_end(&write, status);
    } while (status != KV_OK && write_may_repeat(store, key, status, &tries));
    return status;
}

enum kv_status kvstore_exchange(struct kvstore *store, struct kv_slice key, struct kv_slice value,
                                const struct kvstore_put_options *options, void *buffer,
                                size_t capacity, bool *found, struct kvstore_entry *entry,
                                struct kvstore_written *written)
{
    struct buffer_place place = {buffer, capacity};
    return kvstore_exchange_to(store, key, value, options, place_in_buffer, &place, found, entry,
                               written);
}

enum kv_status kvstore_touch(struct kvstore *store, struct kv_slice key, uint64_t expiry_ms,
                             struct kvstore_written *written)
{
    const struct apart_write asked = {.kind = APART_TOUCH, .expiry_ms = expiry_ms};
    struct write write;
    enum kv_status status;
    unsigned tries = 0;
    do {
        if (!begin_with_entry(store, key, tries == 0, &asked, written, &write, &status))
            return status;
        if (!write.live)
            return write_end(&write, KV_NOT_FOUND);
        write_keep_entry(&write);
        write.record.expiry_ms = expiry_ms;
        status = write_end(&write, write_append(&write, kv_slice(NULL, 0), written));
    } while (status != KV_OK && write_may_repeat(store, key, status, &tries));
    return status;
}
