/* What the lecturer looks at beside check.c. */
#include <stdatomic.h>
#include <stdint.h>

#include "pool.h"
#include "tests/explore/explore.h"

static struct queue queue;
static struct pool pool;
static _Atomic int put, left, refused, together, at_once;
static _Atomic int items_taken;

static void begin(void)
{
    bool before = explore_quietly(true);
    put = left = refused = together = at_once = items_taken = 0;
    explore_quietly(before);
}

static void put_five(void *unused)
{
    (void)unused;
    for (uintptr_t i = 1; i <= 5; i++) {
        queue_put(&queue, (void *)i);
        put++;
    }
}

static bool are_put(const void *number)
{
    return put >= *(const int *)number;
}

/* Waits until so many are put, and looks whether there will be more. */
static void expect_put(int number)
{
    explore_wait_until(are_put, &number);
    explore_sleep_ms(10);
    EXPLORE_CHECK(put == number, "%d items were put where there is room for %d", put, number);
}

static void run_bounded(void)
{
    void *item;
    begin();
    queue_init(&queue, 3);
    explore_thread(0, put_five, NULL);
    expect_put(3);
    queue_take(&queue, &item);
    expect_put(4);
    for (int i = 0; i < 4; i++)
        queue_take(&queue, &item);
    explore_wait_for_threads();
}

EXPLORE_HARNESS(bounded) = {
    .name = "bounded",
    .invariant = "a queue holds what it has places for, and no less",
    .run = run_bounded,
    .most_still_ms = 1,
};

static void take_to_the_end(void *unused)
{
    void *item;
    (void)unused;
    while (queue_take(&queue, &item))
        items_taken++;
    left++;
}

static void put_to_the_end(void *unused)
{
    (void)unused;
    while (queue_put(&queue, &queue))
        put++;
    refused++;
}

static void run_close_wakes_takers(void)
{
    begin();
    queue_init(&queue, 2);
    for (int i = 0; i < 3; i++)
        explore_thread(0, take_to_the_end, NULL);
    explore_sleep_ms(1);
    queue_put(&queue, &queue);
    queue_close(&queue);
    explore_wait_for_threads();
    EXPLORE_CHECK(left == 3 && items_taken == 1, "of 1 item that was put %d were taken",
                  items_taken);
}

EXPLORE_HARNESS(close_wakes_takers) = {
    .name = "close_wakes_takers",
    .invariant =
        "who waits for an item leaves when the queue is closed, and what is there is taken",
    .run = run_close_wakes_takers,
};

static void run_close_wakes_putters(void)
{
    begin();
    queue_init(&queue, 2);
    for (int i = 0; i < 3; i++)
        explore_thread(0, put_to_the_end, NULL);
    explore_sleep_ms(1);
    queue_close(&queue);
    explore_wait_for_threads();
    take_to_the_end(NULL);
    EXPLORE_CHECK(items_taken == put, "of %d items that were put %d were taken", put, items_taken);
}

EXPLORE_HARNESS(close_wakes_putters) = {
    .name = "close_wakes_putters",
    .invariant = "who waits for a place leaves when the queue is closed, and what was put is taken",
    .run = run_close_wakes_putters,
};

/* Of an hour that somebody waits, who sleeps takes no step. */
#define MOST_STEPS 300

static void run_sleeps(void)
{
    void *item;
    begin();
    queue_init(&queue, 1);
    explore_thread(0, put_five, NULL);
    explore_sleep_ms(3600000);
    for (int i = 0; i < 5; i++)
        queue_take(&queue, &item);
    explore_wait_for_threads();
    explore_thread(0, take_to_the_end, NULL);
    explore_sleep_ms(3600000);
    queue_close(&queue);
    explore_wait_for_threads();
    EXPLORE_CHECK(explore_steps() <= MOST_STEPS, "who waits for two hours takes %lu steps",
                  (unsigned long)explore_steps());
}

EXPLORE_HARNESS(sleeps) = {
    .name = "sleeps",
    .invariant = "who waits sleeps until it is woken",
    .run = run_sleeps,
};

static bool are_two_at_once(const void *unused)
{
    (void)unused;
    return at_once >= 2;
}

static void meet_another(void *unused)
{
    (void)unused;
    at_once++;
    explore_wait_until(are_two_at_once, NULL);
    together++;
}

static void run_side_by_side(void)
{
    begin();
    pool_init(&pool, 2, 1);
    pool_submit(&pool, meet_another, NULL);
    pool_submit(&pool, meet_another, NULL);
    pool_close(&pool);
    EXPLORE_CHECK(together == 2, "of 2 jobs %d are done", together);
}

EXPLORE_HARNESS(side_by_side) = {
    .name = "side_by_side",
    .invariant = "two threads do two jobs side by side",
    .run = run_side_by_side,
};

static void count_at_once(void *unused)
{
    (void)unused;
    int now = ++at_once;
    EXPLORE_CHECK(now <= 2, "a pool of 2 threads does %d jobs at once", now);
    explore_sleep_ms(1);
    at_once--;
    together++;
}

static void submit_three(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++)
        pool_submit(&pool, count_at_once, NULL);
}

/* Two threads submit the first jobs of a pool at once. */
static void run_starts_once(void)
{
    begin();
    pool_init(&pool, 2, 4);
    explore_thread(0, submit_three, NULL);
    explore_thread(0, submit_three, NULL);
    explore_wait_for_threads();
    pool_close(&pool);
    EXPLORE_CHECK(together == 6, "of 6 jobs %d are done", together);
}

EXPLORE_HARNESS(starts_once) = {
    .name = "starts_once",
    .invariant = "a pool whose first jobs come from two threads starts its threads once",
    .run = run_starts_once,
};
