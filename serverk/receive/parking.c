#include "serverk/receive/parking.h"

#include <pthread.h>
#include <stdlib.h>

struct crew {
    pthread_mutex_t lock; /* everything below but max_on_duty */
    pthread_cond_t called;
    unsigned max_on_duty;
    unsigned on_duty; /* those that were called but have not run yet included */
    unsigned away;
    unsigned parked;
    unsigned calls; /* parked workers that may go */
    bool stopped;
};

struct crew *crew_create(unsigned workers, unsigned max_on_duty)
{
    struct crew *crew = calloc(1, sizeof *crew);
    if (!crew)
        return NULL;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->called, NULL);
    crew->max_on_duty = max_on_duty;
    crew->on_duty = workers;
    return crew;
}

void crew_free(struct crew *crew)
{
    if (!crew)
        return;
    pthread_cond_destroy(&crew->called);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

/* holds: lock. */
static void call_one(struct crew *crew)
{
    if (crew->parked == 0 || crew->on_duty >= crew->max_on_duty)
        return;
    crew->parked--;
    crew->on_duty++;
    crew->calls++;
    pthread_cond_signal(&crew->called);
}

bool crew_rest(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    bool last = crew->on_duty == 1 && !crew->stopped;
    if (!last && !crew->stopped) {
        crew->on_duty--;
        crew->parked++;
        while (crew->calls == 0 && !crew->stopped)
            pthread_cond_wait(&crew->called, &crew->lock);
        if (crew->calls > 0)
            crew->calls--;
    }
    pthread_mutex_unlock(&crew->lock);
    return !last;
}

void crew_call(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    call_one(crew);
    pthread_mutex_unlock(&crew->lock);
}

void crew_leave(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->on_duty--;
    crew->away++;
    if (crew->on_duty == 0)
        call_one(crew);
    pthread_mutex_unlock(&crew->lock);
}

void crew_return(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->away--;
    crew->on_duty++;
    pthread_mutex_unlock(&crew->lock);
}

void crew_stop(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->stopped = true;
    pthread_cond_broadcast(&crew->called);
    pthread_mutex_unlock(&crew->lock);
}

struct crew_counts crew_counts(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    struct crew_counts counts = {crew->on_duty, crew->away, crew->parked};
    pthread_mutex_unlock(&crew->lock);
    return counts;
}
