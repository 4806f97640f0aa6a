#include "clientk/program/bench/bench_cleanup.h"

#include <signal.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "common/report/error.h"
#include "mqkv/clientk.h"

struct cleanup {
    uint64_t done;
    enum kv_status failure;
    struct progress progress;
};

static void complete_deletion(void *context, void *tag, const struct clientk_result *result)
{
    (void)tag;
    struct cleanup *cleanup = context;
    bool gone = result->status == KV_OK || result->status == KV_NOT_FOUND;
    if (!gone && cleanup->failure == KV_OK)
        cleanup->failure = result->status;
    progress_show(&cleanup->progress, ++cleanup->done, 0);
}

static enum kv_status delete_keys(const struct bench_plan *plan, enum workload_kind kind,
                                  struct cleanup *cleanup, struct clientk_pipeline *pipeline)
{
    char key[WORKLOAD_MAX_KEY_BYTES];
    enum kv_status status = KV_OK;
    bench_plan_begin_key(plan, key);
    for (uint64_t i = 0; i < plan->options.keys && status == KV_OK && cleanup->failure == KV_OK &&
                         !interrupt_pending();
         i++) {
        bench_plan_end_key(plan, key, kind, i);
        struct clientk_operation operation = {
            .opcode = CLIENTK_DELETE, .key = kv_slice(key, (size_t)plan->options.key_bytes)};
        status = clientk_pipeline_submit(pipeline, &operation, NULL);
    }
    return status;
}

/* Deletes the keys of each letter that keys begin with. */
static enum kv_status delete_bench_keys(const struct bench_plan *plan, struct cleanup *cleanup,
                                        struct clientk_pipeline *pipeline)
{
    const uint32_t *weights = plan->mix.weights;
    enum kv_status status = KV_OK;
    if (weights[WORKLOAD_ADD] > 0)
        status = delete_keys(plan, WORKLOAD_ADD, cleanup, pipeline);
    if (status == KV_OK && weights[WORKLOAD_APPEND] > 0)
        status = delete_keys(plan, WORKLOAD_APPEND, cleanup, pipeline);
    if (status == KV_OK && (plan->options.preload || plan->mix.total > weights[WORKLOAD_ADD]))
        status = delete_keys(plan, WORKLOAD_PUT, cleanup, pipeline);
    return status;
}

static enum kv_status run_cleanup(const struct cli_context *context, const struct bench_plan *plan,
                                  struct kv_error *error)
{
    struct clientk *client;
    struct clientk_pipeline *pipeline = NULL;
    struct cleanup cleanup = {0};
    enum kv_status status = cli_open_client(context, true, &client, error);
    if (status != KV_OK)
        return status;
    status = clientk_pipeline_open(client, 0, 0, complete_deletion, &cleanup, &pipeline, error);
    if (status == KV_OK) {
        progress_start(&cleanup.progress, "keys deleted", false);
        status = delete_bench_keys(plan, &cleanup, pipeline);
        enum kv_status flushed = clientk_pipeline_flush(pipeline);
        if (status == KV_OK)
            status = cleanup.failure != KV_OK ? cleanup.failure : flushed;
        if (status != KV_OK)
            kv_error_set(error, status, "deleting the keys of the bench: %s",
                         kv_status_text(status));
        clientk_pipeline_close(pipeline);
        progress_end(&cleanup.progress);
    }
    clientk_close(client);
    return status;
}

enum kv_status bench_cleanup(const struct cli_context *context, const struct bench_plan *plan,
                             struct kv_error *error)
{
    bool interrupted = interrupt_pending();
    interrupt_clear(); /* or calls would end at once */
    enum kv_status status = run_cleanup(context, plan, error);
    if (interrupted)
        raise(SIGINT);
    return status;
}
