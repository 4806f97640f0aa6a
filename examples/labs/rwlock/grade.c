/* What the lecturer looks at beside check.c. */
#include <stdatomic.h>
#include <stdint.h>

#include "rwlock.h"
#include "tests/explore/explore.h"

#define MANY 40

static struct rwlock lock;
static _Atomic bool wants, is_in;
static _Atomic bool is_here[2], has_gone[2];
static _Atomic int overtaken;

static void begin(void)
{
    bool before = explore_quietly(true);
    rwlock_init(&lock);
    wants = is_in = false;
    for (int i = 0; i < 2; i++)
        is_here[i] = has_gone[i] = false;
    overtaken = 0;
    explore_quietly(before);
}

static bool other_is_here(const void *me)
{
    int other = !*(const int *)me;
    return is_here[other] || has_gone[other];
}

/* Goes in and out, and does not leave before the other one has come: inside, or to the door. */
static void readers_come_and_go(void *number)
{
    int me = (int)(intptr_t)number;
    for (int i = 0; i < MANY && !is_in; i++) {
        bool wanted = wants;
        is_here[me] = true;
        rwlock_read_lock(&lock);
        if (wanted && !is_in)
            overtaken++;
        explore_wait_until(other_is_here, &me);
        explore_sleep_ms(1); /* time for it to get in, if it may */
        rwlock_read_unlock(&lock);
        is_here[me] = false;
    }
    has_gone[me] = true;
}

static void one_writes(void *unused)
{
    (void)unused;
    explore_sleep_ms(3);
    wants = true;
    rwlock_write_lock(&lock);
    is_in = true;
    rwlock_write_unlock(&lock);
}

/* Those that came before, and those that had just looked whether a writer waits. */
#define MOST_OVERTAKING 8

static void run_writer_starves(void)
{
    begin();
    for (intptr_t i = 0; i < 2; i++)
        explore_thread(0, readers_come_and_go, (void *)i);
    explore_thread(0, one_writes, NULL);
    explore_wait_for_threads();
    EXPLORE_CHECK(overtaken <= MOST_OVERTAKING,
                  "%d readers that came after a writer got in before it", overtaken);
    rwlock_destroy(&lock);
}

EXPLORE_HARNESS(writer_starves) = {
    .name = "writer_starves",
    .invariant = "readers that come and go do not keep a writer out",
    .run = run_writer_starves,
    .most_still_ms = 1,
};

static void write_in_turn(void *unused)
{
    (void)unused;
    for (int i = 0; i < MANY && !is_in; i++) {
        bool wanted = wants;
        rwlock_write_lock(&lock);
        if (wanted && !is_in)
            overtaken++;
        explore_sleep_ms(1); /* time for the other writer to come */
        rwlock_write_unlock(&lock);
    }
}

static void one_reads(void *unused)
{
    (void)unused;
    explore_sleep_ms(3);
    wants = true;
    rwlock_read_lock(&lock);
    is_in = true;
    rwlock_read_unlock(&lock);
}

static void run_reader_starves(void)
{
    begin();
    for (int i = 0; i < 3; i++)
        explore_thread(0, write_in_turn, NULL);
    explore_thread(0, one_reads, NULL);
    explore_wait_for_threads();
    EXPLORE_CHECK(overtaken <= MOST_OVERTAKING,
                  "%d writers that came after a reader got in before it", overtaken);
    rwlock_destroy(&lock);
}

EXPLORE_HARNESS(reader_starves) = {
    .name = "reader_starves",
    .invariant = "writers that come and go do not keep a reader out",
    .run = run_reader_starves,
    .most_still_ms = 1,
};

/* Everybody waits for one writer, and is let in when it leaves. */
static _Atomic int got_in;

static void wait_and_read(void *unused)
{
    (void)unused;
    rwlock_read_lock(&lock);
    got_in++;
    rwlock_read_unlock(&lock);
}

static void wait_and_write(void *unused)
{
    (void)unused;
    rwlock_write_lock(&lock);
    got_in++;
    rwlock_write_unlock(&lock);
}

static void run_wake_up(void)
{
    begin();
    got_in = 0;
    rwlock_write_lock(&lock);
    for (int i = 0; i < 3; i++)
        explore_thread(0, wait_and_read, NULL);
    for (int i = 0; i < 2; i++)
        explore_thread(0, wait_and_write, NULL);
    explore_sleep_ms(2);
    rwlock_write_unlock(&lock);
    explore_wait_for_threads();
    EXPLORE_CHECK(got_in == 5, "%d of 5 got in", got_in);
    rwlock_destroy(&lock);
}

EXPLORE_HARNESS(wake_up) = {
    .name = "wake_up",
    .invariant = "whoever waits is let in when it may: no wake-up is lost",
    .run = run_wake_up,
};

/* Of an hour that somebody waits, who sleeps takes no step. */
#define MOST_STEPS 200
static void wait_for_an_hour(void *unused)
{
    (void)unused;
    rwlock_read_lock(&lock);
    rwlock_read_unlock(&lock);
    rwlock_write_lock(&lock);
    rwlock_write_unlock(&lock);
}

static void run_sleeps(void)
{
    begin();
    rwlock_write_lock(&lock);
    explore_thread(0, wait_for_an_hour, NULL);
    explore_sleep_ms(3600000);
    rwlock_write_unlock(&lock);
    rwlock_read_lock(&lock);
    explore_sleep_ms(3600000);
    rwlock_read_unlock(&lock);
    explore_wait_for_threads();
    EXPLORE_CHECK(explore_steps() <= MOST_STEPS, "who waits for two hours takes %lu steps",
                  (unsigned long)explore_steps());
    rwlock_destroy(&lock);
}

EXPLORE_HARNESS(sleeps) = {
    .name = "sleeps",
    .invariant = "who waits sleeps until it is woken",
    .run = run_sleeps,
};
