/*
 * vacancies: places for the requests that are alive at once (--dispatch thread and process), and what
 * is counted about them. Who wants a place while all are taken waits: so messages stay in the kernel's
 * queues, and then with their senders.
 *
 * The place given back last is taken first, so that few are used while few are needed.
 *
 * Threads: all calls may be made by any thread. Locks: one of its own, under which nothing is called.
 */
#ifndef MQKV_SERVERK_DISPATCH_SLOTS_H
#define MQKV_SERVERK_DISPATCH_SLOTS_H

#include <stdint.h>

struct vacancies;

struct vacancy_counts {
    unsigned places;
    unsigned live;     /* taken now */
    unsigned live_max; /* at any time */
    uint64_t started;  /* times that a place was taken */
    uint64_t waits;    /* of those, times that it had to be waited for */
    uint64_t died;     /* processes that ended without having answered */
    uint64_t
        taken_back; /* requests that the daemon then executed itself, for that or another reason */
};

/* `count` places, numbered from 0. NULL: out of memory. */
struct vacancies *vacancies_create(unsigned count);

/* NULL is harmless. */
void vacancies_free(struct vacancies *vacancies);

/* The number of a place, which is the caller's now. */
unsigned vacancies_take(struct vacancies *vacancies);
void vacancies_give(struct vacancies *vacancies, unsigned place);

/* Waits until no place is taken. */
void vacancies_wait_all(struct vacancies *vacancies);

void vacancies_count_died(struct vacancies *vacancies);
void vacancies_count_taken_back(struct vacancies *vacancies);
struct vacancy_counts vacancies_counts(struct vacancies *vacancies);

#endif
