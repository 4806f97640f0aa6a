/*
 * libuv: a counter in the loop of libuv: each completion submits the next addition, until the
 * count is reached. With mqkv and libuv installed:
 *     cc libuv.c $(pkg-config --cflags --libs libclientk libuv) -o libuv
 */
#include <mqkv/clientk.h>
#include <stdio.h>
#include <uv.h>

#define COUNT 10000

struct counter {
    uv_poll_t poll;
    struct clientk_pipeline *pipeline;
    int64_t sum;
    unsigned completed;
    enum kv_status status;
};

static void add_one(struct counter *counter)
{
    struct clientk_operation operation = {
        .opcode = CLIENTK_ADD, .key = kv_slice_from_string("libuv"), .delta = 1};
    enum kv_status status = clientk_pipeline_submit(counter->pipeline, &operation, NULL);
    if (status != KV_OK)
        counter->status = status;
}

/* Called by clientk_pipeline_process; it may submit. */
static void complete(void *context, void *tag, const struct clientk_result *result)
{
    struct counter *counter = context;
    (void)tag;
    if (result->status != KV_OK)
        counter->status = result->status;
    counter->sum = result->number;
    if (++counter->completed < COUNT && counter->status == KV_OK)
        add_one(counter);
}

/* The pipeline's descriptor is readable. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct counter *counter = poll->data;
    (void)events;
    if (status == 0)
        clientk_pipeline_process(counter->pipeline);
    if (status != 0 || clientk_pipeline_pending(counter->pipeline) == 0)
        uv_poll_stop(poll);
}

int main(void)
{
    struct clientk *client;
    struct counter counter = {.status = KV_OK};
    struct kv_error error = {0};
    if (clientk_open(NULL, &client, &error) != KV_OK ||
        clientk_pipeline_open(client, 0, 0, complete, &counter, &counter.pipeline, &error) !=
            KV_OK) {
        fprintf(stderr, "libuv: %s\n", error.text);
        return 3;
    }

    uv_loop_t *loop = uv_default_loop();
    int descriptor = clientk_pipeline_fd(counter.pipeline);
    if (descriptor < 0 || uv_poll_init(loop, &counter.poll, descriptor) != 0) {
        fprintf(stderr, "libuv: no event loop (%s)\n", clientk_last_error());
        return 4;
    }
    counter.poll.data = &counter;
    uv_poll_start(&counter.poll, UV_READABLE, on_readable);
    add_one(&counter);
    clientk_pipeline_process(counter.pipeline); /* sends it */
    uv_run(loop, UV_RUN_DEFAULT);

    if (counter.status != KV_OK)
        fprintf(stderr, "libuv: %s\n", kv_status_text(counter.status));
    printf("%u additions, the counter is %lld\n", counter.completed, (long long)counter.sum);
    uv_close((uv_handle_t *)&counter.poll, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    clientk_pipeline_close(counter.pipeline);
    clientk_close(client);
    return counter.status == KV_OK ? 0 : 4;
}
