#include "tools/ops/metrics_command.h"

#include <stdio.h>

#include "common/text/escape.h"

int metrics_failure(struct cli_context *context, const char *command, enum kv_status status)
{
    if (status == KV_NOT_FOUND)
        return output_failure(&context->output, command, KV_UNSUPPORTED,
                              "the server is too old to tell metrics; stats tells what it knows");
    return output_failure(&context->output, command, status, cli_sentence(status));
}

int metrics_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count)
{
    (void)options, (void)operands, (void)count;
    struct clientk_value text = {0};
    int code = cli_connect_for(context, "metrics");
    if (code != EXIT_DONE)
        return code;
    enum kv_status status = clientk_stats(context->client, METRICS_SECTION, &text);
    if (status == KV_OK)
        escape_print_document(context->output.stream, kv_slice(text.data, text.size));
    else
        code = metrics_failure(context, "metrics", status);
    clientk_value_free(&text);
    return code;
}
