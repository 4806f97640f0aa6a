#include "kvstore/kvcheck/placed_values.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "kvstore/format/sizes.h"

#define VALUES_AT_FIRST 64u

static void drop_replaced(struct placed_values *values)
{
    size_t kept = 0;
    for (size_t i = 0; i < values->count; i++)
        if (!values->each[i].is_replaced)
            values->each[kept++] = values->each[i];
    values->count = kept;
}

/* A log may have many more value pointers than keys, so that room is made of those that were
 * replaced, if half are. */
static bool make_room_for_value(struct placed_values *values)
{
    if (values->count < values->capacity)
        return true;
    drop_replaced(values);
    if (values->count < values->capacity / 2)
        return true;
    size_t capacity = at_least(2 * values->capacity, VALUES_AT_FIRST);
    struct placed_value *each = realloc(values->each, capacity * sizeof *each);
    if (!each)
        return false;
    values->each = each;
    values->capacity = capacity;
    return true;
}

bool placed_values_add(struct placed_values *values, const struct placed_value *value)
{
    KV_ASSERT(values->count == 0 || values->each[values->count - 1].offset < value->offset);
    KV_ASSERT(!value->is_replaced);
    if (!make_room_for_value(values))
        return false;
    values->each[values->count++] = *value;
    return true;
}

static int compare_values(const void *left, const void *right)
{
    const struct placed_value *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* NULL: it is not there. */
static struct placed_value *find_value(const struct placed_values *values, uint64_t offset)
{
    const struct placed_value wanted = {.offset = offset};
    return values->count == 0
               ? NULL
               : bsearch(&wanted, values->each, values->count, sizeof wanted, compare_values);
}

const struct placed_value *placed_values_superseded(const struct placed_values *values,
                                                    uint64_t offset)
{
    const struct placed_value *value = find_value(values, offset);
    return value && value->content_bytes == 0 ? value : NULL;
}

uint64_t placed_values_replace(struct placed_values *values, uint64_t offset)
{
    struct placed_value *value = find_value(values, offset);
    if (!value)
        return 0; /* the file was changed while it was read */
    value->is_replaced = true;
    return value->content_bytes;
}

void placed_values_free(struct placed_values *values)
{
    free(values->each);
    *values = (struct placed_values){0};
}
