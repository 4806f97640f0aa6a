#include "serverk/dispatch/slots.h"

#include <pthread.h>
#include <stdlib.h>

struct vacancies {
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t given;
    struct vacancy_counts counts;
    unsigned free_count; /* = counts.places - counts.live */
    unsigned free_places[];
};

struct vacancies *vacancies_create(unsigned count)
{
    struct vacancies *vacancies =
        calloc(1, sizeof *vacancies + count * sizeof vacancies->free_places[0]);
    if (!vacancies)
        return NULL;
    pthread_mutex_init(&vacancies->lock, NULL);
    pthread_cond_init(&vacancies->given, NULL);
    vacancies->counts.places = count;
    while (vacancies->free_count < count) {
        vacancies->free_places[vacancies->free_count] = count - 1 - vacancies->free_count;
        vacancies->free_count++;
    }
    return vacancies;
}

void vacancies_free(struct vacancies *vacancies)
{
    if (!vacancies)
        return;
    pthread_cond_destroy(&vacancies->given);
    pthread_mutex_destroy(&vacancies->lock);
    free(vacancies);
}

unsigned vacancies_take(struct vacancies *vacancies)
{
    struct vacancy_counts *counts = &vacancies->counts;
    pthread_mutex_lock(&vacancies->lock);
    counts->waits += vacancies->free_count == 0;
    while (vacancies->free_count == 0)
        pthread_cond_wait(&vacancies->given, &vacancies->lock);
    unsigned place = vacancies->free_places[--vacancies->free_count];
    counts->started++;
    if (++counts->live > counts->live_max)
        counts->live_max = counts->live;
    pthread_mutex_unlock(&vacancies->lock);
    return place;
}

void vacancies_give(struct vacancies *vacancies, unsigned place)
{
    pthread_mutex_lock(&vacancies->lock);
    vacancies->free_places[vacancies->free_count++] = place;
    vacancies->counts.live--;
    pthread_cond_broadcast(&vacancies->given);
    pthread_mutex_unlock(&vacancies->lock);
}

void vacancies_wait_all(struct vacancies *vacancies)
{
    pthread_mutex_lock(&vacancies->lock);
    while (vacancies->counts.live > 0)
        pthread_cond_wait(&vacancies->given, &vacancies->lock);
    pthread_mutex_unlock(&vacancies->lock);
}

static void count(struct vacancies *vacancies, uint64_t *counter)
{
    pthread_mutex_lock(&vacancies->lock);
    ++*counter;
    pthread_mutex_unlock(&vacancies->lock);
}

void vacancies_count_died(struct vacancies *vacancies)
{
    count(vacancies, &vacancies->counts.died);
}

void vacancies_count_taken_back(struct vacancies *vacancies)
{
    count(vacancies, &vacancies->counts.taken_back);
}

struct vacancy_counts vacancies_counts(struct vacancies *vacancies)
{
    pthread_mutex_lock(&vacancies->lock);
    struct vacancy_counts counts = vacancies->counts;
    pthread_mutex_unlock(&vacancies->lock);
    return counts;
}
