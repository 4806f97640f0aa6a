#include "serverk/receive/parking.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"

struct parking {
    pthread_mutex_t lock; /* everything below but the constants; states change without it only
                             between ACTIVE and ASLEEP */
    pthread_cond_t unparked;
    unsigned workers, max_active; /* constant */
    int timer;                    /* constant */
    _Atomic bool timer_runs;
    unsigned active; /* including those that were unparked but have not run yet */
    unsigned away;
    uint64_t all_away_since_ns; /* while active is 0 */
    unsigned parked;
    unsigned permits; /* parked workers that may wake up */
    bool stopped;
    struct parking_place places[];
};

/* The invariant of parking.h. A permit is of a worker that counts as active already. Holds:
 * lock. */
static void assert_all_counted(const struct parking *parking)
{
    KV_ASSERT(mutex_is_held(&parking->lock));
    KV_ASSERT(parking->active + parking->away + parking->parked == parking->workers);
    KV_ASSERT(parking->permits <= parking->active);
}

void parking_free(struct parking *parking)
{
    if (!parking)
        return;
    close(parking->timer);
    pthread_cond_destroy(&parking->unparked);
    pthread_mutex_destroy(&parking->lock);
    free(parking);
}

struct parking_place *parking_place(struct parking *parking, unsigned worker,
                                    const _Atomic uint64_t *pulse)
{
    KV_ASSERT(worker < parking->workers);
    parking->places[worker].pulse = pulse;
    return &parking->places[worker];
}

int parking_timer(const struct parking *parking)
{
    return parking->timer;
}

/* Holds: lock. */
static void set_parking_timer(struct parking *parking, bool runs)
{
    struct timespec period = {.tv_nsec = runs ? PARKING_PATIENCE_MS * 1000000L : 0};
    struct itimerspec times = {period, period};
    timerfd_settime(parking->timer, 0, &times, NULL);
}

/* An active worker does not sleep. Holds: lock. */
static void run_parking_timer(struct parking *parking)
{
    if (!atomic_exchange(&parking->timer_runs, true))
        set_parking_timer(parking, true);
}

struct parking *parking_create(unsigned workers, unsigned max_active)
{
    size_t size = sizeof(struct parking) + workers * sizeof(struct parking_place);
    struct parking *parking = aligned_alloc(_Alignof(struct parking), size);
    if (!parking)
        return NULL;
    *parking = (struct parking){.workers = workers, .max_active = max_active, .active = workers};
    parking->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (parking->timer < 0) {
        free(parking);
        return NULL;
    }
    pthread_mutex_init(&parking->lock, NULL);
    pthread_cond_init(&parking->unparked, NULL);
    static const _Atomic uint64_t no_pulse;
    for (unsigned i = 0; i < workers; i++)
        parking->places[i] = (struct parking_place){.parking = parking, .pulse = &no_pulse};
    /* The first message of all may keep its worker long, when the others have parked. */
    run_parking_timer(parking);
    return parking;
}

/* Holds: lock. */
static void unpark_one(struct parking *parking)
{
    if (parking->parked == 0 || parking->active >= parking->max_active)
        return;
    parking->parked--;
    parking->active++;
    parking->permits++;
    assert_all_counted(parking);
    pthread_cond_signal(&parking->unparked);
}

/* Holds: lock. */
static void end_absence(struct parking_place *place)
{
    struct parking *parking = place->parking;
    if (atomic_load(&place->state) != PARKING_AWAY)
        return;
    KV_ASSERT(parking->away > 0);
    parking->away--;
    parking->active++;
    parking->all_away_since_ns = 0;
    atomic_store(&place->state, PARKING_ACTIVE);
    run_parking_timer(parking);
}

void parking_return(struct parking_place *place)
{
    pthread_mutex_lock(&place->parking->lock);
    end_absence(place);
    pthread_mutex_unlock(&place->parking->lock);
}

bool parking_park(struct parking_place *place)
{
    struct parking *parking = place->parking;
    pthread_mutex_lock(&parking->lock);
    end_absence(place);
    KV_ASSERT(atomic_load(&place->state) == PARKING_ACTIVE);
    bool last = parking->active == 1 && !parking->stopped;
    if (!last && !parking->stopped) {
        KV_ASSERT(parking->active > 1);
        parking->active--;
        parking->parked++;
        atomic_store(&place->state, PARKING_PARKED);
        while (parking->permits == 0 && !parking->stopped)
            pthread_cond_wait(&parking->unparked, &parking->lock);
        if (parking->permits > 0) {
            parking->permits--;
        } else { /* stopped */
            parking->parked--;
            parking->active++;
        }
        atomic_store(&place->state, PARKING_ACTIVE);
        run_parking_timer(parking);
    }
    assert_all_counted(parking);
    pthread_mutex_unlock(&parking->lock);
    return !last;
}

void parking_fall_asleep(struct parking_place *place)
{
    enum parking_state active = PARKING_ACTIVE;
    while (!atomic_compare_exchange_strong(&place->state, &active, PARKING_ASLEEP)) {
        parking_return(place);
        active = PARKING_ACTIVE;
    }
}

/* Either this sees that the timer is about to be stopped, or who stops it sees this place: all four
 * accesses are sequentially consistent. */
void parking_wake_up(struct parking_place *place)
{
    struct parking *parking = place->parking;
    KV_ASSERT(atomic_load(&place->state) == PARKING_ASLEEP); /* nobody else changes that */
    atomic_store(&place->state, PARKING_ACTIVE);
    if (atomic_load(&parking->timer_runs))
        return;
    pthread_mutex_lock(&parking->lock);
    run_parking_timer(parking);
    pthread_mutex_unlock(&parking->lock);
}

void parking_unpark(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    unpark_one(parking);
    pthread_mutex_unlock(&parking->lock);
}

/* Returns whether an active worker was there that has not gone to sleep. Holds: lock. */
static bool look_at_places(struct parking *parking)
{
    bool some_active = false;
    for (unsigned i = 0; i < parking->workers; i++) {
        struct parking_place *place = &parking->places[i];
        enum parking_state active = PARKING_ACTIVE;
        uint64_t pulse = atomic_load_explicit(place->pulse, memory_order_relaxed);
        if (atomic_load(&place->state) != PARKING_ACTIVE)
            continue;
        some_active = true;
        if (pulse == place->seen &&
            atomic_compare_exchange_strong(&place->state, &active, PARKING_AWAY)) {
            KV_ASSERT(parking->active > 0);
            parking->active--;
            parking->away++;
        }
        place->seen = pulse;
    }
    return some_active;
}

bool parking_look(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    atomic_store(&parking->timer_runs, false);
    bool some_active = look_at_places(parking);
    if (parking->active == 0)
        unpark_one(parking);
    bool all_away = parking->active == 0, were_away = parking->all_away_since_ns != 0;
    assert_all_counted(parking);
    KV_ASSERT(!all_away || parking->away == parking->workers);
    if (all_away != were_away)
        parking->all_away_since_ns = all_away ? clock_monotonic_ns() : 0;
    if (some_active || all_away)
        atomic_store(&parking->timer_runs, true);
    else if (!parking->stopped)
        set_parking_timer(parking, false);
    pthread_mutex_unlock(&parking->lock);
    return !all_away;
}

void parking_stop(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    parking->stopped = true;
    pthread_cond_broadcast(&parking->unparked);
    atomic_store(&parking->timer_runs, true);
    set_parking_timer(parking, true);
    pthread_mutex_unlock(&parking->lock);
}

struct parking_counts parking_counts(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    struct parking_counts counts = {parking->active, parking->away, parking->parked, 0};
    if (parking->active == 0 && parking->all_away_since_ns != 0)
        counts.all_away_ms = (clock_monotonic_ns() - parking->all_away_since_ns) / 1000000;
    pthread_mutex_unlock(&parking->lock);
    return counts;
}
