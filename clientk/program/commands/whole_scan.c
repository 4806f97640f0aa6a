#include "clientk/program/commands/whole_scan.h"

#include <inttypes.h>
#include <stdio.h>

struct run {
    const struct whole_scan *scan;
    uint64_t visited;
    bool stopped; /* the visitor ended the scan */
};

static bool count_visited(void *context, const struct clientk_entry *entry)
{
    struct run *run = context;
    run->visited++;
    run->stopped = !run->scan->visit(run->scan->context, entry);
    return !run->stopped;
}

static void sum_up(struct cli_context *context, const char *command, uint64_t left_out)
{
    char sentence[224];
    snprintf(sentence, sizeof sentence,
             "%" PRIu64 " damaged or unreadable record%s left out, all others are here; with the "
             "server stopped, kvcheck --salvage also looks for older values of their keys",
             left_out, left_out == 1 ? " is" : "s are");
    output_failure(&context->output, command, KV_CORRUPT, sentence);
}

enum kv_status whole_scan_run(struct cli_context *context, const struct whole_scan *scan,
                              uint64_t *left_out)
{
    struct run run = {.scan = scan};
    uint64_t cursor = 0, before;
    enum kv_status status;
    *left_out = 0;
    do {
        before = cursor;
        status = clientk_scan(context->client, scan->prefix, scan->keys_only, &cursor,
                              scan->limit > 0 ? scan->limit - run.visited : 0, count_visited, &run);
        bool passed_over = (status == KV_CORRUPT || status == KV_IO) && cursor != before;
        if (status != KV_OK && !passed_over)
            return status;
        if (passed_over && (*left_out)++ < WHOLE_SCAN_TOLD)
            output_failure(&context->output, scan->command, status, cli_sentence(status));
    } while (status != KV_OK && cursor != 0 && !run.stopped &&
             (scan->limit == 0 || run.visited < scan->limit));
    if (*left_out > 0)
        sum_up(context, scan->command, *left_out);
    return KV_OK;
}
