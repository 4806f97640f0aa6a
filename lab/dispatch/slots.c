#include "lab/dispatch/slots.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "serverk/daemon/json_writer.h"

struct slots {
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t given;
    struct slot_counts counts;
    unsigned free_count; /* = counts.limit - counts.live */
    unsigned free_slots[];
};

struct slots *slots_create(unsigned count)
{
    struct slots *slots = calloc(1, sizeof *slots + count * sizeof slots->free_slots[0]);
    if (!slots)
        return NULL;
    pthread_mutex_init(&slots->lock, NULL);
    pthread_cond_init(&slots->given, NULL);
    slots->counts.limit = count;
    while (slots->free_count < count) {
        slots->free_slots[slots->free_count] = count - 1 - slots->free_count;
        slots->free_count++;
    }
    return slots;
}

void slots_free(struct slots *slots)
{
    if (!slots)
        return;
    pthread_cond_destroy(&slots->given);
    pthread_mutex_destroy(&slots->lock);
    free(slots);
}

/* Each slot is free or taken. Holds: lock. */
static void assert_slots_counted(const struct slots *slots)
{
    KV_ASSERT(mutex_is_held(&slots->lock));
    KV_ASSERT(slots->free_count + slots->counts.live == slots->counts.limit);
    KV_ASSERT(slots->counts.live <= slots->counts.live_max);
}

unsigned slots_take(struct slots *slots)
{
    struct slot_counts *counts = &slots->counts;
    pthread_mutex_lock(&slots->lock);
    counts->waits += slots->free_count == 0;
    while (slots->free_count == 0)
        pthread_cond_wait(&slots->given, &slots->lock);
    unsigned slot = slots->free_slots[--slots->free_count];
    counts->started++;
    if (++counts->live > counts->live_max)
        counts->live_max = counts->live;
    assert_slots_counted(slots);
    pthread_mutex_unlock(&slots->lock);
    return slot;
}

void slots_release(struct slots *slots, unsigned slot)
{
    pthread_mutex_lock(&slots->lock);
    KV_ASSERT(slots->counts.live > 0);
    slots->free_slots[slots->free_count++] = slot;
    slots->counts.live--;
    assert_slots_counted(slots);
    pthread_cond_broadcast(&slots->given);
    pthread_mutex_unlock(&slots->lock);
}

void slots_wait_all(struct slots *slots)
{
    pthread_mutex_lock(&slots->lock);
    while (slots->counts.live > 0)
        pthread_cond_wait(&slots->given, &slots->lock);
    pthread_mutex_unlock(&slots->lock);
}

static void count_slot_event(struct slots *slots, uint64_t *counter)
{
    pthread_mutex_lock(&slots->lock);
    ++*counter;
    pthread_mutex_unlock(&slots->lock);
}

void slots_count_died(struct slots *slots)
{
    count_slot_event(slots, &slots->counts.died);
}

void slots_count_taken_back(struct slots *slots)
{
    count_slot_event(slots, &slots->counts.taken_back);
}

struct slot_counts slots_counts(struct slots *slots)
{
    pthread_mutex_lock(&slots->lock);
    struct slot_counts counts = slots->counts;
    pthread_mutex_unlock(&slots->lock);
    return counts;
}

void slots_put_stats(struct slots *slots, struct json *json)
{
    struct slot_counts counts = slots_counts(slots);
    json_begin_member(json, "alive");
    json_open_object(json);
    json_put_number(json, "now", counts.live);
    json_put_number(json, "most", counts.live_max);
    json_put_number(json, "limit", counts.limit);
    json_put_number(json, "started", counts.started);
    json_put_number(json, "limit_waits", counts.waits);
    json_put_number(json, "died", counts.died);
    json_put_number(json, "taken_back", counts.taken_back);
    json_close_object(json);
}
