#include "clientk/program/cli/cli_context.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/denied.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "common/report/error.h"
#include "mqkv/status.h"

/* What --direct says, "auto" too, takes precedence over the environment. */
static enum clientk_direct direct_of(const struct global_options *global)
{
    if (global->direct == CLIENTK_DIRECT_AUTO)
        unsetenv("MQKV_DIRECT");
    return global->direct > 0 ? (enum clientk_direct)global->direct : CLIENTK_DIRECT_AUTO;
}

/* The library asks now and then in what takes long. */
static bool should_stop(void)
{
    progress_show_watched();
    return interrupt_pending();
}

enum kv_status cli_open_client(const struct cli_context *context, bool patient,
                               struct clientk **client, struct kv_error *error)
{
    struct clientk_options options = {.queue = context->global.queue,
                                      .timeout_ms = (uint32_t)context->global.timeout_ms,
                                      .fail_fast_open = !context->global.wait,
                                      .fail_fast = !context->global.wait && !patient,
                                      .repeat_writes = true,
                                      .interrupted = should_stop,
                                      .spin = context->global.spin,
                                      .replies = context->global.replies,
                                      .direct = direct_of(&context->global),
                                      .direct_stale_ms = (uint32_t)context->global.direct_stale_ms,
                                      .server_uid = context->global.server_uid,
                                      .priority = (uint8_t)context->global.priority};
    interrupt_catch();
    enum kv_status status = clientk_open(&options, client, error);
    if (status == KV_DENIED)
        denied_explain(context->global.queue, error);
    if (status == KV_NO_SERVER)
        return kv_error_set(error, status,
                            "no server at queue %s; start one: serverk -m %s -f DIRECTORY "
                            "(clientk doctor tells more)",
                            context->global.queue, context->global.queue);
    return status;
}

enum kv_status cli_connect(struct cli_context *context, struct kv_error *error)
{
    if (context->client)
        return KV_OK;
    return cli_open_client(context, context->patient, &context->client, error);
}

int cli_connect_for(struct cli_context *context, const char *command)
{
    struct kv_error error = {0};
    enum kv_status status = cli_connect(context, &error);
    if (status == KV_OK)
        return EXIT_DONE;
    return output_failure(&context->output, command, status, error.text);
}

void cli_close(struct cli_context *context)
{
    clientk_close(context->client);
    context->client = NULL;
}

const char *cli_explain(enum kv_status status)
{
    bool interrupted = interrupt_pending();
    switch (status) {
    case KV_TIMEOUT:
        return interrupted
                   ? "interrupted before an answer came"
                   : "the server does not answer: no answer came in time (--timeout; clientk "
                     "doctor tells more)";
    case KV_DEADLINE:
        return interrupted ? "interrupted, not executed"
                           : "the server does not answer: not executed in time (--timeout; clientk "
                             "doctor tells more)";
    case KV_NO_SERVER:
        return "the server has ended and has not come back (clientk doctor tells more)";
    case KV_OUTCOME_UNKNOWN:
        return "the server ended before it answered; the write may have been executed";
    default:
        return kv_status_text(status);
    }
}

const char *cli_sentence(enum kv_status status)
{
    const char *sentence = clientk_last_error();
    bool says_more = *sentence && strcmp(sentence, kv_status_text(status)) != 0;
    return says_more ? sentence : cli_explain(status);
}

bool cli_is_clustered(const struct cli_context *context)
{
    struct clientk_value answer = {0};
    bool is = context->client && clientk_stats(context->client, "engine", &answer) == KV_OK &&
              memmem(answer.data, answer.size, "\"nats\"", sizeof "\"nats\"" - 1);
    clientk_value_free(&answer);
    return is;
}
