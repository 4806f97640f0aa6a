/*
 * cli_context: what a command works with: the global options, the connection (opened when it is
 * first needed) and where answers go. Each thread of a batch has a copy that shares the connection.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_CLI_CONTEXT_H
#define MQKV_CLIENTK_PROGRAM_CLI_CLI_CONTEXT_H

#include <stdbool.h>

#include "mqkv/clientk.h"
#include "clientk/program/cli/output.h"
#include "clientk/program/cli/global_options.h"

struct cli_context {
    struct global_options global;
    struct clientk *client; /* NULL until cli_connect */
    struct output output;
    bool patient;     /* once connected, wait out a restart of the server */
    bool interactive; /* commands come from the prompt */
    bool show_timing; /* the prompt prints how long each command took */
    bool leave;       /* the prompt must end */
};

/* Opens the connection if there is none. From then on a signal is only noted (interrupt.h) and ends
 * the waits for the server. KV_OK, or the status with a sentence that says what to do. Without
 * --wait, a missing server is an error at once. */
enum kv_status cli_connect(struct cli_context *context, struct kv_error *error);

/* Like cli_connect, but prints a failure as the answer of the command. Returns the exit code. */
int cli_connect_for(struct cli_context *context, const char *command);

/* Opens another connection with the same options; the caller closes it. */
enum kv_status cli_open_client(const struct cli_context *context, bool patient,
                               struct clientk **client, struct kv_error *error);

void cli_close(struct cli_context *context);

/* The sentence for a status if nothing but the status is known. */
const char *cli_explain(enum kv_status status);

/* Whether the store of the connected server is in a NATS cluster (serverk --engine nats), which has
 * no changes to tell and no files to copy. */
bool cli_is_clustered(const struct cli_context *context);

/* The sentence for a call of the library that failed with this status in this thread. */
const char *cli_sentence(enum kv_status status);

#endif
