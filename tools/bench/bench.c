#include "tools/bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_cleanup.h"
#include "tools/bench/bench_crew.h"
#include "tools/bench/bench_keyspace.h"
#include "tools/bench/bench_report.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "common/report/error.h"

struct preload {
    uint64_t done;
    enum kv_status failure;
    struct progress progress;
};

static void complete_preload(void *context, void *tag, const struct clientk_result *result)
{
    (void)tag;
    struct preload *preload = context;
    if (result->status != KV_OK && preload->failure == KV_OK)
        preload->failure = result->status;
    progress_show(&preload->progress, ++preload->done, 0);
}

/* Puts every key that operations of this kind use. */
static enum kv_status submit_keys(const struct bench_plan *plan, enum workload_kind kind,
                                  struct preload *preload, struct clientk_pipeline *pipeline)
{
    const struct bench_options *options = &plan->options;
    struct random_state random;
    char key[WORKLOAD_MAX_KEY_BYTES];
    enum kv_status status = KV_OK;
    random_seed(&random, ~options->seed);
    bench_plan_begin_key(plan, key);
    for (uint64_t i = 0;
         i < options->keys && status == KV_OK && preload->failure == KV_OK && !interrupt_pending();
         i++) {
        bench_plan_end_key(plan, key, kind, i);
        size_t size = workload_sizes_draw(&plan->sizes, &random);
        struct clientk_operation put = {.opcode = CLIENTK_PUT,
                                        .key = kv_slice(key, (size_t)options->key_bytes),
                                        .value = kind == WORKLOAD_ADD
                                                     ? kv_slice_from_string("0")
                                                     : workload_value(plan->values, i, size)};
        status = clientk_pipeline_submit(pipeline, &put, NULL);
    }
    return status;
}

/* Puts the counters if the mix has adds, and the other keys if it has other kinds or only scans. */
static enum kv_status submit_preload(const struct bench_plan *plan, struct preload *preload,
                                     struct clientk_pipeline *pipeline)
{
    const uint32_t *weights = plan->mix.weights;
    enum kv_status status = KV_OK;
    if (weights[WORKLOAD_ADD] > 0)
        status = submit_keys(plan, WORKLOAD_ADD, preload, pipeline);
    bool others = plan->mix.total > weights[WORKLOAD_ADD] + weights[WORKLOAD_SCAN];
    if (status == KV_OK && (others || weights[WORKLOAD_ADD] == 0))
        status = submit_keys(plan, WORKLOAD_PUT, preload, pipeline);
    return status;
}

/* Puts every key of the mix once. */
static enum kv_status preload_keys(const struct cli_context *context, const struct bench_plan *plan,
                                   struct kv_error *error)
{
    struct clientk *client;
    struct clientk_pipeline *pipeline = NULL;
    struct preload preload = {0};
    enum kv_status status = cli_open_client(context, true, &client, error);
    if (status != KV_OK)
        return status;
    status = clientk_pipeline_open(client, 0, 0, complete_preload, &preload, &pipeline, error);
    if (status == KV_OK) {
        progress_start(&preload.progress, "keys preloaded", false);
        status = submit_preload(plan, &preload, pipeline);
        enum kv_status flushed = clientk_pipeline_flush(pipeline);
        if (status == KV_OK)
            status = preload.failure != KV_OK ? preload.failure : flushed;
        if (status != KV_OK)
            kv_error_set(error, status, "preloading: %s", kv_status_text(status));
        clientk_pipeline_close(pipeline);
        progress_end(&preload.progress);
    }
    clientk_close(client);
    return status;
}

/* Writes the distribution and closes the file. */
static enum kv_status write_histogram(FILE *file, const char *path,
                                      const struct histogram *histogram, struct kv_error *error)
{
    bench_report_print_distribution(file, histogram);
    bool good = !ferror(file);
    if (fclose(file) != 0 || !good)
        return kv_error_set_errno(error, "writing %.200s", path);
    return KV_OK;
}

static enum kv_status report_bench(struct cli_context *context, const struct bench_plan *plan,
                                   const struct bench_crew *crew, FILE **histogram, int *code,
                                   struct kv_error *error)
{
    enum kv_status status = KV_OK;
    struct bench_report *made = bench_report_make(plan, crew);
    if (!made)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for the report");
    bench_report_print(&context->output, made);
    if (*histogram) {
        status = write_histogram(*histogram, plan->options.histogram_path, &made->all, error);
        *histogram = NULL;
    }
    if (made->errors > 0 || made->mismatches > 0)
        *code = EXIT_REFUSED;
    free(made);
    return status;
}

static enum kv_status run_plan(struct cli_context *context, struct bench_plan *plan, int *code,
                               struct kv_error *error)
{
    const char *path = plan->options.histogram_path;
    struct bench_crew *crew = NULL;
    enum kv_status status = KV_OK;
    /* The file is opened before the run, which may take hours: an error at the end would waste
     * it. */
    FILE *histogram = path ? fopen(path, "we") : NULL;
    if (path && !histogram)
        return kv_error_set_errno(error, "cannot write %.200s", path);
    if (!cpu_list_apply(&plan->options.cpus))
        status = kv_error_set(error, KV_USAGE,
                              "--cpus: some of these CPUs are not there, or not for this process "
                              "(taskset -p $$ shows which are)");
    if (status == KV_OK)
        status = bench_keyspace_settle(context, plan, error);
    bool begun = status == KV_OK;
    if (begun && plan->options.preload)
        status = preload_keys(context, plan, error);
    if (status == KV_OK && !interrupt_pending())
        status = bench_crew_create(plan, &crew, error);
    if (status == KV_OK && crew)
        status = bench_crew_run(crew, context, error);
    if (status == KV_OK && crew)
        status = report_bench(context, plan, crew, &histogram, code, error);
    bench_crew_free(crew);
    if (histogram)
        fclose(histogram);
    if (plan->options.cleanup && begun && !interrupt_terminated()) {
        struct kv_error ignored;
        enum kv_status cleaned = bench_cleanup(context, plan, status == KV_OK ? error : &ignored);
        status = status == KV_OK ? cleaned : status;
    }
    return status;
}

int bench_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count)
{
    (void)operands, (void)count;
    struct bench_plan plan;
    struct kv_error error = {0};
    int code = EXIT_DONE;
    interrupt_catch();
    enum kv_status status = bench_plan_make(&plan, options, &error);
    if (status == KV_OK)
        status = run_plan(context, &plan, &code, &error);
    bench_plan_free(&plan);
    if (status != KV_OK)
        return output_failure(&context->output, "bench", status, error.text);
    return code;
}
