/* How many reads four threads do in a moment, if each takes a while. */
#include <err.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rwlock.h"

#define READ_NS    200000
#define MEASURE_NS 400000000L

static struct rwlock lock;
static atomic_bool ends;
static atomic_long reads;

static void *read_on(void *unused)
{
    const struct timespec a_while = {0, READ_NS};
    while (!ends) {
        rwlock_read_lock(&lock);
        nanosleep(&a_while, NULL);
        rwlock_read_unlock(&lock);
        reads++;
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[4];
    const struct timespec measure = {0, MEASURE_NS};
    if (count != 2 || strcmp(words[1], "readers") != 0)
        errx(2, "usage: plain readers");
    rwlock_init(&lock);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, read_on, NULL) != 0)
            err(2, "pthread_create");
    nanosleep(&measure, NULL);
    ends = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("readers: %ld\n", reads);
    return 0;
}
