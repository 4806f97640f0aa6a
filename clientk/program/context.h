/*
 * context: what a command works with: the settings, the connection (made when it is first needed)
 * and where answers go. A batch makes a copy for each thread, which shares the connection.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CONTEXT_H
#define MQKV_CLIENTK_PROGRAM_CONTEXT_H

#include <stdbool.h>

#include "mqkv/clientk.h"
#include "clientk/program/output.h"
#include "clientk/program/settings.h"

struct context {
    struct settings settings;
    struct clientk *client; /* NULL until context_connect */
    struct output output;
    bool patient;     /* once connected, sit out a restart of the server */
    bool interactive; /* commands come from the prompt */
    bool show_timing; /* the prompt prints how long each command took */
    bool leave;       /* the prompt is to end */
};

/* Opens the connection if there is none. From then on signals are noted (interrupt.h), and cut short
 * what waits for the server. KV_OK, or the status with a sentence that says what to do.
 * No server is an error at once, unless --wait was given. */
enum kv_status context_connect(struct context *context, struct kv_error *error);

/* As context_connect, but a failure is answered in the command's name. Returns the exit code. */
int context_connect_for(struct context *context, const char *command);

/* Opens another connection with the same settings. */
enum kv_status context_open_client(const struct context *context, bool patient,
                                   struct clientk **client, struct kv_error *error);

void context_close(struct context *context);

/* The sentence for a status of which nothing more is known than the status. */
const char *context_explain(enum kv_status status);

/* The sentence for a call of the library that failed with this status in this thread. */
const char *context_sentence(enum kv_status status);

#endif
