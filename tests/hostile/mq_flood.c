/*
 * mq_flood QUEUE THREADS PRIORITY [SIZE]: a hostile user. So many threads (0: it only looks whether
 * it may) send garbage of SIZE bytes (48; at most what the queue takes) to the queue for ever,
 * asleep in mq_send while it is full. Ends when it may not, or no more, open the queue: exit 2.
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES 8192

static mqd_t queue;
static unsigned priority;
static size_t size = 48;

static void *flood(void *unused)
{
    (void)unused;
    static const char garbage[MAX_BYTES] = "garbage";
    while (mq_send(queue, garbage, size, priority) == 0 || errno == EINTR)
        ;
    fprintf(stderr, "mq_flood: %s\n", strerror(errno));
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 1;
    queue = mq_open(argv[1], O_WRONLY | O_CLOEXEC);
    if (queue == (mqd_t)-1) {
        fprintf(stderr, "mq_flood: %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    priority = (unsigned)strtoul(argv[3], NULL, 10);
    if (argc > 4)
        size = strtoul(argv[4], NULL, 10);
    if (size > MAX_BYTES)
        return 1;
    pthread_t thread;
    if (strtoul(argv[2], NULL, 10) == 0)
        return 0;
    for (unsigned long i = strtoul(argv[2], NULL, 10); i > 0; i--)
        if (pthread_create(&thread, NULL, flood, NULL) != 0)
            return 1;
    pause();
    return 0;
}
