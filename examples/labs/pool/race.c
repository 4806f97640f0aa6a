/*
 * Each call after each other one, in threads that nothing but the queue and the pool put in order:
 * the flag between them is relaxed. So the thread sanitizer finds a race whenever there is one. A
 * pool has one thread here: of several, chance would decide which is woken.
 */
#include <err.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "pool.h"

#define POOLS 4
#define CALLS 12

static struct queue queue;
static struct pool pools[POOLS];
static atomic_int turn;

static void nothing(void *unused)
{
    (void)unused;
}

/* First the jobs: of each pool the first thread has the first, which starts it, and the second one
 * the next. Then the queue. */
static void call(int number)
{
    void *item;
    if (number < 2 * POOLS)
        pool_submit(&pools[number / 2], nothing, NULL);
    else if (number % 4 < 2)
        queue_put(&queue, &queue);
    else
        queue_take(&queue, &item);
}

static void *take_turns(void *number)
{
    for (int i = *(int *)number; i < 2 * POOLS + CALLS; i += 2) {
        while (atomic_load_explicit(&turn, memory_order_relaxed) != i)
            sched_yield();
        call(i);
        atomic_store_explicit(&turn, i + 1, memory_order_relaxed);
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[2];
    int numbers[] = {0, 1};
    if (count != 2 || strcmp(words[1], "race") != 0)
        errx(2, "usage: race race");
    queue_init(&queue, 8);
    for (int i = 0; i < POOLS; i++)
        pool_init(&pools[i], 1, 4);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, take_turns, &numbers[i]) != 0)
            err(2, "pthread_create");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < POOLS; i++)
        pool_close(&pools[i]);
    puts("race: done");
    return 0;
}
