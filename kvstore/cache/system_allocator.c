/* The allocator `system`: malloc and free of the C library. */
#include <malloc.h>
#include <stdlib.h>

#include "mqkv/allocator.h"

static void system_heap_statistics(struct allocator_statistics *statistics)
{
    struct mallinfo2 info = mallinfo2();
    *statistics = (struct allocator_statistics){
        .segment_bytes = info.arena + info.hblkhd,
        .free_bytes = info.fordblks,
    };
}

static bool system_heap_is_sound(void)
{
    return true;
}

const struct allocator kv_allocator_system = {
    .name = "system",
    .allocate = malloc,
    .release = free,
    .statistics = system_heap_statistics,
    .is_sound = system_heap_is_sound,
};
