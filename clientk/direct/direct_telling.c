#include "clientk/direct/direct_telling.h"

#include <stddef.h>

void direct_telling_init(struct direct_telling *telling)
{
    *telling = (struct direct_telling){0};
    pthread_mutex_init(&telling->lock, NULL);
}

/* Holds: telling->lock. */
static void telling_unlist(struct direct_listener *listener)
{
    if (!listener->counts)
        return;
    *listener->link = listener->next;
    if (listener->next)
        listener->next->link = listener->link;
    wire_ring_unmap_reads(listener->counts);
    listener->counts = NULL;
}

void direct_telling_free(struct direct_telling *telling)
{
    while (telling->first)
        telling_unlist(telling->first);
    pthread_mutex_destroy(&telling->lock);
}

void direct_telling_join(struct direct_telling *telling, struct direct_listener *listener,
                         int ring_object)
{
    pthread_mutex_lock(&telling->lock);
    telling_unlist(listener);
    if (ring_object >= 0)
        listener->counts = wire_ring_map_reads(ring_object);
    if (listener->counts) {
        listener->next = telling->first;
        listener->link = &telling->first;
        if (telling->first)
            telling->first->link = &listener->next;
        telling->first = listener;
    }
    pthread_mutex_unlock(&telling->lock);
}

void direct_telling_leave(struct direct_telling *telling, struct direct_listener *listener)
{
    pthread_mutex_lock(&telling->lock);
    telling_unlist(listener);
    pthread_mutex_unlock(&telling->lock);
}

/* Adds what was not told yet; another thread may have told a later sum. */
static void telling_add(_Atomic uint64_t *counter, uint64_t sum, uint64_t *told)
{
    if (sum <= *told)
        return;
    atomic_fetch_add_explicit(counter, sum - *told, memory_order_relaxed);
    *told = sum;
}

__attribute__((noinline)) void direct_telling_tell(struct direct_telling *telling,
                                                   struct direct_readers *readers)
{
    uint64_t found, absent;
    direct_readers_sum_keys(readers, &found, &absent);
    if (pthread_mutex_trylock(&telling->lock) != 0)
        return;
    if (telling->first) {
        telling_add(&telling->first->counts->found, found, &telling->found);
        telling_add(&telling->first->counts->absent, absent, &telling->absent);
    }
    pthread_mutex_unlock(&telling->lock);
}
