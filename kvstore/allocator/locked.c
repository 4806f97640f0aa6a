/* locked: one free list behind one mutex. */
#include "kvstore/allocator/allocator.h"

#include <pthread.h>

#include "kvstore/allocator/blocks.h"
#include "kvstore/allocator/freelist.h"
#include "kvstore/allocator/segment.h"

/* Covers the list; held while the segment grows. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct free_list list;
static struct segment segment = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void *kv_locked_malloc(size_t bytes)
{
    size_t block_bytes = block_bytes_for(bytes);
    if (block_bytes == 0)
        return NULL;
    pthread_mutex_lock(&mutex);
    void *payload = free_list_take(&list, block_bytes);
    if (!payload) {
        void *memory = segment_grow(&segment, block_bytes);
        payload = memory ? block_start(memory, block_bytes) : NULL;
    }
    pthread_mutex_unlock(&mutex);
    return payload;
}

void kv_locked_free(void *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&mutex);
    free_list_put(&list, block_of(block));
    pthread_mutex_unlock(&mutex);
}

void *kv_locked_calloc(size_t count, size_t bytes)
{
    return blocks_allocate_zeroed(&kv_allocator_locked, count, bytes);
}

void *kv_locked_realloc(void *block, size_t bytes)
{
    return blocks_resize(&kv_allocator_locked, block, bytes);
}

static void statistics(struct allocator_statistics *statistics)
{
    pthread_mutex_lock(&mutex);
    statistics->segment_bytes = segment_bytes(&segment);
    statistics->free_bytes = free_list_bytes(&list);
    statistics->free_blocks = free_list_blocks(&list);
    pthread_mutex_unlock(&mutex);
}

static bool is_sound(void)
{
    pthread_mutex_lock(&mutex);
    bool sound = free_list_is_sound(&list);
    pthread_mutex_unlock(&mutex);
    return sound;
}

const struct allocator kv_allocator_locked = {
    .name = "locked",
    .allocate = kv_locked_malloc,
    .release = kv_locked_free,
    .statistics = statistics,
    .is_sound = is_sound,
};

static void lock_for_fork(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&segment.mutex);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&segment.mutex);
    pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}
