#include "kvstore/table/transaction_parts.h"

#include <stdlib.h>

#include "kvstore/format/sizes.h"

/* Parts that a list has room for when it begins. */
#define PARTS_AT_FIRST 64u

bool transaction_parts_add(struct transaction_parts *parts, const struct transaction_part *part)
{
    if (parts->count == parts->capacity) {
        size_t capacity = at_least(2 * parts->capacity, PARTS_AT_FIRST);
        struct transaction_part *each = realloc(parts->each, capacity * sizeof *each);
        if (!each)
            return false;
        parts->each = each;
        parts->capacity = capacity;
    }
    parts->each[parts->count++] = *part;
    return true;
}

void transaction_parts_free(struct transaction_parts *parts)
{
    free(parts->each);
    *parts = (struct transaction_parts){0};
}

/* Returns true if the log has a part of the transaction before its end. */
static bool has_part(const struct parted_log *log, uint64_t transaction)
{
    const struct transaction_part *each = log->parts->each;
    size_t low = 0, high = log->parts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (each[middle].transaction < transaction)
            low = middle + 1;
        else
            high = middle;
    }
    return log->has_all || (low < log->parts->count && each[low].transaction == transaction &&
                            each[low].begin < log->end);
}

/* True: the end of the log has moved. */
static bool move_end(struct parted_log logs[], uint32_t count, struct parted_log *log,
                     uint64_t settled)
{
    for (size_t i = 0; i < log->parts->count; i++) {
        const struct transaction_part *part = &log->parts->each[i];
        if (part->begin >= log->end)
            return false;
        bool is_whole =
            part->transaction <= settled ||
            (part->next_file < count && has_part(&logs[part->next_file], part->transaction));
        if (!is_whole) {
            log->end = part->begin;
            return true;
        }
    }
    return false;
}

void transaction_parts_end_logs(struct parted_log logs[], uint32_t count, uint64_t settled)
{
    bool moved;
    do {
        moved = false;
        for (uint32_t number = 0; number < count; number++)
            moved |= !logs[number].has_all && move_end(logs, count, &logs[number], settled);
    } while (moved);
}
