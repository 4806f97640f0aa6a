/*
 * Each call after each other one, in threads that nothing but the lock puts in order: the flag
 * between them is relaxed. So the thread sanitizer finds a race whenever there is one, not by luck.
 */
#include <err.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "rwlock.h"

static struct rwlock lock;
static atomic_int turn;
static long sum;

static void read_once(void)
{
    rwlock_read_lock(&lock);
    if (sum < 0)
        puts("never");
    rwlock_read_unlock(&lock);
}

static void write_once(void)
{
    rwlock_write_lock(&lock);
    sum++;
    rwlock_write_unlock(&lock);
}

static void (*const calls[])(void) = {read_once, write_once};

static void *take_turns(void *number)
{
    int me = *(int *)number;
    for (int i = 0; i < 8; i++) {
        while (atomic_load_explicit(&turn, memory_order_relaxed) != 2 * i + me)
            sched_yield();
        calls[me == 0 ? i & 1 : i >> 1 & 1]();
        atomic_store_explicit(&turn, 2 * i + me + 1, memory_order_relaxed);
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[2];
    int numbers[] = {0, 1};
    if (count != 2 || strcmp(words[1], "race") != 0)
        errx(2, "usage: race race");
    rwlock_init(&lock);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, take_turns, &numbers[i]) != 0)
            err(2, "pthread_create");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    rwlock_destroy(&lock);
    puts("race: done");
    return 0;
}
