#include "tools/ops/slow_command.h"

#include <stdio.h>
#include <string.h>

#include "tools/ops/admin_request.h"
#include "tools/ops/listing.h"

#define NAME "slow"

const struct option_row slow_option_rows[] = {
    {"clear", 0, OPTION_FLAG, NULL, "forget the requests instead of listing them",
     OPTION_FIELD(struct slow_options, clear)},
    {.name = NULL},
};
const struct slow_options slow_option_defaults = {.clear = false};

int slow_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count)
{
    static const struct listing_column columns[] = {{"time", "TIME", false},
                                                    {"work_us", "TOOK us", true},
                                                    {"lock_wait_us", "LOCKS us", true},
                                                    {"operation", "WHAT", false},
                                                    {"operations", "OPS", true},
                                                    {"session", "SESSION", true},
                                                    {"uid", "UID", true},
                                                    {"pid", "PID", true},
                                                    {"key", "KEY", false}};
    (void)operands, (void)count;
    const struct slow_options *given = options;
    struct clientk_value answer = {0};
    int code = admin_request(context, NAME, given->clear ? "slow-clear" : "slow", "", &answer);
    if (code == EXIT_DONE && given->clear)
        code = output_answer(&context->output, &(struct answer){.command = NAME});
    else if (code == EXIT_DONE && context->output.format == OUTPUT_TEXT &&
             strcmp(answer.data, "[]") == 0)
        fputs("no slow requests (config get slow says which would be)\n", context->output.stream);
    else if (code == EXIT_DONE &&
             listing_print_text(&context->output, kv_slice(answer.data, answer.size), columns,
                                sizeof columns / sizeof columns[0]) != KV_OK)
        code = output_failure(&context->output, NAME, KV_IO, "the server's answer is malformed");
    clientk_value_free(&answer);
    return code;
}
