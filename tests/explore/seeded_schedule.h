/*
 * seeded_schedule: which thread goes on at each step of one schedule, decided by a seed, or read
 * from a list; and the clock, which moves with the steps. All threads are fibers of one thread, so
 * nothing here needs a lock.
 *
 * Strategies: PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte, "A randomized scheduler with
 * probabilistic guarantees of finding bugs", ASPLOS 2010): threads have random priorities, the
 * highest one goes on, and at depth - 1 random steps the one that runs falls below all others. And
 * a random walk: after a number of steps that is drawn anew each time any thread may go on.
 *
 * A decision is a hand-over, a jump of the clock to the next time-out, a delayed store that is
 * seen, a thread that stands still for a while, or a fault (a process is killed or stopped). A
 * schedule is given again by the list of its decisions, each of which is named by the thread that
 * made it and that thread's own count of steps; so a list that lacks some of them still says where
 * the others belong.
 */
#ifndef MQKV_TESTS_EXPLORE_SEEDED_SCHEDULE_H
#define MQKV_TESTS_EXPLORE_SEEDED_SCHEDULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/explore/explore.h"

#define SCHEDULE_TEXT_BYTES    512u
#define SCHEDULE_STORY_BYTES   16384u
#define SCHEDULE_MAX_DECISIONS 8192u
#define SCHEDULE_MAX_PROCESSES 8u
#define SCHEDULE_MAX_THREADS   48u

enum strategy { STRATEGY_PCT, STRATEGY_RANDOM, STRATEGY_LIST };

enum decision_kind {
    DECIDED_THREAD,
    DECIDED_CLOCK,
    DECIDED_STORE,
    DECIDED_STILL,
    DECIDED_KILL,
    DECIDED_STOP
};

struct decision {
    uint32_t thread; /* who ran */
    uint32_t kind;
    uint64_t at;   /* that thread's count of steps */
    uint32_t next; /* the thread that goes on, or the process that is killed or stopped, or how long
                       the thread stands still; of a store that is seen, the thread + FIBERS_MAX *
                       the place among its delayed ones */
    uint32_t waits;    /* the thread could not go on, or stepped back */
    const void *place; /* in the code */
};

struct schedule_plan {
    uint64_t seed;
    enum strategy strategy;
    unsigned depth;              /* PCT */
    uint64_t length;             /* PCT: how many steps the schedule is expected to have */
    bool delays_stores;          /* atomic stores may be seen late, as their orders permit */
    uint32_t most_still_ms;      /* explore.h */
    bool files_in_parts;         /* explore.h */
    const struct decision *list; /* STRATEGY_LIST */
    size_t list_count;
    bool lacks_part[EXPLORE_PARTS];
};

struct schedule_result {
    bool failed;
    char text[SCHEDULE_TEXT_BYTES]; /* what was found */
    char story[SCHEDULE_STORY_BYTES];
    size_t story_bytes;
    uint64_t steps;
    size_t decision_count;
    bool has_too_many; /* decisions; the list is cut */
    /* if all threads wait for ever: where; NULL: that one does not */
    const void *waits_at[SCHEDULE_MAX_THREADS];
    struct decision decisions[SCHEDULE_MAX_DECISIONS];
};

/* Runs `run` as the first thread of one schedule, until it returns, or something is found. */
void schedule_run(const struct schedule_plan *plan, void (*run)(void),
                  struct schedule_result *result);

/* The rest is for what the code calls instead of the C library and the sanitizer. Without a
 * schedule (before it, or in another thread of the operating system) steps are nothing. */

bool schedule_is_running(void);

/* One step, at that place of the code: another thread may go on. */
void schedule_step(const void *place);

/* One between the parts of a copy (files_in_parts), at which others go on more often. */
void schedule_file_step(const void *place);

/* Another thread may be able to go on now: with PCT it does at the next step if its priority is
 * higher. */
void schedule_note_wake(void);

/* The thread steps back behind all others that can go on. */
void schedule_yield(const void *place);

/* Sleeps until is_ready(what) holds, or until the clock has that time (UINT64_MAX: never). False:
 * the time came. */
bool schedule_wait(bool (*is_ready)(const void *what), const void *what, uint64_t until_ns,
                   const void *place);

unsigned schedule_spawn(unsigned process, void (*run)(void *), void *argument);

unsigned schedule_thread(void);  /* the number of the thread that runs */
unsigned schedule_process(void); /* and of its process */
void schedule_note_joined(unsigned thread);
pthread_t schedule_pthread(unsigned thread);
unsigned schedule_thread_of(pthread_t thread);
bool schedule_has_ended(unsigned thread); /* it returned, or will never go on */
bool schedule_is_killed(unsigned thread); /* it will never go on */

/* The process of the thread that runs is killed here. */
void schedule_lose_own(const void *place) __attribute__((noreturn));

uint64_t schedule_clock_ns(void);
uint64_t schedule_cpu_ns(void); /* that the thread has had: a jump of the clock costs none */
uint64_t schedule_random(void); /* for the code, by the seed */

void schedule_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* What pthread_setspecific has of the thread that runs (thread_calls.c). */
void thread_values_begin(void);
void thread_values_end(void);
void thread_values_forget(void); /* and which keys there are */

/* Stores that are delayed (memory_calls.c). */
bool schedule_delays_stores(void);
bool schedule_has_files_in_parts(void);
void delayed_stores_reset(void);
void delayed_stores_flush(unsigned thread);
unsigned delayed_stores_count(unsigned thread);
bool delayed_stores_show(unsigned thread, unsigned index); /* false: it may not be seen yet */
void delayed_stores_keep_order(void);

/* Where a word lies, the same for all mappings of one object. */
struct memory_place {
    uint64_t object; /* 0: memory that is not shared, and the offset is the address */
    uint64_t offset;
};
struct memory_place memory_place(const void *address);

#endif
