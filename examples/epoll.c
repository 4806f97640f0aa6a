/*
 * epoll: a program with an event loop of its own: it stores and reads many values without ever
 * waiting for one of them, while a timer of its own ticks. With mqkv installed:
 *     cc epoll.c $(pkg-config --cflags --libs libclientk) -o epoll
 */
#include <mqkv/clientk.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define KEYS 1000

struct counts {
    unsigned stored, read, failed;
};

/* Called by clientk_pipeline_process for each operation that is complete. */
static void complete(void *context, void *tag, const struct clientk_result *result)
{
    struct counts *counts = context;
    if (result->status != KV_OK)
        counts->failed++;
    else if (tag)
        counts->read++;
    else
        counts->stored++;
}

/* Submits a put and a get of the key: on one key, operations take effect in the order of
 * submission. */
static enum kv_status submit(struct clientk_pipeline *pipeline, unsigned number)
{
    static char is_get;
    char key[32];
    snprintf(key, sizeof key, "epoll %u", number);
    struct clientk_operation put = {.opcode = CLIENTK_PUT,
                                    .key = kv_slice_from_string(key),
                                    .value = kv_slice_from_string("value")};
    struct clientk_operation get = {.opcode = CLIENTK_GET, .key = put.key};
    enum kv_status status = clientk_pipeline_submit(pipeline, &put, NULL);
    return status == KV_OK ? clientk_pipeline_submit(pipeline, &get, &is_get) : status;
}

/* Waits for both descriptors until nothing is pending; counts the ticks. */
static enum kv_status run(struct clientk_pipeline *pipeline, int loop, int timer, unsigned *ticks)
{
    int descriptor = clientk_pipeline_fd(pipeline);
    enum kv_status status = clientk_pipeline_process(pipeline); /* sends what was submitted */
    while (status == KV_OK && clientk_pipeline_pending(pipeline) > 0) {
        struct epoll_event events[2];
        int count = epoll_wait(loop, events, 2, -1);
        for (int i = 0; i < count; i++) {
            uint64_t expirations;
            if (events[i].data.fd == descriptor)
                status = clientk_pipeline_process(pipeline);
            else if (read(timer, &expirations, sizeof expirations) > 0)
                *ticks += (unsigned)expirations;
        }
    }
    return status;
}

static int watch(int loop, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = descriptor}};
    return epoll_ctl(loop, EPOLL_CTL_ADD, descriptor, &event);
}

int main(void)
{
    struct clientk *client;
    struct clientk_pipeline *pipeline;
    struct counts counts = {0, 0, 0};
    struct kv_error error = {0};
    if (clientk_open(NULL, &client, &error) != KV_OK ||
        clientk_pipeline_open(client, 0, 0, complete, &counts, &pipeline, &error) != KV_OK) {
        fprintf(stderr, "epoll: %s\n", error.text);
        return 3;
    }

    struct itimerspec every_ms = {.it_interval = {.tv_nsec = 1000000},
                                  .it_value = {.tv_nsec = 1000000}};
    int loop = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int descriptor = clientk_pipeline_fd(pipeline);
    if (descriptor < 0 || watch(loop, descriptor) != 0 || watch(loop, timer) != 0 ||
        timerfd_settime(timer, 0, &every_ms, NULL) != 0) {
        fprintf(stderr, "epoll: no event loop (%s)\n", clientk_last_error());
        return 4;
    }

    enum kv_status status = KV_OK;
    for (unsigned i = 0; i < KEYS && status == KV_OK; i++)
        status = submit(pipeline, i);
    unsigned ticks = 0;
    if (status == KV_OK)
        status = run(pipeline, loop, timer, &ticks);
    if (status != KV_OK)
        fprintf(stderr, "epoll: %s\n", clientk_last_error());
    printf("%u stored, %u read, %u failed; the loop went on%s\n", counts.stored, counts.read,
           counts.failed, ticks > 0 ? ", and its timer ticked" : "");

    close(timer);
    close(loop);
    clientk_pipeline_close(pipeline);
    clientk_close(client);
    return status == KV_OK && counts.failed == 0 ? 0 : 4;
}
