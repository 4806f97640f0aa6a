/*
 * help: the help texts, made from the tables of commands and options.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_HELP_H
#define MQKV_CLIENTK_PROGRAM_CLI_HELP_H

#include <stddef.h>
#include <stdio.h>

#include "clientk/program/cli/command.h"

/* `clientk -h`: one screen. */
void help_print_usage(FILE *stream);

/* Prints one command with its options. */
void help_print_command(FILE *stream, const struct command *command);

/* The `help` command: all commands, or one of them. */
int help_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
