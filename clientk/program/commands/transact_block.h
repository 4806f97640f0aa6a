/*
 * transact_block: a transaction over several lines of a batch or of the prompt:
 *
 *   begin [GUARD...] [--sync LEVEL]
 *   STEP            one a line
 *   else
 *   STEP
 *   commit          or abort: nothing is done
 *
 * Whoever reads lines keeps those of a block together, with their newlines, as one; they become the
 * words of one `transact` (transact_command.h).
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_TRANSACT_BLOCK_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_TRANSACT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/line.h"
#include "mqkv/error.h"

/* Returns whether a block begins, or ends, with this line. */
bool transact_block_begins(const char *text, size_t size);
bool transact_block_ends(const char *text, size_t size);

/* Replaces the words of *line by those of the command that the block is; by none if it ends with
 * abort. KV_USAGE: a line of it is wrong, or it does not end; KV_NO_MEMORY. */
enum kv_status transact_block_parse(struct line *line, const char *text, size_t size,
                                    struct kv_error *error);

/* The run of else, commit and abort where no block has begun. */
int transact_block_run(struct cli_context *context, const void *options,
                       const struct word *operands, size_t count);

#endif
