/*
 * cli_context: what a command works with: the settings, the connection (made when it is first needed)
 * and where answers go. A batch makes a copy for each thread, which shares the connection.
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
    bool patient;     /* once connected, sit out a restart of the server */
    bool interactive; /* commands come from the prompt */
    bool show_timing; /* the prompt prints how long each command took */
    bool leave;       /* the prompt is to end */
};

/* Opens the connection if there is none. From then on signals are noted (interrupt.h), and cut short
 * what waits for the server. KV_OK, or the status with a sentence that says what to do.
 * No server is an error at once, unless --wait was given. */
enum kv_status cli_connect(struct cli_context *context, struct kv_error *error);

/* As cli_connect, but a failure is answered in the command's name. Returns the exit code. */
int cli_connect_for(struct cli_context *context, const char *command);

/* Opens another connection with the same settings. */
enum kv_status cli_open_client(const struct cli_context *context, bool patient,
                               struct clientk **client, struct kv_error *error);

void cli_close(struct cli_context *context);

/* The sentence for a status of which nothing more is known than the status. */
const char *cli_explain(enum kv_status status);

/* The sentence for a call of the library that failed with this status in this thread. */
const char *cli_sentence(enum kv_status status);

#endif
