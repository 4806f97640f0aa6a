#include "tests/support/wire_samples.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/range_value.h"
#include "wire/transact_value.h"

/* Samples ----------------------------------------------------------------------------------- */

static struct kv_slice sample_slice(struct random_state *random, uint8_t *bytes, size_t min_size)
{
    size_t size = min_size + random_below(random, WIRE_SAMPLE_MAX_BYTES - min_size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_next(random);
    return kv_slice(bytes, size);
}

/* One of the flags, or 0; the array ends with 0. */
static uint16_t pick_flag(struct random_state *random, const uint16_t *flags)
{
    size_t count = 0;
    while (flags[count])
        count++;
    return flags[random_below(random, count + 1)];
}

static uint16_t sample_flags(struct random_state *random, enum wire_opcode opcode)
{
    static const uint16_t expiry[] = {WIRE_HAS_EXPIRY, WIRE_KEEP_EXPIRY, 0};
    static const uint16_t has_expiry[] = {WIRE_HAS_EXPIRY, 0};
    static const uint16_t given[] = {WIRE_GIVE_VERSION, WIRE_GIVE_VERSION | WIRE_IF_ABSENT, 0};
    static const uint16_t condition[] = {WIRE_HAS_VERSION, WIRE_IF_ABSENT, WIRE_IF_PRESENT, 0};
    static const uint16_t version[] = {WIRE_HAS_VERSION, 0};
    static const uint16_t sync[] = {WIRE_SYNC_INTERVAL, WIRE_SYNC_ALWAYS, 0};
    static const uint16_t segment[] = {WIRE_VALUE_IN_SEGMENT, 0};
    static const uint16_t bounds[] = {WIRE_HAS_BOUNDS, 0};
    static const uint16_t create[] = {WIRE_CREATE, 0};
    static const uint16_t canonical[] = {WIRE_CANONICAL, 0};
    static const uint16_t keys_only[] = {WIRE_KEYS_ONLY, 0};
    static const uint16_t tell[] = {WIRE_TELL_TRANSACTIONS, 0};
    if (opcode == WIRE_OP_PUT && random_below(random, 4) == 0)
        return pick_flag(random, expiry) | pick_flag(random, given) | pick_flag(random, sync);
    switch (opcode) {
    case WIRE_OP_PUT:
    case WIRE_OP_EXCHANGE:
        return pick_flag(random, expiry) | pick_flag(random, condition) | pick_flag(random, sync) |
               pick_flag(random, segment);
    case WIRE_OP_DELETE:
        return pick_flag(random, version) | pick_flag(random, sync);
    case WIRE_OP_ADD:
        return pick_flag(random, has_expiry) | pick_flag(random, bounds) |
               pick_flag(random, create) | pick_flag(random, canonical) | pick_flag(random, sync);
    case WIRE_OP_APPEND:
        return pick_flag(random, segment) | pick_flag(random, sync);
    case WIRE_OP_TOUCH:
        return pick_flag(random, has_expiry) | pick_flag(random, sync);
    case WIRE_OP_SCAN:
        return pick_flag(random, keys_only);
    case WIRE_OP_WATCH:
        return pick_flag(random, keys_only) | pick_flag(random, tell) | pick_flag(random, segment);
    case WIRE_OP_PING:
    case WIRE_OP_ADMIN:
        return pick_flag(random, segment);
    case WIRE_OP_TRANSACT:
        return pick_flag(random, segment) | pick_flag(random, sync);
    case WIRE_OP_RANGE:
        return pick_flag(random, keys_only);
    case WIRE_OP_RANGE_DELETE:
        return pick_flag(random, sync);
    case WIRE_OP_RANGE_COUNT:
    case WIRE_OP_GET:
    case WIRE_OP_EXISTS:
    case WIRE_OP_STATS:
    case WIRE_OP_SYNC:
    case WIRE_OP_BACKUP:
        break;
    }
    return 0;
}

bool wire_sample_has_no_key(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_PING || opcode == WIRE_OP_SYNC || opcode == WIRE_OP_TRANSACT;
}

/* A guard and a step, or any bytes. */
static struct kv_slice sample_transaction(struct random_state *random,
                                          struct wire_sample_bytes *bytes)
{
    if (random_below(random, 2) == 0)
        return sample_slice(random, bytes->value, 0);
    struct wire_guard guard = {.kind = (enum wire_guard_kind)(1 + random_below(random, 4)),
                               .key = kv_slice_from_string("k"),
                               .version = 7};
    struct wire_operation step = {.opcode = WIRE_OP_TOUCH, .key = kv_slice_from_string("k")};
    struct wire_transaction transaction = {.guards = 1, .then = 1};
    struct write_cursor cursor = write_cursor(bytes->value, sizeof bytes->value);
    wire_put_transaction(&cursor, &transaction);
    wire_put_guard(&cursor, &guard);
    wire_put_operation(&cursor, &step);
    return kv_slice(bytes->value, write_cursor_used(&cursor));
}

/* Bounds of a range, or any bytes. */
static struct kv_slice sample_bounds(struct random_state *random, struct wire_sample_bytes *bytes)
{
    struct wire_range_bounds bounds = {.limit = (uint32_t)random_below(random, 5),
                                       .way = (uint16_t)random_below(random, 4),
                                       .to = kv_slice("kz", random_below(random, 3)),
                                       .prefix = kv_slice("key", random_below(random, 4))};
    if (random_below(random, 2) == 0)
        return sample_slice(random, bytes->value, 0);
    struct write_cursor cursor = write_cursor(bytes->value, sizeof bytes->value);
    wire_put_range_bounds(&cursor, &bounds);
    return kv_slice(bytes->value, write_cursor_used(&cursor));
}

static void sample_add(struct random_state *random, struct wire_operation *operation)
{
    operation->delta = (int64_t)random_next(random);
    if (operation->flags & WIRE_HAS_BOUNDS) {
        operation->min = -(int64_t)random_below(random, INT64_MAX);
        operation->max = (int64_t)random_below(random, INT64_MAX);
    }
    if (operation->flags & WIRE_CREATE)
        operation->initial = (int64_t)random_next(random);
}

struct wire_operation wire_sample_operation(struct random_state *random, enum wire_opcode opcode,
                                            struct wire_sample_bytes *bytes)
{
    struct wire_operation operation = {.opcode = opcode,
                                       .flags = sample_flags(random, opcode),
                                       .min = INT64_MIN,
                                       .max = INT64_MAX};
    bool key_optional = opcode == WIRE_OP_SCAN || opcode == WIRE_OP_STATS ||
                        opcode == WIRE_OP_WATCH || wire_is_range(opcode);
    if (!wire_sample_has_no_key(opcode))
        operation.key = sample_slice(random, bytes->key, key_optional ? 0 : 1);
    if (operation.flags & WIRE_HAS_EXPIRY)
        operation.expiry_ms = random_next(random);
    if (operation.flags & (WIRE_HAS_VERSION | WIRE_GIVE_VERSION))
        operation.version = random_next(random) | 1;
    if (opcode == WIRE_OP_ADD)
        sample_add(random, &operation);
    if (opcode == WIRE_OP_SCAN || opcode == WIRE_OP_WATCH) {
        operation.cursor = random_next(random);
        operation.limit = (uint32_t)random_next(random);
    }
    if (operation.flags & WIRE_VALUE_IN_SEGMENT) {
        operation.value = kv_slice(NULL, random_below(random, WIRE_MAX_VALUE_BYTES + 1));
        operation.value_offset = (uint32_t)random_next(random);
    } else if (opcode == WIRE_OP_PUT || opcode == WIRE_OP_EXCHANGE || opcode == WIRE_OP_APPEND ||
               opcode == WIRE_OP_PING || opcode == WIRE_OP_ADMIN || opcode == WIRE_OP_WATCH) {
        operation.value = sample_slice(random, bytes->value, 0);
    } else if (opcode == WIRE_OP_TRANSACT) {
        operation.value = sample_transaction(random, bytes);
    } else if (wire_is_range(opcode)) {
        operation.value = sample_bounds(random, bytes);
    }
    return operation;
}

struct wire_result wire_sample_result(struct random_state *random, struct wire_sample_bytes *bytes)
{
    struct wire_result result = {.status = (enum kv_status)random_below(random, KV_STATUS_COUNT)};
    result.flags = (uint16_t)random_below(random, WIRE_RESULT_FOUND << 1);
    if (result.flags & WIRE_RESULT_IN_SEGMENT)
        result.flags &= (uint16_t)~WIRE_RESULT_NO_VALUE;
    if (result.flags & WIRE_RESULT_HAS_VERSION)
        result.version = random_next(random);
    if (result.flags & WIRE_RESULT_HAS_EXPIRY)
        result.expiry_ms = random_next(random);
    if (result.flags & WIRE_RESULT_HAS_NUMBER)
        result.number = (int64_t)random_next(random);
    if (result.flags & WIRE_RESULT_IN_SEGMENT)
        result.value_offset = (uint32_t)random_next(random);
    if (result.flags & (WIRE_RESULT_IN_SEGMENT | WIRE_RESULT_NO_VALUE))
        result.value = kv_slice(NULL, (uint32_t)random_next(random));
    else
        result.value = sample_slice(random, bytes->value, 0);
    return result;
}

struct wire_scan_entry wire_sample_entry(struct random_state *random,
                                         struct wire_sample_bytes *bytes)
{
    return (struct wire_scan_entry){.key = sample_slice(random, bytes->key, 1),
                                    .value = sample_slice(random, bytes->value, 0),
                                    .version = random_next(random),
                                    .expiry_ms = random_below(random, 2) ? random_next(random) : 0};
}

struct wire_header wire_sample_header(struct random_state *random, enum wire_kind kind)
{
    return (struct wire_header){.kind = kind,
                                .status = (enum kv_status)random_below(random, KV_STATUS_COUNT),
                                .session = (uint32_t)random_next(random),
                                .count = (uint16_t)random_below(random, WIRE_MAX_OPERATIONS + 1),
                                .request_id = random_next(random),
                                .secret = random_next(random),
                                .deadline_ms = random_next(random),
                                .window_offset = (uint32_t)random_next(random),
                                .window_bytes = (uint32_t)random_next(random)};
}

static void sample_hello(struct random_state *random, struct write_cursor *cursor)
{
    struct wire_hello hello = {.nonce = random_next(random),
                               .pid = 1 + (uint32_t)random_below(random, 4194304),
                               .reply_depth = (uint16_t)(1 + random_below(random, 10)),
                               .threads = (uint16_t)random_next(random),
                               .reply_bytes = 512,
                               .reply_queue = kv_slice_from_string("/serverk.c77.1")};
    wire_put_hello(cursor, &hello);
}

static void sample_welcome(struct random_state *random, struct write_cursor *cursor)
{
    struct wire_welcome welcome = {.cookie = random_next(random),
                                   .instance = random_next(random),
                                   .max_value_bytes = 1 << 20,
                                   .server_pid = (uint32_t)random_below(random, 4194304),
                                   .credits = 4,
                                   .lane = (uint16_t)random_below(random, 8),
                                   .bulk_lane = (uint16_t)random_below(random, 2),
                                   .lane_bytes = 1024,
                                   .bulk_bytes = 8192};
    wire_put_welcome(cursor, &welcome);
}

static void sample_part(struct random_state *random, enum wire_kind kind,
                        struct write_cursor *cursor)
{
    struct wire_sample_bytes bytes;
    struct wire_part part = {.offset = (uint32_t)random_below(random, 1 << 20)};
    if (kind != WIRE_MORE) {
        part.bytes = sample_slice(random, bytes.value, 1);
        part.total_bytes = 1u << 21;
    }
    wire_put_part(cursor, &part);
}

/* Operations or results, and how many. */
static uint16_t sample_batch(struct random_state *random, enum wire_kind kind,
                             struct write_cursor *cursor)
{
    uint16_t count = (uint16_t)random_below(random, 4);
    for (uint16_t i = 0; i < count; i++) {
        struct wire_sample_bytes bytes;
        if (kind == WIRE_REQUEST) {
            enum wire_opcode opcode =
                (enum wire_opcode)(1 + random_below(random, WIRE_OPCODES - 1));
            struct wire_operation operation = wire_sample_operation(random, opcode, &bytes);
            wire_put_operation(cursor, &operation);
        } else {
            struct wire_result result = wire_sample_result(random, &bytes);
            wire_put_result(cursor, &result);
        }
    }
    return count;
}

size_t wire_sample_message(struct random_state *random, enum wire_kind kind, uint8_t *message,
                           size_t capacity)
{
    struct write_cursor cursor = write_cursor(message, capacity);
    struct wire_header header = wire_sample_header(random, kind);
    header.count = 0;
    wire_put_header(&cursor, &header);
    switch (kind) {
    case WIRE_HELLO:
        sample_hello(random, &cursor);
        break;
    case WIRE_WELCOME:
        sample_welcome(random, &cursor);
        break;
    case WIRE_REFUSED:
        write_bytes(&cursor, "no room", 7);
        break;
    case WIRE_REQUEST:
    case WIRE_REPLY:
        wire_patch_count(message, sample_batch(random, kind, &cursor));
        break;
    case WIRE_SEGMENT: {
        struct wire_segment_offer offer = {1 << 20, kv_slice_from_string("/serverk.s77.1")};
        wire_put_segment_offer(&cursor, &offer);
        break;
    }
    case WIRE_PART:
    case WIRE_REPLY_PART:
    case WIRE_MORE:
        sample_part(random, kind, &cursor);
        break;
    case WIRE_BYE:
        break;
    }
    if (cursor.failed) {
        fprintf(stderr, "wire_sample_message: %zu bytes are too few\n", capacity);
        abort();
    }
    return write_cursor_used(&cursor);
}

/* Reading ----------------------------------------------------------------------------------- */

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wire_read_whole: %s\n", what);
        abort();
    }
}

/* The slice's bytes lie in the message (a sanitizer sees it if they do not exist at all). */
static void touch(struct kv_slice slice, const uint8_t *message, size_t size)
{
    if (!slice.data)
        return;
    const uint8_t *data = slice.data;
    demand(data >= message && slice.size <= size && data <= message + (size - slice.size),
           "a slice lies outside of the message");
    static volatile uint8_t sink;
    for (size_t i = 0; i < slice.size; i++)
        sink = data[i];
    (void)sink;
}

/* What was read from [start, end) must be what writing it gives. */
static void demand_same(const uint8_t *start, const uint8_t *end, const uint8_t *again,
                        size_t again_size, bool written)
{
    demand(written && again_size == (size_t)(end - start) && memcmp(start, again, again_size) == 0,
           "encoded again it has other bytes");
}

/* A guard of a transaction, and what writing it gives. */
static enum kv_status read_transaction_guard(struct read_cursor *cursor, uint8_t *again,
                                             struct kv_slice message)
{
    const uint8_t *start = cursor->at;
    struct wire_guard guard;
    enum kv_status status = wire_get_guard(cursor, &guard);
    if (status != KV_OK)
        return status;
    touch(guard.key, message.data, message.size);
    touch(guard.value, message.data, message.size);
    struct write_cursor writer = write_cursor(again, message.size);
    bool written = wire_put_guard(&writer, &guard);
    demand(wire_guard_size(&guard) == write_cursor_used(&writer), "a guard has another size");
    demand_same(start, cursor->at, again, write_cursor_used(&writer), written);
    return KV_OK;
}

/* As far as it goes: what is in the value does not matter to the message. */
static void read_transaction(struct kv_slice value, uint8_t *again, struct kv_slice message)
{
    struct wire_transaction transaction;
    if (!value.data)
        return;
    struct read_cursor cursor = read_cursor(value.data, value.size);
    if (wire_get_transaction(&cursor, &transaction) != KV_OK)
        return;
    for (unsigned i = 0; i < transaction.guards; i++)
        if (read_transaction_guard(&cursor, again, message) != KV_OK)
            return;
    for (unsigned i = 0; i < (unsigned)transaction.then + transaction.otherwise; i++) {
        struct wire_operation step;
        enum kv_status status = wire_get_step(&cursor, &step);
        demand(status == KV_OK || status == KV_BAD_REQUEST || status == KV_UNSUPPORTED,
               "a step has a status without a name");
        if (status != KV_OK)
            return;
        touch(step.key, message.data, message.size);
        touch(step.value, message.data, message.size);
    }
}

/* Likewise, what a range asks for. */
static void read_bounds(struct kv_slice value, uint8_t *again, struct kv_slice message)
{
    struct wire_range_bounds bounds;
    enum kv_status status = wire_get_range_bounds(value, &bounds);
    demand(status == KV_OK || status == KV_BAD_REQUEST || status == KV_UNSUPPORTED,
           "bounds have a status without a name");
    if (status != KV_OK)
        return;
    const uint8_t *start = value.data;
    struct write_cursor writer = write_cursor(again, message.size);
    touch(bounds.to, message.data, message.size);
    touch(bounds.prefix, message.data, message.size);
    bool written = wire_put_range_bounds(&writer, &bounds);
    demand_same(start, start + value.size, again, write_cursor_used(&writer), written);
}

/* Likewise, what a result has of one. */
static void read_outcome(struct kv_slice value, const uint8_t *message, size_t size)
{
    struct read_cursor cursor = read_cursor(value.data, value.size);
    struct wire_outcome outcome;
    struct wire_result result;
    if (wire_get_outcome(&cursor, &outcome) != KV_OK)
        return;
    for (unsigned i = 0; i < outcome.results && wire_get_result(&cursor, &result) == KV_OK; i++)
        touch(result.value, message, size);
}

static enum kv_status read_operations(struct read_cursor *cursor, unsigned count,
                                      const uint8_t *message, size_t size)
{
    enum kv_status status = KV_OK;
    uint8_t *again = malloc(size);
    demand(again != NULL, "no memory");
    for (unsigned i = 0; i < count && status == KV_OK; i++) {
        const uint8_t *start = cursor->at;
        struct wire_operation operation;
        status = wire_get_operation(cursor, &operation);
        if (status != KV_OK)
            break;
        touch(operation.key, message, size);
        touch(operation.value, message, size);
        struct write_cursor writer = write_cursor(again, size);
        bool written = wire_put_operation(&writer, &operation);
        demand_same(start, cursor->at, again, write_cursor_used(&writer), written);
        if (operation.opcode == WIRE_OP_TRANSACT)
            read_transaction(operation.value, again, kv_slice(message, size));
        if (wire_is_range(operation.opcode) && operation.value.data)
            read_bounds(operation.value, again, kv_slice(message, size));
    }
    free(again);
    return status;
}

static void read_entries(struct kv_slice run, const uint8_t *message, size_t size)
{
    struct read_cursor cursor = read_cursor(run.data, run.size);
    struct wire_scan_entry entry;
    while (read_cursor_left(&cursor) > 0 && wire_get_scan_entry(&cursor, &entry) == KV_OK) {
        touch(entry.key, message, size);
        touch(entry.value, message, size);
    }
}

static enum kv_status read_results(struct read_cursor *cursor, unsigned count,
                                   const uint8_t *message, size_t size)
{
    enum kv_status status = KV_OK;
    uint8_t *again = malloc(size);
    demand(again != NULL, "no memory");
    for (unsigned i = 0; i < count && status == KV_OK; i++) {
        const uint8_t *start = cursor->at;
        struct wire_result result;
        status = wire_get_result(cursor, &result);
        if (status != KV_OK)
            break;
        touch(result.value, message, size);
        if (result.value.data)
            read_entries(result.value, message, size);
        if (result.value.data)
            read_outcome(result.value, message, size);
        struct write_cursor writer = write_cursor(again, size);
        bool written = wire_put_result(&writer, &result);
        demand_same(start, cursor->at, again, write_cursor_used(&writer), written);
    }
    free(again);
    return status;
}

static enum kv_status read_session_body(struct read_cursor *cursor, enum wire_kind kind,
                                        const uint8_t *message, size_t size)
{
    enum kv_status status;
    struct wire_hello hello;
    struct wire_welcome welcome;
    struct wire_segment_offer offer;
    struct wire_part part;
    switch (kind) {
    case WIRE_HELLO:
        status = wire_get_hello(cursor, &hello);
        if (status == KV_OK)
            touch(hello.reply_queue, message, size);
        return status;
    case WIRE_WELCOME:
        return wire_get_welcome(cursor, &welcome);
    case WIRE_SEGMENT:
        status = wire_get_segment_offer(cursor, &offer);
        if (status == KV_OK)
            touch(offer.name, message, size);
        return status;
    case WIRE_PART:
    case WIRE_REPLY_PART:
    case WIRE_MORE:
        status = wire_get_part(cursor, &part);
        if (status == KV_OK)
            touch(part.bytes, message, size);
        return status;
    case WIRE_REFUSED:
    case WIRE_BYE:
    case WIRE_REQUEST:
    case WIRE_REPLY:
        break;
    }
    return KV_OK;
}

enum kv_status wire_read_whole(const uint8_t *message, size_t size)
{
    struct read_cursor cursor = read_cursor(message, size);
    struct wire_header header;
    enum kv_status status = wire_get_header(&cursor, &header);
    if (status != KV_OK)
        return status;
    if (header.kind == WIRE_REQUEST)
        return read_operations(&cursor, header.count, message, size);
    if (header.kind == WIRE_REPLY)
        return read_results(&cursor, header.count, message, size);
    return read_session_body(&cursor, header.kind, message, size);
}
