/*
 * admin_request: an administrative command of the server (clientk_admin) as a command of clientk
 * makes it.
 */
#ifndef MQKV_TOOLS_OPS_ADMIN_REQUEST_H
#define MQKV_TOOLS_OPS_ADMIN_REQUEST_H

#include "clientk/program/cli/cli_context.h"

/* Connects and sends the request; prints a failure as the answer of the command `name`. Returns the
 * exit code. *answer starts from {0}, and the caller frees it in any case. */
int admin_request(struct cli_context *context, const char *name, const char *request,
                  const char *argument, struct clientk_value *answer);

#endif
