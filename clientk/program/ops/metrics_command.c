#include "clientk/program/ops/metrics_command.h"

#include <stdio.h>

#include "common/text/escape.h"

/* The section of the statistics that is this text. */
#define SECTION "metrics"

static int fail(struct cli_context *context, enum kv_status status)
{
    const char *sentence = status == KV_NOT_FOUND
                               ? "the server is too old to tell metrics; stats tells what it knows"
                               : cli_sentence(status);
    return output_failure(&context->output, "metrics",
                          status == KV_NOT_FOUND ? KV_UNSUPPORTED : status, sentence);
}

int metrics_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count)
{
    (void)options, (void)operands, (void)count;
    struct clientk_value text = {0};
    int code = cli_connect_for(context, "metrics");
    if (code != EXIT_DONE)
        return code;
    enum kv_status status = clientk_stats(context->client, SECTION, &text);
    if (status == KV_OK)
        escape_print_document(context->output.stream, kv_slice(text.data, text.size));
    else
        code = fail(context, status);
    clientk_value_free(&text);
    return code;
}
