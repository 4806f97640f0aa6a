#include "tools/ops/admin_request.h"

#include <string.h>

/* What is not found is the command, of an old server, but for a session to kill. */
static int admin_fail(struct cli_context *context, const char *name, enum kv_status status)
{
    if (status == KV_NOT_FOUND && strcmp(name, "kill") != 0)
        return output_failure(&context->output, name, KV_UNSUPPORTED,
                              "the server is too old for this command");
    return output_failure(&context->output, name, status, cli_sentence(status));
}

int admin_request(struct cli_context *context, const char *name, const char *request,
                  const char *argument, struct clientk_value *answer)
{
    int code = cli_connect_for(context, name);
    if (code != EXIT_DONE)
        return code;
    enum kv_status status =
        clientk_admin(context->client, request, kv_slice_from_string(argument), answer);
    return status == KV_OK ? EXIT_DONE : admin_fail(context, name, status);
}
