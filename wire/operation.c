#include "wire/operation.h"

#include "common/assert/assert.h"

/* Whether an operation has a key. */
enum key_rule {
    KEY_NONE,
    KEY_OPTIONAL, /* an empty key stands for everything */
    KEY_REQUIRED
};

struct operation_rule {
    uint16_t allowed_flags;
    uint8_t known;            /* 0: a gap in the table */
    uint8_t key;              /* enum key_rule */
    uint32_t max_value_bytes; /* 0: it has none */
};

#define SYNC_FLAGS      (WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS)
#define CONDITION_FLAGS (WIRE_HAS_VERSION | WIRE_IF_ABSENT | WIRE_IF_PRESENT)
#define VERSION_FLAGS   (WIRE_HAS_VERSION | WIRE_GIVE_VERSION)
#define EXPIRY_FLAGS    (WIRE_HAS_EXPIRY | WIRE_KEEP_EXPIRY)
#define PUT_FLAGS       (EXPIRY_FLAGS | CONDITION_FLAGS | WIRE_VALUE_IN_SEGMENT | SYNC_FLAGS)
#define ADD_MEANING     (WIRE_HAS_BOUNDS | WIRE_CREATE | WIRE_CANONICAL)
#define ADD_FLAGS       (WIRE_HAS_EXPIRY | ADD_MEANING | SYNC_FLAGS)
#define ANY_VALUE       WIRE_MAX_VALUE_BYTES

static const struct operation_rule rules[] = {
    [WIRE_OP_GET] = {0, 1, KEY_REQUIRED, 0},
    [WIRE_OP_EXISTS] = {0, 1, KEY_REQUIRED, 0},
    [WIRE_OP_PUT] = {PUT_FLAGS | WIRE_GIVE_VERSION, 1, KEY_REQUIRED, ANY_VALUE},
    [WIRE_OP_DELETE] = {WIRE_HAS_VERSION | SYNC_FLAGS, 1, KEY_REQUIRED, 0},
    [WIRE_OP_ADD] = {ADD_FLAGS, 1, KEY_REQUIRED, 0},
    [WIRE_OP_APPEND] = {WIRE_VALUE_IN_SEGMENT | SYNC_FLAGS, 1, KEY_REQUIRED, ANY_VALUE},
    [WIRE_OP_EXCHANGE] = {PUT_FLAGS, 1, KEY_REQUIRED, ANY_VALUE},
    [WIRE_OP_TOUCH] = {WIRE_HAS_EXPIRY | SYNC_FLAGS, 1, KEY_REQUIRED, 0},
    [WIRE_OP_SCAN] = {WIRE_KEYS_ONLY | WIRE_ATOMIC, 1, KEY_OPTIONAL, 0},
    [WIRE_OP_STATS] = {0, 1, KEY_OPTIONAL, 0},
    [WIRE_OP_PING] = {WIRE_VALUE_IN_SEGMENT, 1, KEY_NONE, ANY_VALUE},
    [WIRE_OP_SYNC] = {0, 1, KEY_NONE, 0},
    [WIRE_OP_BACKUP] = {0, 1, KEY_REQUIRED, 0},
    [WIRE_OP_ADMIN] = {WIRE_VALUE_IN_SEGMENT, 1, KEY_REQUIRED, ANY_VALUE},
    [WIRE_OP_WATCH] = {WIRE_KEYS_ONLY | WIRE_VALUE_IN_SEGMENT | WIRE_TELL_TRANSACTIONS, 1,
                       KEY_OPTIONAL, ANY_VALUE},
    [WIRE_OP_TRANSACT] = {WIRE_VALUE_IN_SEGMENT | SYNC_FLAGS, 1, KEY_NONE,
                          ANY_VALUE + WIRE_TRANSACT_EXTRA_BYTES},
    [WIRE_OP_RANGE] = {WIRE_KEYS_ONLY | WIRE_ATOMIC | WIRE_VALUE_IN_SEGMENT, 1, KEY_OPTIONAL,
                       WIRE_RANGE_MAX_BYTES},
    [WIRE_OP_RANGE_COUNT] = {WIRE_VALUE_IN_SEGMENT, 1, KEY_OPTIONAL, WIRE_RANGE_MAX_BYTES},
    [WIRE_OP_RANGE_DELETE] = {WIRE_VALUE_IN_SEGMENT | SYNC_FLAGS, 1, KEY_OPTIONAL,
                              WIRE_RANGE_MAX_BYTES},
};

#define RESULT_FLAGS                                                             \
    (WIRE_RESULT_HAS_VERSION | WIRE_RESULT_HAS_EXPIRY | WIRE_RESULT_HAS_NUMBER | \
     WIRE_RESULT_IN_SEGMENT | WIRE_RESULT_NO_VALUE | WIRE_RESULT_FOUND)

#define SCAN_ENTRY_FIXED_BYTES 16u

_Static_assert(sizeof rules / sizeof rules[0] == WIRE_OPCODES, "an opcode has no rule");
_Static_assert(WIRE_RESULT_MAX_FIELD_BYTES == WIRE_RESULT_FIXED_BYTES + 3 * sizeof(uint64_t),
               "version, expiry_ms and number");
_Static_assert(RESULT_FLAGS <= UINT16_MAX && PUT_FLAGS <= UINT16_MAX && ADD_FLAGS <= UINT16_MAX &&
                   WIRE_GIVE_VERSION <= UINT16_MAX,
               "flags have 16 bits");

static bool more_than_one_bit(unsigned flags)
{
    return (flags & (flags - 1)) != 0;
}

/* Operations -------------------------------------------------------------------------------- */

/* Returns the size of the fields between the fixed part and the key. */
static size_t operation_field_bytes(unsigned opcode, unsigned flags)
{
    size_t bytes = (flags & WIRE_HAS_EXPIRY ? 8u : 0u) + (flags & VERSION_FLAGS ? 8u : 0u);
    if (opcode == WIRE_OP_ADD)
        bytes += 8u + (flags & WIRE_HAS_BOUNDS ? 16u : 0u) + (flags & WIRE_CREATE ? 8u : 0u);
    else if (opcode == WIRE_OP_SCAN || opcode == WIRE_OP_WATCH)
        bytes += 12u;
    return bytes;
}

size_t wire_operation_size(const struct wire_operation *operation)
{
    return WIRE_OPERATION_FIXED_BYTES + operation_field_bytes(operation->opcode, operation->flags) +
           operation->key.size +
           (operation->flags & WIRE_VALUE_IN_SEGMENT ? 4u : operation->value.size);
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    store_u64(at, value);
    return at + sizeof value;
}

/* Writes the fields, operation_field_bytes() in all, at `at`, and returns their end. */
static uint8_t *put_operation_fields(uint8_t *at, const struct wire_operation *operation)
{
    if (operation->flags & WIRE_HAS_EXPIRY)
        at = put_u64(at, operation->expiry_ms);
    if (operation->flags & VERSION_FLAGS)
        at = put_u64(at, operation->version);
    if (operation->opcode == WIRE_OP_ADD) {
        at = put_u64(at, (uint64_t)operation->delta);
        if (operation->flags & WIRE_HAS_BOUNDS) {
            at = put_u64(at, (uint64_t)operation->min);
            at = put_u64(at, (uint64_t)operation->max);
        }
        if (operation->flags & WIRE_CREATE)
            at = put_u64(at, (uint64_t)operation->initial);
    } else if (operation->opcode == WIRE_OP_SCAN || operation->opcode == WIRE_OP_WATCH) {
        at = put_u64(at, operation->cursor);
        store_u32(at, operation->limit);
        at += sizeof operation->limit;
    }
    return at;
}

bool wire_put_operation(struct write_cursor *cursor, const struct wire_operation *operation)
{
    struct kv_slice key = operation->key, value = operation->value;
    bool in_segment = operation->flags & WIRE_VALUE_IN_SEGMENT;
    size_t field_bytes = operation_field_bytes(operation->opcode, operation->flags);
    size_t size =
        WIRE_OPERATION_FIXED_BYTES + field_bytes + key.size + (in_segment ? 4u : value.size);
    size_t max_value_bytes = WIRE_MAX_VALUE_BYTES + wire_extra_value_bytes(operation->opcode);
    if (key.size > WIRE_MAX_KEY_BYTES || value.size > max_value_bytes ||
        size > write_cursor_left(cursor) || cursor->failed)
        return false;
    uint8_t *at = write_room(cursor, size);
    at[0] = (uint8_t)operation->opcode;
    at[1] = 0;
    store_u16(at + 2, operation->flags);
    store_u16(at + 4, (uint16_t)key.size);
    store_u16(at + 6, 0);
    store_u32(at + 8, (uint32_t)value.size);
    at += WIRE_OPERATION_FIXED_BYTES;
    if (field_bytes > 0)
        at = put_operation_fields(at, operation);
    copy_bytes(at, key.data, key.size);
    at += key.size;
    if (in_segment)
        store_u32(at, operation->value_offset);
    else
        copy_bytes(at, value.data, value.size);
    KV_ASSERT(at + (in_segment ? 4u : value.size) == cursor->at);
    return true;
}

/* Reads what put_operation_fields wrote; a field that is absent gets its default. (Each field is
 * set once: clearing the whole struct first took longer than decoding.) */
static void get_operation_fields(struct read_cursor *cursor, struct wire_operation *operation)
{
    unsigned flags = operation->flags;
    bool add = operation->opcode == WIRE_OP_ADD;
    bool scan = operation->opcode == WIRE_OP_SCAN || operation->opcode == WIRE_OP_WATCH;
    operation->expiry_ms = flags & WIRE_HAS_EXPIRY ? read_u64(cursor) : 0;
    operation->version = flags & VERSION_FLAGS ? read_u64(cursor) : 0;
    operation->delta = add ? (int64_t)read_u64(cursor) : 0;
    operation->min = flags & WIRE_HAS_BOUNDS ? (int64_t)read_u64(cursor) : INT64_MIN;
    operation->max = flags & WIRE_HAS_BOUNDS ? (int64_t)read_u64(cursor) : INT64_MAX;
    operation->initial = flags & WIRE_CREATE ? (int64_t)read_u64(cursor) : 0;
    operation->cursor = scan ? read_u64(cursor) : 0;
    operation->limit = scan ? read_u32(cursor) : 0;
}

static bool operation_contradicts_itself(const struct wire_operation *operation)
{
    unsigned flags = operation->flags;
    return more_than_one_bit(flags & CONDITION_FLAGS) || more_than_one_bit(flags & VERSION_FLAGS) ||
           more_than_one_bit(flags & EXPIRY_FLAGS) || more_than_one_bit(flags & SYNC_FLAGS) ||
           ((flags & VERSION_FLAGS) && operation->version == 0) || operation->min > operation->max;
}

enum kv_status wire_get_operation(struct read_cursor *cursor, struct wire_operation *operation)
{
    const uint8_t *fixed = read_bytes(cursor, WIRE_OPERATION_FIXED_BYTES);
    if (!fixed)
        return KV_BAD_REQUEST;
    unsigned opcode = fixed[0];
    unsigned flags = load_u16(fixed + 2);
    if (opcode >= sizeof rules / sizeof rules[0] || !rules[opcode].known)
        return KV_UNSUPPORTED;
    const struct operation_rule *rule = &rules[opcode];
    if ((flags & ~(unsigned)rule->allowed_flags) || fixed[1] != 0 || load_u16(fixed + 6) != 0)
        return KV_UNSUPPORTED;
    size_t key_bytes = load_u16(fixed + 4);
    size_t value_bytes = load_u32(fixed + 8);
    if ((key_bytes == 0 ? rule->key == KEY_REQUIRED : rule->key == KEY_NONE) ||
        value_bytes > rule->max_value_bytes)
        return KV_BAD_REQUEST;

    operation->opcode = (enum wire_opcode)opcode;
    operation->flags = (uint16_t)flags;
    get_operation_fields(cursor, operation);
    operation->key = read_slice(cursor, key_bytes);
    if (flags & WIRE_VALUE_IN_SEGMENT) {
        operation->value = kv_slice(NULL, value_bytes);
        operation->value_offset = read_u32(cursor);
    } else {
        operation->value = read_slice(cursor, value_bytes);
        operation->value_offset = 0;
    }
    if (cursor->failed || operation_contradicts_itself(operation))
        return KV_BAD_REQUEST;
    return KV_OK;
}

/* Results ----------------------------------------------------------------------------------- */

/* Returns the size of a result with these flags, without its value. */
static size_t result_field_bytes(unsigned flags)
{
    return WIRE_RESULT_FIXED_BYTES + (flags & WIRE_RESULT_HAS_VERSION ? 8u : 0u) +
           (flags & WIRE_RESULT_HAS_EXPIRY ? 8u : 0u) + (flags & WIRE_RESULT_HAS_NUMBER ? 8u : 0u) +
           (flags & WIRE_RESULT_IN_SEGMENT ? 4u : 0u);
}

/* Returns the size of the value as far as it follows the fields. */
static size_t result_inline_bytes(const struct wire_result *result)
{
    bool elsewhere = result->flags & (WIRE_RESULT_IN_SEGMENT | WIRE_RESULT_NO_VALUE);
    return elsewhere ? 0 : result->value.size;
}

size_t wire_result_size(const struct wire_result *result)
{
    return result_field_bytes(result->flags) + result_inline_bytes(result);
}

bool wire_put_result_fields(struct write_cursor *cursor, const struct wire_result *result)
{
    unsigned flags = result->flags;
    if (result->value.size > UINT32_MAX || result_field_bytes(flags) > write_cursor_left(cursor))
        return false;
    uint8_t *fixed = write_room(cursor, WIRE_RESULT_FIXED_BYTES);
    if (!fixed)
        return false;
    store_u16(fixed, (uint16_t)result->status);
    store_u16(fixed + 2, result->flags);
    store_u32(fixed + 4, (uint32_t)result->value.size);
    if (flags & WIRE_RESULT_HAS_VERSION)
        write_u64(cursor, result->version);
    if (flags & WIRE_RESULT_HAS_EXPIRY)
        write_u64(cursor, result->expiry_ms);
    if (flags & WIRE_RESULT_HAS_NUMBER)
        write_u64(cursor, (uint64_t)result->number);
    if (flags & WIRE_RESULT_IN_SEGMENT)
        write_u32(cursor, result->value_offset);
    return true;
}

bool wire_put_result(struct write_cursor *cursor, const struct wire_result *result)
{
    if (wire_result_size(result) > write_cursor_left(cursor) ||
        !wire_put_result_fields(cursor, result))
        return false;
    write_bytes(cursor, result->value.data, result_inline_bytes(result));
    return true;
}

static uint64_t take_u64(const uint8_t **at)
{
    uint64_t value = load_u64(*at);
    *at += sizeof value;
    return value;
}

enum kv_status wire_get_result(struct read_cursor *cursor, struct wire_result *result)
{
    const uint8_t *fixed = read_bytes(cursor, WIRE_RESULT_FIXED_BYTES);
    if (!fixed)
        return KV_BAD_REQUEST;
    unsigned flags = load_u16(fixed + 2);
    size_t value_bytes = load_u32(fixed + 4);
    if (flags & ~(unsigned)RESULT_FLAGS)
        return KV_UNSUPPORTED;
    if ((flags & WIRE_RESULT_IN_SEGMENT) && (flags & WIRE_RESULT_NO_VALUE))
        return KV_BAD_REQUEST;
    const uint8_t *at = read_bytes(cursor, result_field_bytes(flags) - WIRE_RESULT_FIXED_BYTES);
    if (!at)
        return KV_BAD_REQUEST;
    result->status = (enum kv_status)load_u16(fixed);
    result->flags = (uint16_t)flags;
    result->version = flags & WIRE_RESULT_HAS_VERSION ? take_u64(&at) : 0;
    result->expiry_ms = flags & WIRE_RESULT_HAS_EXPIRY ? take_u64(&at) : 0;
    result->number = flags & WIRE_RESULT_HAS_NUMBER ? (int64_t)take_u64(&at) : 0;
    result->value_offset = flags & WIRE_RESULT_IN_SEGMENT ? load_u32(at) : 0;
    if (flags & (WIRE_RESULT_IN_SEGMENT | WIRE_RESULT_NO_VALUE))
        result->value = kv_slice(NULL, value_bytes);
    else
        result->value = read_slice(cursor, value_bytes);
    return cursor->failed ? KV_BAD_REQUEST : KV_OK;
}

/* Entries of a scan ------------------------------------------------------------------------- */

size_t wire_scan_entry_size(const struct wire_scan_entry *entry)
{
    return SCAN_ENTRY_FIXED_BYTES + (entry->expiry_ms ? 8u : 0u) + entry->key.size +
           entry->value.size;
}

bool wire_put_scan_entry(struct write_cursor *cursor, const struct wire_scan_entry *entry)
{
    if (entry->key.size > WIRE_MAX_KEY_BYTES || entry->value.size > WIRE_MAX_VALUE_BYTES ||
        wire_scan_entry_size(entry) > write_cursor_left(cursor) || cursor->failed)
        return false;
    write_u16(cursor, (uint16_t)entry->key.size);
    write_u16(cursor, (uint16_t)((entry->expiry_ms ? WIRE_RESULT_HAS_EXPIRY : 0u) |
                                 (entry->passed ? WIRE_ENTRY_PASSED : 0u)));
    write_u32(cursor, (uint32_t)entry->value.size);
    write_u64(cursor, entry->version);
    if (entry->expiry_ms)
        write_u64(cursor, entry->expiry_ms);
    write_bytes(cursor, entry->key.data, entry->key.size);
    write_bytes(cursor, entry->value.data, entry->value.size);
    return true;
}

enum kv_status wire_get_scan_entry(struct read_cursor *cursor, struct wire_scan_entry *entry)
{
    size_t key_bytes = read_u16(cursor);
    unsigned flags = read_u16(cursor);
    size_t value_bytes = read_u32(cursor);
    entry->version = read_u64(cursor);
    if (flags & ~(unsigned)(WIRE_RESULT_HAS_EXPIRY | WIRE_ENTRY_PASSED))
        return KV_UNSUPPORTED;
    entry->passed = flags & WIRE_ENTRY_PASSED;
    entry->expiry_ms = flags & WIRE_RESULT_HAS_EXPIRY ? read_u64(cursor) : 0;
    entry->key = read_slice(cursor, key_bytes);
    entry->value = read_slice(cursor, value_bytes);
    return cursor->failed || key_bytes == 0 ? KV_BAD_REQUEST : KV_OK;
}
