#include "kvstore/maintenance/holds.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/time/clock.h"

struct holds {
    pthread_mutex_t mutex;
    struct listed_hold *first;
};

struct holds *holds_create(void)
{
    struct holds *holds = calloc(1, sizeof *holds);
    if (holds)
        pthread_mutex_init(&holds->mutex, NULL);
    return holds;
}

void holds_free(struct holds *holds)
{
    if (!holds)
        return;
    pthread_mutex_destroy(&holds->mutex);
    free(holds);
}

void holds_add(struct holds *holds, struct listed_hold *held)
{
    held->touched_ns = clock_monotonic_ns();
    pthread_mutex_lock(&holds->mutex);
    held->next = holds->first;
    holds->first = held;
    pthread_mutex_unlock(&holds->mutex);
}

void holds_remove(struct holds *holds, struct listed_hold *held)
{
    pthread_mutex_lock(&holds->mutex);
    struct listed_hold **at = &holds->first;
    while (*at && *at != held)
        at = &(*at)->next;
    if (*at)
        *at = held->next;
    pthread_mutex_unlock(&holds->mutex);
}

bool holds_touch(struct holds *holds, struct listed_hold *held)
{
    uint64_t now_ns = clock_monotonic_ns();
    pthread_mutex_lock(&holds->mutex);
    bool lasts = !held->lapsed;
    held->touched_ns = now_ns;
    pthread_mutex_unlock(&holds->mutex);
    return lasts;
}

bool holds_any(struct holds *holds)
{
    uint64_t now_ns = clock_monotonic_ns();
    bool any = false;
    pthread_mutex_lock(&holds->mutex);
    for (struct listed_hold *held = holds->first; held; held = held->next) {
        held->lapsed |= now_ns > held->touched_ns + HOLD_LAPSE_NS;
        any |= !held->lapsed;
    }
    pthread_mutex_unlock(&holds->mutex);
    return any;
}
