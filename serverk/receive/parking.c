#include "serverk/receive/parking.h"

#include <pthread.h>
#include <stdlib.h>

struct parking {
    pthread_mutex_t lock; /* everything below but max_active */
    pthread_cond_t unparked;
    unsigned max_active;
    unsigned active; /* including those that were unparked but have not run yet */
    unsigned in_long;
    unsigned parked;
    unsigned permits; /* parked workers that may wake up */
    bool stopped;
};

struct parking *parking_create(unsigned workers, unsigned max_active)
{
    struct parking *parking = calloc(1, sizeof *parking);
    if (!parking)
        return NULL;
    pthread_mutex_init(&parking->lock, NULL);
    pthread_cond_init(&parking->unparked, NULL);
    parking->max_active = max_active;
    parking->active = workers;
    return parking;
}

void parking_free(struct parking *parking)
{
    if (!parking)
        return;
    pthread_cond_destroy(&parking->unparked);
    pthread_mutex_destroy(&parking->lock);
    free(parking);
}

/* holds: lock. */
static void unpark_one(struct parking *parking)
{
    if (parking->parked == 0 || parking->active >= parking->max_active)
        return;
    parking->parked--;
    parking->active++;
    parking->permits++;
    pthread_cond_signal(&parking->unparked);
}

bool parking_park(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    bool last = parking->active == 1 && !parking->stopped;
    if (!last && !parking->stopped) {
        parking->active--;
        parking->parked++;
        while (parking->permits == 0 && !parking->stopped)
            pthread_cond_wait(&parking->unparked, &parking->lock);
        if (parking->permits > 0)
            parking->permits--;
    }
    pthread_mutex_unlock(&parking->lock);
    return !last;
}

void parking_unpark(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    unpark_one(parking);
    pthread_mutex_unlock(&parking->lock);
}

void parking_begin_long(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    parking->active--;
    parking->in_long++;
    if (parking->active == 0)
        unpark_one(parking);
    pthread_mutex_unlock(&parking->lock);
}

void parking_end_long(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    parking->in_long--;
    parking->active++;
    pthread_mutex_unlock(&parking->lock);
}

void parking_stop(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    parking->stopped = true;
    pthread_cond_broadcast(&parking->unparked);
    pthread_mutex_unlock(&parking->lock);
}

struct parking_counts parking_counts(struct parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    struct parking_counts counts = {parking->active, parking->in_long, parking->parked};
    pthread_mutex_unlock(&parking->lock);
    return counts;
}
