#include "wire/transact_value.h"

#define STEP_OPCODES                                                                       \
    (1u << WIRE_OP_GET | 1u << WIRE_OP_EXISTS | 1u << WIRE_OP_PUT | 1u << WIRE_OP_DELETE | \
     1u << WIRE_OP_ADD | 1u << WIRE_OP_APPEND | 1u << WIRE_OP_TOUCH)
#define STEP_FLAGS \
    (WIRE_HAS_EXPIRY | WIRE_KEEP_EXPIRY | WIRE_HAS_BOUNDS | WIRE_CREATE | WIRE_CANONICAL)

bool wire_put_transaction(struct write_cursor *cursor, const struct wire_transaction *transaction)
{
    if (WIRE_TRANSACTION_FIXED_BYTES > write_cursor_left(cursor))
        return false;
    write_u16(cursor, transaction->guards);
    write_u16(cursor, transaction->then);
    write_u16(cursor, transaction->otherwise);
    write_u16(cursor, 0);
    return !cursor->failed;
}

enum kv_status wire_get_transaction(struct read_cursor *cursor,
                                    struct wire_transaction *transaction)
{
    transaction->guards = read_u16(cursor);
    transaction->then = read_u16(cursor);
    transaction->otherwise = read_u16(cursor);
    if (read_u16(cursor) != 0)
        return KV_UNSUPPORTED;
    unsigned steps = (unsigned)transaction->guards + transaction->then + transaction->otherwise;
    return cursor->failed || steps > WIRE_MAX_TRANSACTION_STEPS ? KV_BAD_REQUEST : KV_OK;
}

/* Guards ------------------------------------------------------------------------------------ */

static size_t guard_version_bytes(enum wire_guard_kind kind)
{
    return kind == WIRE_GUARD_VERSION ? sizeof(uint64_t) : 0;
}

size_t wire_guard_size(const struct wire_guard *guard)
{
    return WIRE_GUARD_FIXED_BYTES + guard_version_bytes(guard->kind) + guard->key.size +
           guard->value.size;
}

bool wire_put_guard(struct write_cursor *cursor, const struct wire_guard *guard)
{
    if (guard->key.size > WIRE_MAX_KEY_BYTES || guard->value.size > WIRE_MAX_VALUE_BYTES ||
        wire_guard_size(guard) > write_cursor_left(cursor) || cursor->failed)
        return false;
    uint8_t *fixed = write_room(cursor, WIRE_GUARD_FIXED_BYTES);
    if (!fixed)
        return false;
    fixed[0] = (uint8_t)guard->kind;
    fixed[1] = 0;
    store_u16(fixed + 2, (uint16_t)guard->key.size);
    store_u32(fixed + 4, (uint32_t)guard->value.size);
    if (guard->kind == WIRE_GUARD_VERSION)
        write_u64(cursor, guard->version);
    write_bytes(cursor, guard->key.data, guard->key.size);
    write_bytes(cursor, guard->value.data, guard->value.size);
    return true;
}

enum kv_status wire_get_guard(struct read_cursor *cursor, struct wire_guard *guard)
{
    const uint8_t *fixed = read_bytes(cursor, WIRE_GUARD_FIXED_BYTES);
    if (!fixed)
        return KV_BAD_REQUEST;
    unsigned kind = fixed[0];
    if (kind < WIRE_GUARD_VERSION || kind > WIRE_GUARD_VALUE || fixed[1] != 0)
        return KV_UNSUPPORTED;
    size_t key_bytes = load_u16(fixed + 2);
    size_t value_bytes = load_u32(fixed + 4);
    if (key_bytes == 0 || value_bytes > (kind == WIRE_GUARD_VALUE ? WIRE_MAX_VALUE_BYTES : 0))
        return KV_BAD_REQUEST;
    guard->kind = (enum wire_guard_kind)kind;
    guard->version = kind == WIRE_GUARD_VERSION ? read_u64(cursor) : 0;
    guard->key = read_slice(cursor, key_bytes);
    guard->value = read_slice(cursor, value_bytes);
    return cursor->failed ? KV_BAD_REQUEST : KV_OK;
}

/* Steps ------------------------------------------------------------------------------------- */

enum kv_status wire_get_step(struct read_cursor *cursor, struct wire_operation *operation)
{
    enum kv_status status = wire_get_operation(cursor, operation);
    if (status != KV_OK)
        return status;
    bool is_step = STEP_OPCODES >> operation->opcode & 1u;
    return is_step && !(operation->flags & ~STEP_FLAGS) ? KV_OK : KV_UNSUPPORTED;
}

bool wire_transaction_writes(struct kv_slice value)
{
    struct wire_transaction transaction;
    struct wire_guard guard;
    struct wire_operation step;
    if (!value.data)
        return true;
    struct read_cursor cursor = read_cursor(value.data, value.size);
    if (wire_get_transaction(&cursor, &transaction) != KV_OK)
        return true;
    for (unsigned i = 0; i < transaction.guards; i++)
        if (wire_get_guard(&cursor, &guard) != KV_OK)
            return true;
    for (unsigned i = 0; i < (unsigned)transaction.then + transaction.otherwise; i++)
        if (wire_get_step(&cursor, &step) != KV_OK || wire_step_writes(step.opcode))
            return true;
    return false;
}

struct wire_transaction_keys wire_keys_of_transaction(struct kv_slice value)
{
    struct wire_transaction_keys keys = {.guards = 0};
    struct wire_transaction transaction;
    if (!value.data) /* it is in a segment */
        return keys;
    keys.cursor = read_cursor(value.data, value.size);
    if (wire_get_transaction(&keys.cursor, &transaction) == KV_OK) {
        keys.guards = transaction.guards;
        keys.steps = (unsigned)transaction.then + transaction.otherwise;
    }
    return keys;
}

bool wire_next_transaction_key(struct wire_transaction_keys *keys, struct kv_slice *key)
{
    struct wire_guard guard;
    struct wire_operation step;
    if (keys->guards > 0 && wire_get_guard(&keys->cursor, &guard) == KV_OK) {
        keys->guards--;
        *key = guard.key;
        return true;
    }
    if (keys->guards == 0 && keys->steps > 0 && wire_get_step(&keys->cursor, &step) == KV_OK) {
        keys->steps--;
        *key = step.key;
        return true;
    }
    return false;
}

/* Outcomes ---------------------------------------------------------------------------------- */

bool wire_put_outcome(struct write_cursor *cursor, const struct wire_outcome *outcome)
{
    uint8_t *fixed = WIRE_OUTCOME_FIXED_BYTES > write_cursor_left(cursor)
                         ? NULL
                         : write_room(cursor, WIRE_OUTCOME_FIXED_BYTES);
    if (!fixed)
        return false;
    fixed[0] = outcome->otherwise;
    fixed[1] = (uint8_t)outcome->about;
    store_u16(fixed + 2, outcome->at);
    store_u16(fixed + 4, outcome->guard);
    store_u16(fixed + 6, outcome->results);
    return true;
}

enum kv_status wire_get_outcome(struct read_cursor *cursor, struct wire_outcome *outcome)
{
    const uint8_t *fixed = read_bytes(cursor, WIRE_OUTCOME_FIXED_BYTES);
    if (!fixed)
        return KV_BAD_REQUEST;
    if (fixed[0] > 1 || fixed[1] > WIRE_ABOUT_STEP)
        return KV_UNSUPPORTED;
    outcome->otherwise = fixed[0];
    outcome->about = (enum wire_about)fixed[1];
    outcome->at = load_u16(fixed + 2);
    outcome->guard = load_u16(fixed + 4);
    outcome->results = load_u16(fixed + 6);
    return outcome->results > WIRE_MAX_TRANSACTION_STEPS ? KV_BAD_REQUEST : KV_OK;
}
