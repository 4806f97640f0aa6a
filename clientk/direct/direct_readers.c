#include "clientk/direct/direct_readers.h"

#include <stddef.h>

#include "clientk/base/handles.h"
#include "common/assert/assert.h"

void direct_readers_init(struct direct_readers *readers)
{
    *readers = (struct direct_readers){.era = 1};
}

void direct_readers_join(struct direct_readers *readers, struct direct_reader *reader)
{
    KV_ASSERT(handles_are_locked());
    reader->next = readers->first;
    reader->link = &readers->first;
    if (readers->first)
        readers->first->link = &reader->next;
    readers->first = reader;
}

void direct_readers_leave(struct direct_readers *readers, struct direct_reader *reader)
{
    KV_ASSERT(handles_are_locked());
    *reader->link = reader->next;
    if (reader->next)
        reader->next->link = reader->link;
    readers->reads_of_gone += atomic_load(&reader->reads);
    readers->asks_of_gone += atomic_load(&reader->asks);
    readers->found_of_gone += atomic_load(&reader->found);
    readers->absent_of_gone += atomic_load(&reader->absent);
}

/* Returns the earliest era in which a thread still reads; the present one if none does. Holds:
 * handles_lock. */
static uint64_t earliest_era(const struct direct_readers *readers)
{
    uint64_t earliest = atomic_load(&readers->era);
    KV_ASSERT(handles_are_locked() && earliest > 0);
    for (const struct direct_reader *reader = readers->first; reader; reader = reader->next) {
        uint64_t era = atomic_load(&reader->era);
        if (era != 0 && era < earliest)
            earliest = era;
    }
    return earliest;
}

/* Takes off the list what was retired before `era`. Holds: handles_lock. */
static struct direct_retired *take_retired_before(struct direct_readers *readers, uint64_t era)
{
    struct direct_retired *taken = NULL;
    KV_ASSERT(handles_are_locked());
    for (struct direct_retired **link = &readers->retired; *link;) {
        struct direct_retired *each = *link;
        if (each->era >= era) {
            link = &each->next;
            continue;
        }
        *link = each->next;
        each->next = taken;
        taken = each;
    }
    return taken;
}

static void release_list(struct direct_retired *list)
{
    while (list) {
        struct direct_retired *each = list;
        list = each->next;
        KV_ASSERT(each->era > 0);
        each->release(each);
    }
}

void direct_readers_retire(struct direct_readers *readers, struct direct_retired *retired)
{
    handles_lock();
    retired->era = atomic_fetch_add(&readers->era, 1);
    retired->next = readers->retired;
    readers->retired = retired;
    struct direct_retired *unused = take_retired_before(readers, earliest_era(readers));
    handles_unlock();
    release_list(unused);
}

void direct_readers_release_all(struct direct_readers *readers)
{
    release_list(readers->retired);
    readers->retired = NULL;
}

void direct_readers_sum(struct direct_readers *readers, uint64_t *reads, uint64_t *asks)
{
    handles_lock();
    *reads = readers->reads_of_gone;
    *asks = readers->asks_of_gone;
    for (const struct direct_reader *reader = readers->first; reader; reader = reader->next) {
        *reads += atomic_load_explicit(&reader->reads, memory_order_relaxed);
        *asks += atomic_load_explicit(&reader->asks, memory_order_relaxed);
    }
    handles_unlock();
}

void direct_readers_sum_keys(struct direct_readers *readers, uint64_t *found, uint64_t *absent)
{
    handles_lock();
    *found = readers->found_of_gone;
    *absent = readers->absent_of_gone;
    for (const struct direct_reader *reader = readers->first; reader; reader = reader->next) {
        *found += atomic_load_explicit(&reader->found, memory_order_relaxed);
        *absent += atomic_load_explicit(&reader->absent, memory_order_relaxed);
    }
    handles_unlock();
}
