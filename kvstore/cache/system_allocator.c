/* system: what the C library has. */
#include <malloc.h>
#include <stdlib.h>

#include "mqkv/allocator.h"

static void statistics(struct allocator_statistics *statistics)
{
    struct mallinfo2 info = mallinfo2();
    *statistics = (struct allocator_statistics){
        .segment_bytes = info.arena + info.hblkhd,
        .free_bytes = info.fordblks,
    };
}

static bool is_sound(void)
{
    return true;
}

const struct allocator kv_allocator_system = {
    .name = "system",
    .allocate = malloc,
    .release = free,
    .statistics = statistics,
    .is_sound = is_sound,
};
