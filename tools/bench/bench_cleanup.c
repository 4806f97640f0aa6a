#include "tools/bench/bench_cleanup.h"

#include <signal.h>
#include <stdlib.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "mqkv/clientk.h"

/* Keys that one call deletes. */
#define CLEANUP_BATCH 256u

/* Sessions of the run that have just been closed may still be counted: how often one is asked for,
 * and the pause between. */
#define OPEN_TRIES    20u
#define OPEN_PAUSE_MS 100u

struct cleanup {
    struct clientk *client;
    uint64_t done;
    struct progress progress;
    char keys[CLEANUP_BATCH][WORKLOAD_MAX_KEY_BYTES];
    struct clientk_operation operations[CLEANUP_BATCH];
    struct clientk_result results[CLEANUP_BATCH];
};

/* By calls on the client's own session: a pipeline would need one more. */
static enum kv_status delete_batch(struct cleanup *cleanup, size_t count)
{
    enum kv_status status =
        clientk_execute(cleanup->client, cleanup->operations, count, cleanup->results);
    for (size_t i = 0; i < count && status == KV_OK; i++)
        if (cleanup->results[i].status != KV_NOT_FOUND)
            status = cleanup->results[i].status;
    cleanup->done += count;
    progress_show(&cleanup->progress, cleanup->done, 0);
    return status;
}

static enum kv_status delete_keys(const struct bench_plan *plan, enum workload_kind kind,
                                  struct cleanup *cleanup)
{
    enum kv_status status = KV_OK;
    size_t count = 0;
    for (uint64_t i = 0; i < plan->options.keys && status == KV_OK && !interrupt_pending(); i++) {
        char *key = cleanup->keys[count];
        bench_plan_begin_key(plan, key);
        bench_plan_end_key(plan, key, kind, i);
        cleanup->operations[count++] = (struct clientk_operation){
            .opcode = CLIENTK_DELETE, .key = kv_slice(key, (size_t)plan->options.key_bytes)};
        if (count == CLEANUP_BATCH) {
            status = delete_batch(cleanup, count);
            count = 0;
        }
    }
    return status == KV_OK && count > 0 && !interrupt_pending() ? delete_batch(cleanup, count)
                                                                : status;
}

/* Deletes the keys of each letter that keys begin with. */
static enum kv_status delete_bench_keys(const struct bench_plan *plan, struct cleanup *cleanup)
{
    const uint32_t *weights = plan->mix.weights;
    enum kv_status status = KV_OK;
    if (weights[WORKLOAD_ADD] > 0)
        status = delete_keys(plan, WORKLOAD_ADD, cleanup);
    if (status == KV_OK && weights[WORKLOAD_APPEND] > 0)
        status = delete_keys(plan, WORKLOAD_APPEND, cleanup);
    if (status == KV_OK && (plan->options.preload || plan->mix.total > weights[WORKLOAD_ADD]))
        status = delete_keys(plan, WORKLOAD_PUT, cleanup);
    return status;
}

static enum kv_status open_patiently(const struct cli_context *context, struct clientk **client,
                                     struct kv_error *error)
{
    enum kv_status status = cli_open_client(context, true, client, error);
    for (unsigned tries = 1; status == KV_LIMIT && tries < OPEN_TRIES && !interrupt_pending();
         tries++) {
        clock_sleep_ms(OPEN_PAUSE_MS);
        status = cli_open_client(context, true, client, error);
    }
    return status;
}

static enum kv_status run_cleanup(const struct cli_context *context, const struct bench_plan *plan,
                                  struct kv_error *error)
{
    struct cleanup *cleanup = calloc(1, sizeof *cleanup);
    if (!cleanup)
        return kv_error_set(error, KV_NO_MEMORY, "no memory");
    enum kv_status status = open_patiently(context, &cleanup->client, error);
    if (status == KV_OK) {
        progress_start(&cleanup->progress, "keys deleted", false);
        status = delete_bench_keys(plan, cleanup);
        if (status != KV_OK)
            kv_error_set(error, status, "deleting the keys of the bench: %s",
                         kv_status_text(status));
        progress_end(&cleanup->progress);
        clientk_close(cleanup->client);
    }
    free(cleanup);
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
