#include "clientk/order_guard.h"

#include <string.h>

#include "clientk/key_hash.h"
#include "clientk/translate.h"

void order_guard_reset(struct order_guard *guard)
{
    guard->empty = true;
    guard->refusable_write = false;
}

bool order_guard_admits(struct order_guard *guard, const struct wire_operation *operation)
{
    bool refusable = operation_gives_value(operation->opcode);
    bool writes = operation_writes(operation);
    if (guard->empty && !refusable)
        return true;
    if (guard->empty)
        memset(guard->refusable_keys, 0, sizeof guard->refusable_keys);
    uint64_t hash = key_hash(operation->key);
    uint64_t *word = &guard->refusable_keys[(hash >> 6) % 16];
    uint64_t bit = (uint64_t)1 << (hash & 63);
    if ((*word & bit) && (writes || guard->refusable_write))
        return false;
    if (refusable) {
        *word |= bit;
        guard->refusable_write |= writes;
        guard->empty = false;
    }
    return true;
}
