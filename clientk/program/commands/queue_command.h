/*
 * queue_command: the command for queues for jobs, from the shell:
 *
 *   queue put|take|ack|fail|release|extend|peek|list|length|dead NAME ...
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_QUEUE_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_QUEUE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/cli_context.h"

struct queue_options {
    uint32_t priority, attempts;
    uint64_t delay_ms;   /* UINT64_MAX: not given */
    uint32_t backoff_ms; /* 0: not given */
    uint32_t lease_ms;   /* 0: not given */
    uint32_t count;
    bool wait;
    uint64_t wait_ms; /* 0: not given */
    const char *reason;
    bool bury, revive, drop;
};
extern const struct option_row queue_option_rows[];
extern const struct queue_options queue_option_defaults;

/* What the words of "queue" are: NULL behind the last one. */
const char *queue_word_name(size_t number);

int queue_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

#endif
