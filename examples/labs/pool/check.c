/* What a queue and a pool must do, under schedules of a seed (tests/explore/explore.h). */
#include <stdatomic.h>
#include <stdint.h>

#include "pool.h"
#include "tests/explore/explore.h"

#define ITEMS 4

static struct queue queue;
static _Atomic int taken[2 * ITEMS + 1];
static _Atomic bool closed_early;

static void begin(unsigned capacity)
{
    bool before = explore_quietly(true);
    queue_init(&queue, capacity);
    for (int i = 0; i <= 2 * ITEMS; i++)
        taken[i] = 0;
    closed_early = false;
    explore_quietly(before);
}

static void put_some(void *first)
{
    for (uintptr_t i = 0; i < ITEMS; i++)
        EXPLORE_CHECK(queue_put(&queue, (void *)((uintptr_t)first + i)),
                      "an open queue refuses an item");
}

/* Those of one thread come in their order. */
static void take_some(void *unused)
{
    uintptr_t last[2] = {0, 0};
    (void)unused;
    for (int i = 0; i < ITEMS; i++) {
        void *item = NULL;
        EXPLORE_CHECK(queue_take(&queue, &item), "an open queue says that it is closed");
        uintptr_t number = (uintptr_t)item;
        EXPLORE_CHECK(number >= 1 && number <= 2 * ITEMS, "what was taken was never put");
        int whose = number > ITEMS;
        EXPLORE_CHECK(number > last[whose], "item %d comes after item %d", (int)number,
                      (int)last[whose]);
        last[whose] = number;
        taken[number]++;
    }
}

static void run_once(unsigned capacity)
{
    begin(capacity);
    explore_thread(0, put_some, (void *)(uintptr_t)1);
    explore_thread(0, put_some, (void *)(uintptr_t)(1 + ITEMS));
    explore_thread(0, take_some, NULL);
    explore_thread(0, take_some, NULL);
    explore_wait_for_threads();
    for (int i = 1; i <= 2 * ITEMS; i++)
        EXPLORE_CHECK(taken[i] == 1, "item %d was taken %d times", i, taken[i]);
    queue_destroy(&queue);
}

static void run_each_once(void)
{
    run_once(1 + explore_random(3));
}

EXPLORE_HARNESS(each_once) = {
    .name = "each_once",
    .invariant = "each item is taken once, in order, and nobody waits for ever",
    .run = run_each_once,
};

static _Atomic int done;

static void count_job(void *unused)
{
    (void)unused;
    done++;
}

static void run_jobs_done(void)
{
    struct pool pool;
    done = 0;
    pool_init(&pool, 2, 2);
    for (int i = 0; i < 5; i++)
        EXPLORE_CHECK(pool_submit(&pool, count_job, NULL), "an open pool refuses a job");
    pool_close(&pool);
    EXPLORE_CHECK(done == 5, "of 5 jobs %d are done when the pool is closed", done);
}

EXPLORE_HARNESS(jobs_done) = {
    .name = "jobs_done",
    .invariant = "what a pool has accepted is done when it is closed",
    .run = run_jobs_done,
};
