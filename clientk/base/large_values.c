#include "clientk/base/large_values.h"

bool large_values_put(struct large_values *values, uint64_t offset, struct kv_slice value)
{
    if (wire_segment_write(values->segment, offset, value.data, value.size))
        return true;
    values->unavailable = true;
    return false;
}

void large_values_close(struct large_values *values)
{
    wire_segment_close(values->segment);
    *values = (struct large_values){.segment = NULL};
}
