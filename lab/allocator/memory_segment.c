#include "lab/allocator/memory_segment.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* A range of the usual size, or, where that is refused (ulimit -v), of what is needed now. */
static void *map_range(size_t needed_bytes, size_t *range_bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t least_bytes = (needed_bytes + page_bytes - 1) / page_bytes * page_bytes;
    *range_bytes = least_bytes > SEGMENT_RANGE_BYTES ? least_bytes : SEGMENT_RANGE_BYTES;
    for (;;) {
        void *range = mmap(NULL, *range_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range != MAP_FAILED)
            return range;
        if (*range_bytes == least_bytes)
            return NULL;
        *range_bytes = least_bytes;
    }
}

static bool has_segment_room(struct segment *segment, size_t bytes)
{
    if (bytes <= (size_t)(segment->end - segment->next))
        return true;
    size_t range_bytes;
    char *range = map_range(bytes, &range_bytes);
    if (!range)
        return false;
    segment->next = range;
    segment->end = range + range_bytes;
    return true;
}

void *segment_grow(struct segment *segment, size_t bytes)
{
    void *grown = NULL;
    pthread_mutex_lock(&segment->mutex);
    if (has_segment_room(segment, bytes)) {
        grown = segment->next;
        segment->next += bytes;
        segment->bytes += bytes;
    }
    pthread_mutex_unlock(&segment->mutex);
    if (!grown)
        errno = ENOMEM;
    return grown;
}

uint64_t segment_bytes(struct segment *segment)
{
    pthread_mutex_lock(&segment->mutex);
    uint64_t bytes = segment->bytes;
    pthread_mutex_unlock(&segment->mutex);
    return bytes;
}
