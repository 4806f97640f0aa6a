/* local: a free list a thread, and a common one of what threads that ended have left. */
#include "mqkv/allocator.h"

#include "lab/allocator/blocks.h"
#include "lab/allocator/heap.h"

/* What a thread has; known to the others, for the statistics alone, from its first call to its
 * end. */
struct local {
    struct free_list list;
    bool is_known;
    struct local *next_known;
    struct local *previous_known;
};

static _Thread_local struct local own;

/* The common list. Its mutex also covers which threads are known, and is never held while the
 * segment grows. */
static struct heap heap = HEAP_INITIALIZER;
static struct local *known;

static pthread_key_t end_of_thread;
static bool can_see_ends;

/* A thread that frees something after this (in another such destructor) becomes known again, and
 * this is called again. */
static void give_list_to_heap(void *argument)
{
    struct local *local = argument;
    pthread_mutex_lock(&heap.mutex);
    free_list_merge(&heap.list, &local->list);
    if (local->previous_known)
        local->previous_known->next_known = local->next_known;
    else
        known = local->next_known;
    if (local->next_known)
        local->next_known->previous_known = local->previous_known;
    local->is_known = false;
    pthread_mutex_unlock(&heap.mutex);
}

static void become_known(void)
{
    /* Without a key there is nobody who would tell of the end: then this thread's list is lost with
     * it, and no one must know of it afterwards. */
    if (!can_see_ends || pthread_setspecific(end_of_thread, &own) != 0)
        return;
    pthread_mutex_lock(&heap.mutex);
    own.previous_known = NULL;
    own.next_known = known;
    if (known)
        known->previous_known = &own;
    known = &own;
    own.is_known = true;
    pthread_mutex_unlock(&heap.mutex);
}

static bool take_over_common(void)
{
    pthread_mutex_lock(&heap.mutex);
    bool took = heap.list.first != NULL;
    free_list_merge(&own.list, &heap.list);
    pthread_mutex_unlock(&heap.mutex);
    return took;
}

void *kv_local_malloc(size_t bytes)
{
    size_t block_bytes = block_bytes_for(bytes);
    if (block_bytes == 0)
        return NULL;
    if (!own.is_known)
        become_known();
    void *payload = free_list_take(&own.list, block_bytes);
    if (!payload && take_over_common())
        payload = free_list_take(&own.list, block_bytes);
    if (payload)
        return payload;
    void *memory = segment_grow(&heap.segment, block_bytes);
    return memory ? block_start(memory, block_bytes) : NULL;
}

void kv_local_free(void *block)
{
    if (!block)
        return;
    if (!own.is_known)
        become_known();
    free_list_put(&own.list, block_of(block));
}

void *kv_local_calloc(size_t count, size_t bytes)
{
    return blocks_allocate_zeroed(&kv_allocator_thread_local, count, bytes);
}

void *kv_local_realloc(void *block, size_t bytes)
{
    return blocks_resize(&kv_allocator_thread_local, block, bytes);
}

static void add_list(struct allocator_statistics *statistics, const struct free_list *list)
{
    statistics->free_bytes += free_list_bytes(list);
    statistics->free_blocks += free_list_blocks(list);
}

static void local_statistics(struct allocator_statistics *statistics)
{
    *statistics = (struct allocator_statistics){.segment_bytes = segment_bytes(&heap.segment)};
    pthread_mutex_lock(&heap.mutex);
    add_list(statistics, &heap.list);
    for (const struct local *local = known; local; local = local->next_known)
        add_list(statistics, &local->list);
    pthread_mutex_unlock(&heap.mutex);
}

static bool is_local_sound(void)
{
    return heap_is_sound(&heap) && free_list_is_sound(&own.list);
}

const struct allocator kv_allocator_thread_local = {
    .name = "thread-local",
    .allocate = kv_local_malloc,
    .release = kv_local_free,
    .statistics = local_statistics,
    .is_sound = is_local_sound,
};

/* The child of a fork has only that one of the parent's threads which forked. */
static void forget_other_threads(void)
{
    own.previous_known = own.next_known = NULL;
    known = own.is_known ? &own : NULL;
}

__attribute__((constructor)) static void prepare_local(void)
{
    can_see_ends = pthread_key_create(&end_of_thread, give_list_to_heap) == 0;
    heap_watch_forks(&heap, forget_other_threads);
}
