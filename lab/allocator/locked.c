/* locked: one free list behind one mutex. */
#include "mqkv/allocator.h"

#include "lab/allocator/blocks.h"
#include "lab/allocator/heap.h"

/* Its mutex is held while the segment grows. */
static struct heap heap = HEAP_INITIALIZER;

void *kv_locked_malloc(size_t bytes)
{
    size_t block_bytes = block_bytes_for(bytes);
    if (block_bytes == 0)
        return NULL;
    pthread_mutex_lock(&heap.mutex);
    void *payload = free_list_take(&heap.list, block_bytes);
    if (!payload) {
        void *memory = segment_grow(&heap.segment, block_bytes);
        payload = memory ? block_start(memory, block_bytes) : NULL;
    }
    pthread_mutex_unlock(&heap.mutex);
    return payload;
}

void kv_locked_free(void *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&heap.mutex);
    free_list_put(&heap.list, block_of(block));
    pthread_mutex_unlock(&heap.mutex);
}

void *kv_locked_calloc(size_t count, size_t bytes)
{
    return blocks_allocate_zeroed(&kv_allocator_locked, count, bytes);
}

void *kv_locked_realloc(void *block, size_t bytes)
{
    return blocks_resize(&kv_allocator_locked, block, bytes);
}

static void locked_statistics(struct allocator_statistics *statistics)
{
    pthread_mutex_lock(&heap.mutex);
    statistics->segment_bytes = segment_bytes(&heap.segment);
    statistics->free_bytes = free_list_bytes(&heap.list);
    statistics->free_blocks = free_list_blocks(&heap.list);
    pthread_mutex_unlock(&heap.mutex);
}

static bool is_locked_sound(void)
{
    return heap_is_sound(&heap);
}

const struct allocator kv_allocator_locked = {
    .name = "locked",
    .allocate = kv_locked_malloc,
    .release = kv_locked_free,
    .statistics = locked_statistics,
    .is_sound = is_locked_sound,
};

__attribute__((constructor)) static void prepare_locked(void)
{
    heap_watch_forks(&heap, NULL);
}
