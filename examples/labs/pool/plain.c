/* How many jobs of a moment's sleep four threads do in a while. */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pool.h"

#define JOBS   2000
#define JOB_NS 200000

static void sleep_a_moment(void *unused)
{
    const struct timespec moment = {0, JOB_NS};
    (void)unused;
    nanosleep(&moment, NULL);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    struct pool pool;
    if (count != 2 || strcmp(words[1], "jobs") != 0)
        errx(2, "usage: plain jobs");
    pool_init(&pool, 4, QUEUE_MOST);
    double began_s = now_s();
    for (int i = 0; i < JOBS; i++)
        pool_submit(&pool, sleep_a_moment, NULL);
    pool_close(&pool);
    printf("jobs: %.1f\n", JOBS / (now_s() - began_s));
    return 0;
}
