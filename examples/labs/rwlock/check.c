/*
 * What a lock must do, under schedules that a seed decides (tests/explore/explore.h): each point at
 * which another thread may go on is tried, whatever the machine does.
 */
#include <stdatomic.h>

#include "rwlock.h"
#include "tests/explore/explore.h"

static struct rwlock lock;
static _Atomic int readers_inside, writers_inside, arrivals, entries;
static long sum; /* of what writers add; the lock guards it */

static void begin(void)
{
    bool before = explore_quietly(true);
    rwlock_init(&lock);
    readers_inside = writers_inside = arrivals = entries = 0;
    sum = 0;
    explore_quietly(before);
}

static void look(void)
{
    int readers = readers_inside, writers = writers_inside;
    EXPLORE_CHECK(writers <= 1 && (writers == 0 || readers == 0),
                  "%d writers and %d readers are inside at once", writers, readers);
}

static void read_once(void)
{
    rwlock_read_lock(&lock);
    readers_inside++;
    look();
    readers_inside--;
    rwlock_read_unlock(&lock);
}

static void write_once(void)
{
    rwlock_write_lock(&lock);
    writers_inside++;
    look();
    sum++;
    writers_inside--;
    rwlock_write_unlock(&lock);
}

static void read_three(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++)
        read_once();
}

static void write_three(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++)
        write_once();
}

/* Two of each: a writer alone, and all of them to the end. */
static void run_exclusion(void)
{
    begin();
    for (int i = 0; i < 2; i++) {
        explore_thread(0, read_three, NULL);
        explore_thread(0, write_three, NULL);
    }
    explore_wait_for_threads();
    EXPLORE_CHECK(sum == 6, "of 6 that writers added %ld are there", sum);
    rwlock_destroy(&lock);
}

EXPLORE_HARNESS(exclusion) = {
    .name = "exclusion",
    .invariant = "a writer is inside alone, and everybody gets in and out",
    .run = run_exclusion,
};

static bool is_second(const void *unused)
{
    (void)unused;
    return readers_inside == 2;
}

/* Stays until the other is inside, too. */
static void read_beside_another(void *unused)
{
    (void)unused;
    rwlock_read_lock(&lock);
    readers_inside++;
    explore_wait_until(is_second, NULL);
    rwlock_read_unlock(&lock);
}

static void run_readers_share(void)
{
    begin();
    explore_thread(0, read_beside_another, NULL);
    explore_thread(0, read_beside_another, NULL);
    explore_wait_for_threads();
    rwlock_destroy(&lock);
}

EXPLORE_HARNESS(readers_share) = {
    .name = "readers_share",
    .invariant = "two readers are inside side by side",
    .run = run_readers_share,
};
