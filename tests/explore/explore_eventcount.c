#include <stdatomic.h>
#include <string.h>

#include "kvstore/core/eventcount.h"
#include "tests/explore/explore.h"

#define WORKERS 2u
#define ITEMS   3u

/* Items of two groups are put, one at a time; each is taken by a worker of its group, who sleeps
 * without a limit: who is not woken for an item waits for ever, and the schedule ends there. */
static struct {
    struct eventcount room;
    _Atomic unsigned items[WORKERS];
} shared;

static void take_items(void *argument)
{
    unsigned group = (unsigned)(uintptr_t)argument;
    for (unsigned taken = 0; taken < ITEMS;) {
        uint32_t changes = eventcount_prepare(&shared.room);
        if (atomic_load(&shared.items[group]) > 0) {
            atomic_fetch_sub(&shared.items[group], 1);
            taken++;
        } else {
            eventcount_wait(&shared.room, changes, 1u << group);
        }
    }
}

static void put_items(void *argument)
{
    unsigned group = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < ITEMS; i++) {
        atomic_fetch_add(&shared.items[group], 1);
        eventcount_notify(&shared.room, 1u << group);
    }
}

static void run(void)
{
    memset(&shared, 0, sizeof shared);
    for (unsigned group = 0; group < WORKERS; group++) {
        explore_thread(0, take_items, (void *)(uintptr_t)group);
        explore_thread(0, put_items, (void *)(uintptr_t)group);
    }
    explore_wait_for_threads();
}

EXPLORE_HARNESS(explore_eventcount) = {
    .name = "eventcount",
    .invariant = "nobody sleeps while there is something for its group",
    .run = run,
};
