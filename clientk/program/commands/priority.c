#include "clientk/program/commands/priority.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/text/parse.h"

int priority_run(struct cli_context *context, const void *options, const struct word *operands,
                 size_t count)
{
    (void)options;
    uint64_t priority = context->global.priority;
    if (count > 0) {
        if (!parse_u64(operands[0].data, 0, CLIENTK_MAX_PRIORITY, &priority))
            return output_failure(&context->output, "priority", KV_USAGE,
                                  "a priority is a number from 0 to 31; higher is served first");
        int code = cli_connect_for(context, "priority");
        if (code != EXIT_DONE)
            return code;
        clientk_set_priority(context->client, (unsigned)priority);
        context->global.priority = priority;
        return output_answer(&context->output, &(struct answer){.command = "priority"});
    }
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, priority);
    return output_answer(&context->output, &(struct answer){.command = "priority",
                                                            .text = text,
                                                            .has_number = true,
                                                            .number = (int64_t)priority});
}
