#include "lab/allocator/heap.h"

/* Changed by constructors only, which run one after the other. */
static struct heap *watched;

static void lock_for_fork(void)
{
    for (struct heap *heap = watched; heap; heap = heap->next) {
        pthread_mutex_lock(&heap->mutex);
        pthread_mutex_lock(&heap->segment.mutex);
    }
}

static void unlock_after_fork(void)
{
    for (struct heap *heap = watched; heap; heap = heap->next) {
        pthread_mutex_unlock(&heap->segment.mutex);
        pthread_mutex_unlock(&heap->mutex);
    }
}

static void go_on_in_child(void)
{
    for (const struct heap *heap = watched; heap; heap = heap->next)
        if (heap->in_child)
            heap->in_child();
    unlock_after_fork();
}

void heap_watch_forks(struct heap *heap, void (*in_child)(void))
{
    if (!watched)
        pthread_atfork(lock_for_fork, unlock_after_fork, go_on_in_child);
    heap->in_child = in_child;
    heap->next = watched;
    watched = heap;
}

bool heap_is_sound(struct heap *heap)
{
    pthread_mutex_lock(&heap->mutex);
    bool sound = free_list_is_sound(&heap->list);
    pthread_mutex_unlock(&heap->mutex);
    return sound;
}
