#include "clientk/program/context.h"

#include <string.h>

#include "clientk/program/interrupt.h"
#include "common/error.h"
#include "mqkv/status.h"

enum kv_status context_open_client(const struct context *context, bool patient,
                                   struct clientk **client, struct kv_error *error)
{
    struct clientk_options options = {.queue = context->settings.queue,
                                      .timeout_ms = (uint32_t)context->settings.timeout_ms,
                                      .fail_fast_open = !context->settings.wait,
                                      .fail_fast = !context->settings.wait && !patient,
                                      .repeat_writes = true,
                                      .interrupted = interrupt_pending,
                                      .spin = context->settings.spin,
                                      .server_uid = context->settings.server_uid,
                                      .priority = (uint8_t)context->settings.priority};
    interrupt_catch();
    enum kv_status status = clientk_open(&options, client, error);
    if (status == KV_NO_SERVER)
        return kv_error_set(error, status,
                            "no server at queue %s; start one: serverk -m %s -f DIRECTORY "
                            "(clientk doctor looks closer)",
                            context->settings.queue, context->settings.queue);
    return status;
}

enum kv_status context_connect(struct context *context, struct kv_error *error)
{
    if (context->client)
        return KV_OK;
    return context_open_client(context, context->patient, &context->client, error);
}

int context_connect_for(struct context *context, const char *command)
{
    struct kv_error error = {0};
    enum kv_status status = context_connect(context, &error);
    if (status == KV_OK)
        return EXIT_DONE;
    return output_failure(&context->output, command, status, error.text);
}

void context_close(struct context *context)
{
    clientk_close(context->client);
    context->client = NULL;
}

const char *context_explain(enum kv_status status)
{
    bool interrupted = interrupt_pending();
    switch (status) {
    case KV_TIMEOUT:
        return interrupted
                   ? "interrupted before an answer came"
                   : "the server does not answer: no answer came in time (--timeout; clientk "
                     "doctor looks closer)";
    case KV_DEADLINE:
        return interrupted ? "interrupted, not executed"
                           : "the server does not answer: not executed in time (--timeout; clientk "
                             "doctor looks closer)";
    case KV_NO_SERVER:
        return "the server has ended, and no other has come (clientk doctor looks closer)";
    case KV_OUTCOME_UNKNOWN:
        return "the server ended before it answered; the write may have been executed";
    default:
        return kv_status_text(status);
    }
}

const char *context_sentence(enum kv_status status)
{
    const char *sentence = clientk_last_error();
    bool says_more = *sentence && strcmp(sentence, kv_status_text(status)) != 0;
    return says_more ? sentence : context_explain(status);
}
