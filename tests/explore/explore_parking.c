/* The workers that share all lanes, and the steward who looks for those that do not come back. */
#include <stdatomic.h>
#include <string.h>

#include "serverk/receive/parking.h"
#include "tests/explore/explore.h"

#define WORKERS       3u
#define PRODUCERS     2u
#define MESSAGES_EACH 5u
#define LONG_MS       10000u
#define WITHIN_MS     1000u

static struct {
    struct parking *parking;
    struct parking_place *places[WORKERS];
    _Atomic uint64_t pulses[WORKERS];
    _Atomic unsigned waiting; /* messages in the lanes */
    _Atomic unsigned handled;
    _Atomic unsigned away; /* workers that a long message keeps: one at most, once */
    _Atomic bool had_long;
    _Atomic bool stop;
} daemon;

/* What wakes a worker that sleeps on the lanes. */
static bool is_lane_ready(const void *unused)
{
    (void)unused;
    return atomic_load(&daemon.waiting) > 0 || atomic_load(&daemon.stop);
}

static bool take_message(void)
{
    unsigned waiting = atomic_load(&daemon.waiting);
    while (waiting > 0)
        if (atomic_compare_exchange_weak(&daemon.waiting, &waiting, waiting - 1))
            return true;
    return false;
}

static void serve(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;
    struct parking_place *place = daemon.places[number];
    while (!atomic_load(&daemon.stop)) {
        atomic_fetch_add(&daemon.pulses[number], 1);
        if (take_message()) {
            if (atomic_load(&daemon.waiting) > 1)
                parking_unpark(daemon.parking);
            if (explore_random(3) == 0 && !atomic_exchange(&daemon.had_long, true)) {
                atomic_fetch_add(&daemon.away, 1);
                explore_sleep_ms(LONG_MS);
                atomic_fetch_sub(&daemon.away, 1);
            }
            atomic_fetch_add(&daemon.handled, 1);
            parking_come_back(place);
        } else if (!parking_park(place)) {
            parking_fall_asleep(place);
            explore_wait_until(is_lane_ready, NULL);
            parking_wake_up(place);
        }
    }
}

static void look_after(void *unused)
{
    (void)unused;
    while (!atomic_load(&daemon.stop)) {
        explore_sleep_ms(PARKING_PATIENCE_MS);
        if (explore_timer_runs(parking_timer(daemon.parking)))
            parking_look(daemon.parking);
    }
}

static void send_messages(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < MESSAGES_EACH; i++) {
        atomic_fetch_add(&daemon.waiting, 1);
        explore_sleep_ms(explore_random(4));
    }
}

static void run(void)
{
    memset(&daemon, 0, sizeof daemon);
    daemon.parking = parking_create(WORKERS, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++)
        daemon.places[i] = parking_place(daemon.parking, i, &daemon.pulses[i]);
    for (unsigned i = 0; i < WORKERS; i++)
        explore_other_thread(0, serve, (void *)(uintptr_t)i);
    explore_other_thread(0, look_after, NULL);
    explore_sleep_ms(10); /* one sleeps on the lanes then, the others are parked */
    for (unsigned i = 0; i < PRODUCERS; i++)
        explore_thread(0, send_messages, NULL);
    explore_wait_for_threads();
    for (unsigned ms = 0;
         atomic_load(&daemon.handled) + atomic_load(&daemon.away) < PRODUCERS * MESSAGES_EACH;
         ms++) {
        EXPLORE_CHECK(ms < WITHIN_MS, "a message waits, and nobody comes for it");
        explore_sleep_ms(1);
    }
    struct parking_counts counts = parking_counts(daemon.parking);
    EXPLORE_CHECK(counts.active + counts.away + counts.parked == WORKERS,
                  "%u active, %u away, %u parked", counts.active, counts.away, counts.parked);
    atomic_store(&daemon.stop, true);
    parking_stop(daemon.parking);
    explore_wait_for_all();
    parking_free(daemon.parking);
}

EXPLORE_HARNESS(explore_parking) = {
    .name = "parking",
    .invariant = "a message is handled soon, however long other workers are away",
    .run = run,
    .most_still_ms = 100,
};
