#include "lab/schedule/cost_estimate.h"

#include <stdbool.h>
#include <stddef.h>

#include "wire/message.h"
#include "wire/operation.h"
#include "wire/range_value.h"

/* Receiving a message and sending its reply. */
#define MESSAGE_NS 2000u

/* Looking at more operations would take longer than what it tells is worth. */
#define SAMPLE 8u

/* The bytes of a value that are copied in a nanosecond. */
#define BYTES_PER_NS 4u

/* The entries that a scan looks at where it has no limit, and, at least, where a prefix passes over
 * others or whole data files are seen. */
#define ENTRY_NS          200u
#define UNLIMITED_ENTRIES 1000u
#define PREFIX_ENTRIES    5000u

static const uint32_t operation_ns[] = {
    [WIRE_OP_GET] = 400,
    [WIRE_OP_EXISTS] = 300,
    [WIRE_OP_PUT] = 800,
    [WIRE_OP_DELETE] = 700,
    [WIRE_OP_ADD] = 900,
    [WIRE_OP_APPEND] = 900,
    [WIRE_OP_EXCHANGE] = 900,
    [WIRE_OP_TOUCH] = 800,
    [WIRE_OP_SCAN] = 1000,
    [WIRE_OP_STATS] = 500000,
    [WIRE_OP_PING] = 100,
    [WIRE_OP_SYNC] = 1000000,
    [WIRE_OP_BACKUP] = 200000,
    [WIRE_OP_ADMIN] = 500000,
    [WIRE_OP_WATCH] = 20000,
    [WIRE_OP_TRANSACT] = 4000,
    [WIRE_OP_RANGE] = 2000,
    [WIRE_OP_RANGE_COUNT] = 1000000,
    [WIRE_OP_RANGE_DELETE] = 1000000,
};

static uint64_t one_operation_ns(const struct wire_operation *operation)
{
    uint64_t ns = operation_ns[operation->opcode] + operation->value.size / BYTES_PER_NS;
    struct wire_range_bounds bounds;
    if (operation->opcode == WIRE_OP_RANGE && !(operation->flags & WIRE_VALUE_IN_SEGMENT) &&
        wire_get_range_bounds(operation->value, &bounds) == KV_OK)
        return ns + (bounds.limit > 0 ? bounds.limit : UNLIMITED_ENTRIES) * (uint64_t)ENTRY_NS;
    if (operation->opcode != WIRE_OP_SCAN)
        return ns;
    uint64_t entries = operation->limit > 0 ? operation->limit : UNLIMITED_ENTRIES;
    bool beyond_limit = operation->key.size > 0 || (operation->flags & WIRE_ATOMIC);
    if (beyond_limit && entries < PREFIX_ENTRIES)
        entries = PREFIX_ENTRIES;
    return ns + entries * ENTRY_NS;
}

static uint64_t operations_ns(struct read_cursor *cursor, unsigned count)
{
    uint64_t sum_ns = 0;
    unsigned looked_at = 0;
    while (looked_at < count && looked_at < SAMPLE) {
        struct wire_operation operation;
        if (wire_get_operation(cursor, &operation) != KV_OK)
            return sum_ns; /* it ends there */
        sum_ns += one_operation_ns(&operation);
        looked_at++;
    }
    return looked_at > 0 ? sum_ns * count / looked_at : 0;
}

uint64_t cost_estimate_ns(struct kv_slice message)
{
    struct read_cursor cursor = read_cursor(message.data, message.size);
    struct wire_header header = {0};
    if (wire_get_header(&cursor, &header) != KV_OK)
        return MESSAGE_NS;
    if (header.kind == WIRE_BYE)
        return UINT64_MAX;
    uint64_t ns = MESSAGE_NS;
    if (header.kind == WIRE_REQUEST)
        ns += operations_ns(&cursor, header.count);
    else
        ns += read_cursor_left(&cursor) / BYTES_PER_NS;
    return ns;
}
