/* local: a free list a thread, and a common one of what threads that ended have left. */
#include "kvstore/allocator/allocator.h"

#include <pthread.h>

#include "kvstore/allocator/blocks.h"
#include "kvstore/allocator/freelist.h"
#include "kvstore/allocator/segment.h"

/* What a thread has; known to the others, for the statistics alone, from its first call to its end. */
struct local {
    struct free_list list;
    bool is_known;
    struct local *next_known;
    struct local *previous_known;
};

static _Thread_local struct local own;

/* Covers the common list and who is known. Never held while the segment grows. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct free_list common;
static struct local *known;

static struct segment segment = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static pthread_key_t end_of_thread;
static bool can_see_ends;

/* A thread that frees something after this (in another such destructor) becomes known again, and
 * this is called again. */
static void leave(void *argument)
{
    struct local *local = argument;
    pthread_mutex_lock(&mutex);
    free_list_merge(&common, &local->list);
    if (local->previous_known)
        local->previous_known->next_known = local->next_known;
    else
        known = local->next_known;
    if (local->next_known)
        local->next_known->previous_known = local->previous_known;
    local->is_known = false;
    pthread_mutex_unlock(&mutex);
}

static void become_known(void)
{
    /* Without a key there is nobody who would tell of the end: then this thread's list is lost with
     * it, and no one must know of it afterwards. */
    if (!can_see_ends || pthread_setspecific(end_of_thread, &own) != 0)
        return;
    pthread_mutex_lock(&mutex);
    own.previous_known = NULL;
    own.next_known = known;
    if (known)
        known->previous_known = &own;
    known = &own;
    own.is_known = true;
    pthread_mutex_unlock(&mutex);
}

static bool take_over_common(void)
{
    pthread_mutex_lock(&mutex);
    bool took = common.first != NULL;
    free_list_merge(&own.list, &common);
    pthread_mutex_unlock(&mutex);
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
    void *memory = segment_grow(&segment, block_bytes);
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

static void statistics(struct allocator_statistics *statistics)
{
    *statistics = (struct allocator_statistics){.segment_bytes = segment_bytes(&segment)};
    pthread_mutex_lock(&mutex);
    add_list(statistics, &common);
    for (const struct local *local = known; local; local = local->next_known)
        add_list(statistics, &local->list);
    pthread_mutex_unlock(&mutex);
}

static bool is_sound(void)
{
    pthread_mutex_lock(&mutex);
    bool sound = free_list_is_sound(&common) && free_list_is_sound(&own.list);
    pthread_mutex_unlock(&mutex);
    return sound;
}

const struct allocator kv_allocator_thread_local = {
    .name = "thread-local",
    .allocate = kv_local_malloc,
    .release = kv_local_free,
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

/* Of the parent's threads the child has only the one that forked. */
static void forget_other_threads(void)
{
    own.previous_known = own.next_known = NULL;
    known = own.is_known ? &own : NULL;
    unlock_after_fork();
}

__attribute__((constructor)) static void prepare(void)
{
    can_see_ends = pthread_key_create(&end_of_thread, leave) == 0;
    pthread_atfork(lock_for_fork, unlock_after_fork, forget_other_threads);
}
